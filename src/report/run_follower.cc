#include "report/run_follower.h"

#include <sys/stat.h>

#include <fstream>
#include <utility>

#include "base/text_file.h"

namespace trireme {

RunFollower::RunFollower(std::string folder) {
  run_.path = std::move(folder);
  run_.name = NameOfRun(run_.path);
}

RunFollower::Stamp RunFollower::StampOf(const std::string& path) {
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return {};
  }
  return {.size = static_cast<std::int64_t>(about.st_size),
          .modified_ns = about.st_mtim.tv_sec * 1'000'000'000LL + about.st_mtim.tv_nsec,
          .inode = about.st_ino};
}

double RunFollower::written() const { return static_cast<double>(stamps_[0].modified_ns) * 1e-9; }

// Whether the bytes before `read_` are still the line that was read there.
bool RunFollower::EndsAsBefore() const {
  std::ifstream file(run_.path + "/metrics.jsonl", std::ios::binary);
  std::string there(last_line_.size() + 1, '\0');
  file.seekg(read_ - static_cast<std::int64_t>(there.size()));
  file.read(there.data(), static_cast<std::streamsize>(there.size()));
  return file.good() && there == last_line_ + "\n";
}

void RunFollower::FollowMetrics(const Stamp& now) {
  const bool goes_on = now.inode == stamps_[0].inode && now.size >= read_ && read_ > 0 && EndsAsBefore();
  if (!goes_on) {
    run_.metrics = {};
    run_.causes.clear();
    read_ = 0;
    last_line_.clear();
  }
  steps_kept_ = run_.steps();
  if (now.size < 0) {
    return;
  }
  LineReader file(run_.path + "/metrics.jsonl");
  file.SkipTo(read_);
  for (std::string line; file.Next(line) && !file.torn();) {
    AddMetricsLine(line, run_);
    read_ += static_cast<std::int64_t>(line.size()) + 1;
    last_line_ = line;
  }
}

bool RunFollower::Refresh() {
  steps_kept_ = run_.steps();
  timelines_changed_ = false;
  std::array<Stamp, kFiles.size()> now;
  for (std::size_t i = 0; i < kFiles.size(); ++i) {
    now[i] = StampOf(run_.path + "/" + kFiles[i]);
  }
  if (now == stamps_) {
    return false;
  }
  if (now[0] != stamps_[0]) {
    FollowMetrics(now[0]);
  }
  if (now[1] != stamps_[1]) {
    run_.timelines = now[1].size >= 0 ? ReadTrace(run_.path + "/trace.json") : std::vector<TraceTimeline>();
    timelines_changed_ = true;
  }
  for (std::size_t i = 2; i < kFiles.size(); ++i) {
    if (now[i] != stamps_[i]) {
      ReadRunFacts(run_.path, run_);
      if (now[2].size < 0) {
        run_.events.clear();
      }
      break;
    }
  }
  stamps_ = now;
  return true;
}

}  // namespace trireme
