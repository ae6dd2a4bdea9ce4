// Draws compositions by seed, judges each, and shrinks those that are wrong.
//   compositions --first 1 --draws 40        these seeds
//   compositions --first 41 --seconds 3600   as many as fit into an hour
//   compositions --first 17 --draws 1 --keep one of them again, whose folder stays
//   compositions --summary FILE…             a table of the results in these files
// Results go to --results FILE, one JSON object a line. Exit code 1 when any is wrong.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/json_text.h"
#include "compositions/judge.h"

namespace trireme::compositions {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::uint64_t first = 1;
  std::uint64_t draws = 0;  // 0: until the time is over
  double seconds = 0;       // 0: until all are drawn
  int jobs = 1;
  bool shrinks = true;
  std::string results;
  std::vector<std::string> summary;
  Places places{.program = TRIREME_PROGRAM, .shim = TRIREME_DISK_SHIM, .scratch = "", .keeps = false};
};

void AppendLine(const std::string& path, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const std::string whole = line + "\n";
  Require(file >= 0 && write(file, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size()),
          "'{}' cannot be written", path);
  close(file);
}

std::string Describe(const Composition& composition) {
  std::string text =
      fmt::format("resumed under {}; fault {} at {:.4f}{}\n", composition.other.ToString(),
                  Name(composition.fault.kind), composition.fault.moment, composition.fault.cuts ? ", cut" : "");
  return text + ToToml(composition.config);
}

bool JudgeSeed(std::uint64_t seed, const Options& options) {
  const Composition composition = Draw(seed, options.places.scratch);
  const Verdict verdict = Judge(composition, options.places);
  const nlohmann::ordered_json row = {{"seed", seed},
                                      {"family", composition.config.model.family},
                                      {"layout", composition.config.layout.ToString()},
                                      {"staged", !composition.config.train.stages.empty()},
                                      {"fault", Name(composition.fault.kind)},
                                      {"struck", verdict.struck},
                                      {"what", verdict.fault},
                                      {"wrong", verdict.wrong}};
  AppendLine(options.results, JsonText(row));
  if (verdict.wrong.empty()) {
    return true;
  }
  std::string text = fmt::format("seed {} is wrong:\n", seed);
  for (const std::string& wrong : verdict.wrong) {
    text += "  " + wrong + "\n";
  }
  if (options.shrinks) {
    const Composition smallest = Shrink(composition, options.places);
    text += "a small composition that is wrong too: " + Describe(smallest);
  } else {
    text += Describe(composition);
  }
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  return false;
}

// Each of `jobs` processes takes every so-manieth seed. The exit code of a worker.
int Work(int worker, const Options& options, Clock::time_point begin) {
  bool all = true;
  const auto step = static_cast<std::uint64_t>(options.jobs);
  for (std::uint64_t i = static_cast<std::uint64_t>(worker); options.draws == 0 || i < options.draws; i += step) {
    if (options.seconds > 0 && std::chrono::duration<double>(Clock::now() - begin).count() > options.seconds) {
      break;
    }
    all = JudgeSeed(options.first + i, options) && all;
  }
  return all ? 0 : 1;
}

// Rows of results by seed; the last one of a seed counts.
std::map<std::uint64_t, nlohmann::json> ReadResults(const std::vector<std::string>& paths) {
  std::map<std::uint64_t, nlohmann::json> rows;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      nlohmann::json row = ParseJsonOrDiscard(line);
      if (row.is_object() && row.contains("seed")) {
        const auto seed = row["seed"].get<std::uint64_t>();
        rows[seed] = std::move(row);
      }
    }
  }
  return rows;
}

// One row of a Markdown table, after its head.
std::string Summary(const std::map<std::uint64_t, nlohmann::json>& rows) {
  std::map<std::string, int> faults;
  std::set<std::string> families;
  std::set<std::string> layouts;
  int staged = 0;
  int struck = 0;
  int wrong = 0;
  for (const auto& [seed, row] : rows) {
    families.insert(row["family"].get<std::string>());
    layouts.insert(row["layout"].get<std::string>());
    staged += row["staged"].get<bool>() ? 1 : 0;
    wrong += row["wrong"].empty() ? 0 : 1;
    if (row["struck"].get<bool>()) {
      ++struck;
      ++faults[row["fault"].get<std::string>()];
    }
  }
  if (rows.empty()) {
    return "no results\n";
  }
  return fmt::format(
      "| seeds | compositions | families | layouts | in stages | faults that struck | disk full | I/O error | killed | "
      "damaged | wrong |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
      "| {} to {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
      rows.begin()->first, rows.rbegin()->first, rows.size(), families.size(), layouts.size(), staged, struck,
      faults["full"], faults["eio"], faults["kill"], faults["damage"], wrong);
}

int Run(Options options) {
  namespace fs = std::filesystem;
  std::string scratch = (fs::temp_directory_path() / "trireme-compositions-XXXXXX").string();
  Require(mkdtemp(scratch.data()) != nullptr, "'{}' cannot be made", scratch);
  options.places.scratch = scratch;
  if (options.results.empty()) {
    options.results = scratch + "/results.jsonl";
  }
  WriteDocuments(scratch);
  const auto begin = Clock::now();
  std::vector<pid_t> workers;
  for (int worker = 0; worker < options.jobs; ++worker) {
    const pid_t child = fork();
    if (child == 0) {
      int code = 1;
      try {
        code = Work(worker, options, begin);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "compositions: %s\n", error.what());
      }
      std::fflush(stdout);
      _exit(code);
    }
    workers.push_back(child);
  }
  int code = 0;
  for (const pid_t worker : workers) {
    int status = 0;
    waitpid(worker, &status, 0);
    code |= WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }
  std::printf("%s", Summary(ReadResults({options.results})).c_str());
  std::printf("%.0f s\n", std::chrono::duration<double>(Clock::now() - begin).count());
  if (!options.places.keeps) {
    fs::remove_all(scratch);
  } else {
    std::printf("kept in %s\n", scratch.c_str());
  }
  return code;
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--keep") {
      options.places.keeps = true;
      continue;
    }
    if (name == "--no-shrink") {
      options.shrinks = false;
      continue;
    }
    if (name == "--summary") {
      options.summary.assign(argv + i + 1, argv + argc);
      return options;
    }
    Require(i + 1 < argc, "{} needs a value", name);
    const char* const value = argv[++i];
    if (name == "--first") {
      options.first = std::strtoull(value, nullptr, 10);
    } else if (name == "--draws") {
      options.draws = std::strtoull(value, nullptr, 10);
    } else if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else if (name == "--jobs") {
      options.jobs = std::max(std::atoi(value), 1);
    } else if (name == "--results") {
      options.results = value;
    } else if (name == "--program") {
      options.places.program = value;
    } else {
      Fail("'{}' is unknown: --first --draws --seconds --jobs --results --program --keep --no-shrink --summary", name);
    }
  }
  Require(options.draws > 0 || options.seconds > 0, "say how many: --draws N, or --seconds S");
  return options;
}

}  // namespace
}  // namespace trireme::compositions

int main(int argc, char** argv) {
  using namespace trireme::compositions;
  try {
    const Options options = Parse(argc, argv);
    if (!options.summary.empty()) {
      std::printf("%s", Summary(ReadResults(options.summary)).c_str());
      return 0;
    }
    return Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compositions: %s\n", error.what());
    return 2;
  }
}
