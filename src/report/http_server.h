// A small HTTP server: it hands every request to one function. The library is cpp-httplib, whose header only
// http_server.cc includes; http_absent.cc takes its place in a program that is built without it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace trireme {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // decoded, without the query: "/a/b"
  std::string host;    // the header Host as it was sent
  std::map<std::string, std::string> query;
};

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::map<std::string, std::string> headers;
};

// Called by several threads at once.
using HttpHandler = std::function<HttpResponse(const HttpRequest& request)>;

class HttpServer {
 public:
  // Binds to a numeric address or a name, and to the port; port 0: any free one. An Error where it cannot, or where the
  // program was built without the library.
  HttpServer(const std::string& address, int port, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  // Answers requests until Stop, which any thread may call.
  void Serve();
  void Stop();

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace trireme
