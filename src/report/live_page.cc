#include "report/live_page.h"

#include <fmt/chrono.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "comm/ledger.h"
#include "report/report_page.h"
#include "report/run_names.h"
#include "report/status_screen.h"

namespace trireme {
namespace {

constexpr double kRefreshSeconds = 0.5;
constexpr std::size_t kVersionsKept = 500;

double Now() { return static_cast<double>(WallNanoseconds()) * 1e-9; }

// Takes as long whatever differs.
bool SameText(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

// "[::1]:8080" and "localhost:8080" without their ports.
std::string NameInHost(const std::string& host) {
  if (host.starts_with('[')) {
    return host.substr(0, host.find(']') + 1);
  }
  return host.substr(0, host.find(':'));
}

HttpResponse Refusal(int status, const std::string& why) {
  return {.status = status, .body = why + "\n", .headers = {}};
}

// The runs that a path names now; links that lead out of it are not followed.
std::vector<std::string> RunsBelow(const std::string& path) {
  namespace files = std::filesystem;
  if (IsRunFolder(path)) {
    return {path};
  }
  std::vector<std::string> runs;
  std::error_code status;
  for (const files::directory_entry& entry : files::directory_iterator(path, status)) {
    if (!entry.is_symlink(status) && entry.is_directory(status) && IsRunFolder(entry.path().string())) {
      runs.push_back(entry.path().string());
    }
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

}  // namespace

std::string RandomToken() {
  std::array<unsigned char, 16> bytes{};
  Require(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
          "the system gives no random numbers");
  std::string token;
  for (const unsigned char byte : bytes) {
    token += fmt::format("{:02x}", byte);
  }
  return token;
}

LivePage::LivePage(LivePageOptions options) : options_(std::move(options)) {
  for (const std::string& path : options_.paths) {
    Require(std::filesystem::is_directory(path), "'{}' is no folder: name folders of runs, or folders that hold them",
            path);
  }
  Refresh();
}

std::size_t LivePage::runs() {
  const std::scoped_lock lock(mutex_);
  return runs_.size();
}

bool LivePage::Permits(const HttpRequest& request) const {
  const std::string name = NameInHost(request.host);
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]" ||
         std::find(options_.hosts.begin(), options_.hosts.end(), name) != options_.hosts.end();
}

HttpResponse LivePage::Answer(const HttpRequest& request) {
  HttpResponse response;
  const std::size_t slash = request.path.find('/', 1);
  const std::string what = slash == std::string::npos ? "" : request.path.substr(slash);
  if (!Permits(request)) {
    response = Refusal(403, "this page is not served under that name");
  } else if (request.path.empty() ||
             !SameText(request.path.substr(1, slash == std::string::npos ? slash : slash - 1), options_.token)) {
    response = Refusal(404, "open the whole address that `trireme watch` printed");
  } else if (request.method != "GET" && request.method != "HEAD") {
    response = Refusal(405, "only GET is answered");
  } else if (what.empty()) {
    response = Refusal(308, "the page ends with /");
    response.headers["Location"] = "/" + options_.token + "/";
  } else if (what == "/") {
    response.type = "text/html; charset=utf-8";
    response.body = Page();
  } else if (what == "/changes") {
    std::int64_t since = 0;
    const auto given = request.query.find("since");
    if (given != request.query.end()) {
      std::from_chars(given->second.data(), given->second.data() + given->second.size(), since);
    }
    response.type = "application/json";
    response.body = Changes(since);
  } else {
    response = Refusal(404, "there is no such page");
  }
  response.headers.insert({{"Cache-Control", "no-store"},
                           {"Content-Security-Policy", "frame-ancestors 'none'"},
                           {"Cross-Origin-Resource-Policy", "same-origin"},
                           {"Referrer-Policy", "no-referrer"},
                           {"X-Content-Type-Options", "nosniff"}});
  return response;
}

void LivePage::Discover() {
  bool found = false;
  for (const std::string& path : options_.paths) {
    for (const std::string& folder : RunsBelow(path)) {
      const auto known = [&](const auto& watched) { return watched->follower.run().path == folder; };
      if (std::none_of(runs_.begin(), runs_.end(), known)) {
        runs_.push_back(std::make_unique<Watched>(folder));
        found = true;
      }
    }
  }
  if (!found) {
    return;
  }
  std::vector<std::string> folders;
  for (const auto& watched : runs_) {
    folders.push_back(watched->follower.run().path);
  }
  const std::vector<std::string> names = NamesOfRuns(folders);
  for (std::size_t i = 0; i < names.size(); ++i) {
    runs_[i]->follower.set_name(names[i]);
  }
}

void LivePage::Record(Watched& watched) {
  if (watched.steps.empty() || watched.follower.steps_kept() < watched.steps.back().second) {
    watched.rewritten = version_;
    watched.steps.clear();
  }
  watched.changed = version_;
  if (watched.follower.timelines_changed()) {
    watched.timelines_changed = version_;
  }
  watched.steps.emplace_back(version_, watched.follower.run().steps());
  if (watched.steps.size() > kVersionsKept) {
    watched.steps.pop_front();
  }
}

void LivePage::Refresh() {
  const double now = Now();
  if (now - refreshed_ < kRefreshSeconds) {
    return;
  }
  Discover();
  ++version_;
  for (const auto& watched : runs_) {
    if (watched->follower.Refresh() || watched->steps.empty()) {
      Record(*watched);
    }
  }
  refreshed_ = Now();
}

std::string LivePage::Page() {
  const std::scoped_lock lock(mutex_);
  Refresh();
  ReportInput input;
  input.program = options_.program;
  input.made = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)));
  input.most_points = options_.most_points;
  input.live_version = version_;
  for (const auto& watched : runs_) {
    input.runs.push_back(watched->follower.run());
  }
  return ReportHtml(input);
}

// Steps that a page of version `since` has; 0: it needs all of them.
std::int64_t LivePage::StepsKnown(const Watched& watched, std::int64_t since) {
  std::int64_t steps = 0;
  for (const auto& [version, count] : watched.steps) {
    steps = version <= since ? count : steps;
  }
  return since < watched.rewritten ? 0 : steps;
}

// Ledgers of many ranks take a while to read: they are read again after twenty times as long.
std::string LivePage::Sign(std::size_t id, Watched& watched) {
  const double now = Now();
  if (now - watched.looked >= std::max(1.0, 20 * watched.look_seconds)) {
    watched.state = StateOfRun(watched.follower.run().path);
    watched.looked = now;
    watched.look_seconds = Now() - now;
  }
  const double written = watched.follower.written();
  return JsonText(nlohmann::json{{"id", id}, {"state", watched.state}, {"silent", written > 0 ? now - written : -1.0}},
                  {.ascii = true});
}

std::string LivePage::Changes(std::int64_t since) {
  const std::scoped_lock lock(mutex_);
  Refresh();
  std::string runs;
  std::string signs;
  for (std::size_t id = 0; id < runs_.size(); ++id) {
    Watched& watched = *runs_[id];
    signs += (signs.empty() ? "" : ",") + Sign(id, watched);
    if (watched.changed > since) {
      const std::int64_t from = StepsKnown(watched, since);
      runs += fmt::format(R"({}{{"id":{},"from":{},"run":{}}})", runs.empty() ? "" : ",", id, from,
                          RunUpdate(watched.follower.run(), from, watched.timelines_changed > since));
    }
  }
  return fmt::format(R"({{"version":{},"runs":[{}],"signs":[{}]}})", version_, runs, signs);
}

}  // namespace trireme
