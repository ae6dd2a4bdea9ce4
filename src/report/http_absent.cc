#include "base/error.h"
#include "report/http_server.h"

namespace trireme {

struct HttpServer::Library {};

HttpServer::HttpServer(const std::string& /*address*/, int /*port*/, HttpHandler /*handler*/) {
  Fail(
      "this program was not built with cpp-httplib, which serves the live page: install it (Debian: apt-get install "
      "libcpp-httplib-dev), configure and build again; `trireme report` writes the page as a file");
}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return 0; }
void HttpServer::Serve() {}
void HttpServer::Stop() {}

}  // namespace trireme
