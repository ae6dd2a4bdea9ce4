// What `trireme watch` answers: the report's page, and what has changed in its runs since the page last asked. No
// socket is involved: an HttpServer hands requests over. Every answer needs the token in its path and a Host that
// names this machine, so that neither another user's program nor another site's page (DNS rebinding) gets one; only
// what RunFollower reads of run folders is in it.
//
//   GET /TOKEN/                    the page
//   GET /TOKEN/changes?since=N     {"version", "runs": [{"id", "from", "run"}], "signs": [{"id", "state", "silent"}]}
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "report/http_server.h"
#include "report/run_follower.h"

namespace trireme {

struct LivePageOptions {
  std::vector<std::string> paths;  // folders of runs, or folders that hold such; runs may appear later
  std::string program;             // "trireme 0.1.0"
  std::string token;
  std::vector<std::string> hosts;  // that requests may name besides localhost and loopback addresses
  std::int64_t most_points = 1'000'000;
};

// 128 random bits as hexadecimal digits.
std::string RandomToken();

class LivePage {
 public:
  // An Error when a path is no folder.
  explicit LivePage(LivePageOptions options);

  // Any thread.
  HttpResponse Answer(const HttpRequest& request);
  // Runs that have been found so far.
  std::size_t runs();

 private:
  struct Watched {
    explicit Watched(const std::string& folder) : follower(folder) {}
    RunFollower follower;
    std::int64_t changed = 0;  // the version in which anything did
    std::int64_t timelines_changed = 0;
    std::int64_t rewritten = 0;  // the version before which a page's steps are no longer true
    std::deque<std::pair<std::int64_t, std::int64_t>> steps;  // version, steps it had then
    std::string state;                                        // of its ledgers
    double looked = 0;                                        // when that was read
    double look_seconds = 0;                                  // how long it took
  };

  bool Permits(const HttpRequest& request) const;
  void Refresh();
  void Discover();
  void Record(Watched& watched);
  static std::string Sign(std::size_t id, Watched& watched);
  static std::int64_t StepsKnown(const Watched& watched, std::int64_t since);
  std::string Page();
  std::string Changes(std::int64_t since);

  const LivePageOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Watched>> runs_;
  std::int64_t version_ = 0;
  double refreshed_ = 0;
};

}  // namespace trireme
