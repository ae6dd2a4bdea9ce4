#include <sys/types.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "base/error.h"
#include "comm/ledger.h"
#include "measure/machine.h"
#include "report/live_page.h"
#include "report/pages.h"

namespace trireme {
namespace {

constexpr int kHighestPort = 65'535;

struct WatchCommand {
  std::vector<std::string> paths;
  std::string host = "127.0.0.1";
  int port = 0;
  std::int64_t points = 1'000'000;

  bool IsLoopback() const { return host == "127.0.0.1" || host == "localhost" || host == "::1"; }

  void Print(const LivePageOptions& options, std::size_t runs, int served) const {
    const std::string name = host == "::1" ? "[::1]" : host;
    const char* const user = std::getenv("USER");
    std::printf("%zu run%s; runs that start later appear. The page, with a token that is its only key:\n", runs,
                runs == 1 ? "" : "s");
    std::printf("  http://%s:%d/%s/\n", host == "0.0.0.0" ? HostName().c_str() : name.c_str(), served,
                options.token.c_str());
    if (IsLoopback()) {
      std::printf("From another machine, run this there and open the same address:\n  ssh -N -L %d:%s:%d %s@%s\n",
                  served, name.c_str(), served, user != nullptr ? user : "USER", HostName().c_str());
    } else {
      std::printf(
          "Served on the network without encryption: who reads the traffic reads the token. An ssh tunnel to "
          "127.0.0.1 is safer.\n");
    }
    std::printf("Ctrl-C ends it.\n");
    std::fflush(stdout);
  }

  int Run() const {
    Require(!ReportPage().empty(), "the report's page is not built in: {}", PagesAbsence());
    LivePageOptions options{.paths = paths,
                            .program = "trireme " + ProgramVersion(),
                            .token = RandomToken(),
                            .hosts = {},
                            .most_points = points};
    if (!IsLoopback()) {
      options.hosts = {host, HostName()};
    }
    LivePage page(options);
    HttpServer server(host, port, [&page](const HttpRequest& request) { return page.Answer(request); });
    Print(options, page.runs(), server.port());
    server.Serve();
    return 0;
  }
};

constexpr const char* kWatchExamples = R"(
Examples:
  trireme watch runs/
  trireme watch runs/a runs/b --port 8800

Exit codes: 0 ended; 2 a path is no folder, the port cannot be served, or the program was built without its pages or cpp-httplib.)";

}  // namespace

void AddWatchCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<WatchCommand>();
  CLI::App* watch = app.add_subcommand("watch", "Serve the report's page to a browser, with updates while runs train");
  watch->add_option("paths", command->paths, "Folders of runs, or folders that hold such; new runs appear on the page")
      ->required();
  watch->add_option("--port", command->port, "Port to serve (any free one)")->check(CLI::Range(1, kHighestPort));
  watch->add_option("--host", command->host,
                    "Address to serve on (127.0.0.1, which other machines do not reach; 0.0.0.0: all)");
  watch
      ->add_option("--points", command->points,
                   "Most steps that the page begins with; runs are thinned beyond (1000000)")
      ->check(AboveZero());
  watch->footer(kWatchExamples);
  watch->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
