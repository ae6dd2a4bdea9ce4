#include "report/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kThreads = 4;
constexpr std::size_t kLargestBody = 1 << 16;

HttpRequest RequestOf(const httplib::Request& asked) {
  HttpRequest request{.method = asked.method, .path = asked.path, .host = asked.get_header_value("Host"), .query = {}};
  for (const auto& [name, value] : asked.params) {
    request.query[name] = value;
  }
  return request;
}

// As a content provider: the library would compress a body that it holds, at a speed meant for files served often.
void Put(HttpResponse response, httplib::Response& answer) {
  answer.status = response.status;
  for (const auto& [name, value] : response.headers) {
    answer.set_header(name, value);
  }
  auto body = std::make_shared<const std::string>(std::move(response.body));
  answer.set_content_provider(body->size(), response.type,
                              [body](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
                                return sink.write(body->data() + offset, length);
                              });
}

}  // namespace

struct HttpServer::Library {
  httplib::Server server;
  int port = 0;
};

HttpServer::HttpServer(const std::string& address, int port, HttpHandler handler)
    : library_(std::make_unique<Library>()) {
  httplib::Server& server = library_->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_payload_max_length(kLargestBody);
  // Not SO_REUSEPORT, which the library sets: a port that another program serves is an error.
  server.set_socket_options([](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_pre_routing_handler(
      [handler = std::move(handler)](const httplib::Request& asked, httplib::Response& answer) {
        Put(handler(RequestOf(asked)), answer);
        return httplib::Server::HandlerResponse::Handled;
      });
  library_->port = port;
  if (port == 0) {
    library_->port = server.bind_to_any_port(address);
    Require(library_->port > 0, "no port of '{}' can be served", address);
  } else {
    Require(server.bind_to_port(address, port), "port {} of '{}' cannot be served: is it in use?", port, address);
  }
}

HttpServer::~HttpServer() { library_->server.stop(); }

int HttpServer::port() const { return library_->port; }

void HttpServer::Serve() { Require(library_->server.listen_after_bind(), "the server on port {} ended", port()); }

void HttpServer::Stop() { library_->server.stop(); }

}  // namespace trireme
