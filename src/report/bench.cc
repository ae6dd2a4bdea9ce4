#include "report/bench.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "base/checksum.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/text_file.h"
#include "checkpoint/read/weight_source.h"
#include "device/device.h"
#include "device/host_cores.h"
#include "report/bench_plot.h"
#include "report/run_record.h"
#include "report/status_screen.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Ended {
  int status = 0;  // of waitpid
  bool timed_out = false;
};

// Runs a command with its output in a file; ends it, and what it started, after `timeout` seconds.
Ended RunProcess(const std::vector<std::string>& command, const std::string& log, double timeout) {
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  const pid_t child = fork();
  Require(child >= 0, "a process cannot be started: {}", std::strerror(errno));
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed study leaves no run behind that disturbs the next
    const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execvp(words[0], words.data());
    _exit(127);
  }
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout));
  Ended ended;
  while (waitpid(child, &ended.status, WNOHANG) == 0) {
    if (Clock::now() > end && !ended.timed_out) {
      ended.timed_out = true;
      kill(-child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return ended;
}

std::string LastLineOf(const std::string& path) {
  LineReader file(path);
  std::string last;
  for (std::string line; file.Next(line);) {
    last = line.empty() ? last : line;
  }
  return last.starts_with("trireme: ") ? last.substr(9) : last;
}

bool SpeaksOfMemory(const std::string& text) {
  return text.find("memory") != std::string::npos || text.find("bad_alloc") != std::string::npos;
}

std::string FailureOf(const Ended& ended, const std::string& log, double timeout) {
  if (ended.timed_out) {
    return fmt::format("timed out after {:.0f} s", timeout);
  }
  const std::string line = LastLineOf(log);
  if (WIFSIGNALED(ended.status)) {
    return WTERMSIG(ended.status) == SIGKILL ? "out of memory, or killed: " + line
                                             : fmt::format("failed: signal {}: {}", WTERMSIG(ended.status), line);
  }
  const int code = WEXITSTATUS(ended.status);
  if (code == 0) {
    return "";
  }
  return (SpeaksOfMemory(line) ? "out of memory: "
          : code == 2          ? "refused: "
                               : "failed: ") +
         (line.empty() ? fmt::format("exit code {}", code) : line);
}

double LastOf(const std::vector<double>& values) {
  return values.empty() || !std::isfinite(values.back()) ? 0 : values.back();
}

nlohmann::ordered_json ToJson(const BenchSample& sample) {
  return {{"failure", sample.failure},     {"seconds", sample.seconds}, {"samples", sample.samples},
          {"predicted", sample.predicted}, {"memory", sample.memory},   {"hardware", sample.hardware},
          {"last_loss", sample.last_loss}, {"mfu", sample.mfu}};
}

BenchSample SampleOf(const nlohmann::json& value) {
  return {.failure = value.value("failure", ""),
          .seconds = value.value("seconds", std::vector<double>{}),
          .samples = value.value("samples", std::vector<double>{}),
          .predicted = value.value("predicted", 0.0),
          .memory = value.value("memory", 0.0),
          .hardware = value.value("hardware", 0.0),
          .last_loss = value.value("last_loss", 0.0),
          .mfu = value.value("mfu", 0.0)};
}

// The quartile at `share`, by linear interpolation; sorted values.
double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

RunConfig ConfigOf(const Sweep& sweep, const SweepCase& one) {
  return LoadRecipe(sweep.recipe, one.overrides, {.read_model = ReadModel}).config;
}

// One sweep being run.
class Bench {
 public:
  Bench(const Sweep& sweep, const BenchOptions& options) : sweep_(sweep), options_(options) {
    MakeDirectories(options.folder);
    std::ifstream file(options.program, std::ios::binary);
    Hasher hasher;
    hasher.AddText(std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
    program_ = ToHex(hasher.digest());
    ReadDone();
  }

  std::vector<BenchRow> Run() {
    const int total = static_cast<int>(sweep_.cases.size()) * sweep_.repeats;
    int at = 0;
    int left = total;
    for (const SweepCase& one : sweep_.cases) {
      for (int repeat = 0; repeat < sweep_.repeats; ++repeat) {
        left -= done_.count(KeyOf(one, repeat)) != 0 ? 1 : 0;
      }
    }
    std::vector<BenchRow> rows;
    for (const SweepCase& one : sweep_.cases) {
      std::vector<BenchSample> samples;
      for (int repeat = 0; repeat < sweep_.repeats; ++repeat) {
        ++at;
        const std::string key = KeyOf(one, repeat);
        if (done_.count(key) == 0) {
          Measure(one, repeat, fmt::format("[{}/{}]", at, total));
          --left;
          Say(left);
        }
        samples.push_back(done_.at(key));
      }
      rows.push_back(RowOf(sweep_, one, samples));
      WriteTables(rows);
    }
    return rows;
  }

 private:
  // Equal for a case that would be run in the same way.
  std::string KeyOf(const SweepCase& one, int repeat) const {
    Hasher hasher;
    hasher.AddText(program_);
    hasher.AddText(sweep_.launcher);
    hasher.AddText(fmt::format("{}", sweep_.timeout));
    for (const std::string& setting : one.overrides) {
      hasher.AddText(setting);
    }
    try {
      hasher.AddText(ToToml(ConfigOf(sweep_, one)));  // the recipe and the model's file, as they are now
    } catch (const Error& error) {
      hasher.AddText(error.what());
    }
    hasher.AddNumber(sweep_.warmup);
    hasher.AddNumber(sweep_.steps);
    hasher.AddNumber(repeat);
    return ToHex(hasher.digest());
  }

  void ReadDone() {
    LineReader file(options_.folder + "/rows.jsonl");
    for (std::string line; file.Next(line);) {
      torn_ = file.torn();
      const nlohmann::json row = ParseJsonOrDiscard(line);
      if (row.is_object() && row.contains("key") && row["key"].is_string()) {
        try {
          done_[row["key"].get<std::string>()] = SampleOf(row);
        } catch (const nlohmann::json::exception&) {
          // Damaged: it is run again.
        }
      }
    }
  }

  std::vector<std::string> CommandOf(const SweepCase& one, const std::string& run) const {
    std::vector<std::string> command;
    const RunConfig config = ConfigOf(sweep_, one);
    std::istringstream words(sweep_.launcher);
    for (std::string word; words >> word;) {
      const std::size_t place = word.find("{ranks}");
      command.push_back(place == std::string::npos ? word
                                                   : word.replace(place, 7, std::to_string(config.layout.ranks())));
    }
    command.insert(command.end(), {options_.program, "train", sweep_.recipe, "--run", run, "--no-checkpoint", "--steps",
                                   std::to_string(sweep_.warmup + sweep_.steps)});
    for (const std::string& setting : one.overrides) {
      command.insert(command.end(), {"--set", setting});
    }
    return command;
  }

  // The steps from `first` on that have a time.
  static void TakeSteps(const MetricColumns& metrics, std::size_t first, BenchSample& sample) {
    std::vector<double> predicted;
    for (std::size_t i = first; i < metrics.seconds.size(); ++i) {
      if (std::isfinite(metrics.seconds[i]) && metrics.seconds[i] > 0) {
        sample.seconds.push_back(metrics.seconds[i]);
        const double batch = i < metrics.global_batch.size() ? metrics.global_batch[i] : 0;
        sample.samples.push_back(std::isfinite(batch) ? batch : 0);
        predicted.push_back(i < metrics.predicted_seconds.size() ? metrics.predicted_seconds[i] : 0);
      }
    }
    // A ramp's batches have seconds of their own, and the median of these is what is compared.
    const bool one_batch = std::set<double>(sample.samples.begin(), sample.samples.end()).size() <= 1;
    sample.predicted = one_batch || predicted.empty() ? LastOf(metrics.predicted_seconds) : MedianOf(predicted);
  }

  BenchSample RunOnce(const SweepCase& one, const std::string& run) const {
    BenchSample sample;
    try {
      const Ended ended = RunProcess(CommandOf(one, run), run + ".log", sweep_.timeout);
      sample.failure = FailureOf(ended, run + ".log", sweep_.timeout);
    } catch (const Error& error) {
      sample.failure = fmt::format("refused: {}", error.what());
    }
    if (!sample.failure.empty()) {
      return sample;
    }
    const MetricColumns metrics = ReadRun(run).metrics;
    const auto measured = static_cast<std::size_t>(std::min<std::int64_t>(sweep_.warmup, std::ssize(metrics.seconds)));
    TakeSteps(metrics, measured, sample);
    sample.memory = LastOf(metrics.memory_bytes);
    const auto median = [&](const std::vector<double>& values) {
      const double found = MedianOf({values.begin() + static_cast<std::ptrdiff_t>(measured), values.end()});
      return std::isfinite(found) ? found : 0;
    };
    sample.hardware = median(metrics.tflops);
    sample.mfu = median(metrics.share_of_peak);
    sample.last_loss = LastOf(metrics.loss);
    sample.failure = sample.seconds.empty() ? "failed: no step was measured" : "";
    return sample;
  }

  void Measure(const SweepCase& one, int repeat, const std::string& place) {
    const Clock::time_point start = Clock::now();
    const std::string key = KeyOf(one, repeat);
    const std::string run = options_.folder + "/runs/" + FolderOfCase(key);
    RemoveTree(run);
    MakeDirectories(options_.folder + "/runs");
    const BenchSample sample = RunOnce(one, run);
    done_[key] = sample;
    nlohmann::ordered_json row = {{"key", key}, {"case", one.label}, {"repeat", repeat}};
    row.update(ToJson(sample));
    std::ofstream(options_.folder + "/rows.jsonl", std::ios::app) << (torn_ ? "\n" : "") + JsonText(row) + "\n";
    torn_ = false;
    spent_.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    said_ =
        fmt::format("{} {}: {}", place, one.label.empty() ? "as the recipe is" : one.label,
                    sample.failure.empty() ? fmt::format("{:.4g} s/step", MedianOf(sample.seconds)) : sample.failure);
  }

  void Say(int left) const {
    if (options_.progress) {
      const double each = MedianOf(spent_);
      options_.progress(said_ + (left > 0 ? fmt::format("; about {} left", DurationText(each * left)) : ""));
    }
  }

  void WriteTables(const std::vector<BenchRow>& rows) const {
    const RunTable table = TableOf(rows, options_.table);
    ReplaceFile(options_.folder + "/table.txt", BenchText(table));
    ReplaceFile(options_.folder + "/table.md", ToMarkdown(table));
    ReplaceFile(options_.folder + "/table.csv", ToCsv(table));
    ReplaceFile(options_.folder + "/plot.svg", PlotOf(rows, sweep_.about));
  }

  std::string program_;  // a digest of its file: another build is another study
  const Sweep& sweep_;
  const BenchOptions& options_;
  std::map<std::string, BenchSample> done_;
  std::vector<double> spent_;
  std::string said_;
  bool torn_ = false;  // rows.jsonl ends within a line
};

// Whether the ranks of a run on this machine are more than its cores; of other machines nothing is known.
bool SharesCores(const Sweep& sweep, const RunConfig& config) {
  const bool here = IsHostDevice(config.train.device) && (sweep.launcher.empty() || sweep.devices_per_node == 0);
  return here && config.layout.ranks() > ReadHostCores().usable();
}

}  // namespace

std::string FolderOfCase(const std::string& key) { return key.substr(0, 12); }

BenchRow RowOf(const Sweep& sweep, const SweepCase& one, const std::vector<BenchSample>& samples) {
  BenchRow row{.label = one.label.empty() ? "as the recipe is" : one.label};
  try {
    row.config = ConfigOf(sweep, one);
  } catch (const Error&) {
    // The sample says why.
  }
  const int per_node = sweep.devices_per_node;
  row.nodes = per_node > 0 ? (row.config.layout.ranks() + per_node - 1) / per_node : 1;
  std::vector<double> seconds;
  std::vector<double> rates;
  std::set<double> batches;
  std::vector<double> hardware;
  std::vector<double> mfu;
  const auto whole = static_cast<double>(row.config.batch.global);
  for (const BenchSample& sample : samples) {
    row.failure = row.failure.empty() ? sample.failure : row.failure;
    seconds.insert(seconds.end(), sample.seconds.begin(), sample.seconds.end());
    for (std::size_t i = 0; i < sample.seconds.size(); ++i) {
      const bool told = i < sample.samples.size() && sample.samples[i] > 0;
      batches.insert(told ? sample.samples[i] : whole);
      rates.push_back((told ? sample.samples[i] : whole) / sample.seconds[i]);
    }
    hardware.push_back(sample.hardware);
    mfu.push_back(sample.mfu);
    row.memory = std::max(row.memory, sample.memory);
    row.predicted = sample.predicted;
  }
  if (row.failure.empty() && !seconds.empty()) {
    std::sort(seconds.begin(), seconds.end());
    row.seconds = Quantile(seconds, 0.5);
    row.spread = (Quantile(seconds, 0.75) - Quantile(seconds, 0.25)) / 2 / row.seconds;
    row.hardware = MedianOf(hardware);
    row.mfu = MedianOf(mfu);
    row.shares_cores = SharesCores(sweep, row.config);
    std::sort(rates.begin(), rates.end());
    const bool full = batches.size() == 1 && *batches.begin() == whole;
    row.samples = full ? whole : Quantile(rates, 0.5) * row.seconds;
    row.remark =
        full ? "" : fmt::format("measured with batches of {:.0f} to {:.0f}", *batches.begin(), *batches.rbegin());
  }
  return row;
}

std::vector<BenchRow> RunBench(const Sweep& sweep, const BenchOptions& options) {
  LoadRecipe(sweep.recipe, {}, {.read_model = ReadModel});  // an Error before anything is made
  return Bench(sweep, options).Run();
}

}  // namespace trireme
