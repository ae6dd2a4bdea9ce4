#include "compositions/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json_text.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/tools/reports.h"

namespace trireme::compositions {
namespace {

namespace fs = std::filesystem;

// Far beyond what any run takes on a loaded machine.
constexpr auto kMostTime = std::chrono::minutes(4);

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

pid_t Spawn(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment,
            const std::string& output) {
  const pid_t child = fork();
  if (child != 0) {
    return child;
  }
  for (const auto& [name, value] : environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  pointers.push_back(nullptr);
  const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execvp(pointers[0], pointers.data());
  _exit(127);
}

void Await(pid_t child, Start& start) {
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (!start.hung && std::chrono::steady_clock::now() - begin > kMostTime) {
      start.hung = true;
      kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  start.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  start.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void ReadReport(const std::string& path, Start& start) {
  std::ifstream file(path);
  for (std::string word, value; file >> word >> value;) {
    if (word == "struck") {
      start.struck.push_back(value);
    } else {
      start.calls = std::atoll(value.c_str());
    }
  }
}

}  // namespace

Sandbox::Sandbox(std::string folder, std::string program, std::string shim, bool keeps)
    : folder_(std::move(folder)), program_(std::move(program)), shim_(std::move(shim)), keeps_(keeps) {
  fs::create_directories(folder_);
}

Sandbox::~Sandbox() {
  std::error_code ignored;
  if (!keeps_) {
    fs::remove_all(folder_, ignored);
  }
}

Start Sandbox::Train(const std::string& name, const RunConfig& config, const Fault* fault, std::int64_t strike) const {
  const std::string recipe = Run(name) + ".toml";
  const std::string report = Run(name) + ".calls";
  const std::string output = Run(name) + ".out";
  std::ofstream(recipe) << ToToml(config);
  fs::remove(report);
  std::map<std::string, std::string> environment = {{"LD_PRELOAD", shim_},
                                                    {"TRIREME_DISK_FOLDER", Run(name) + "/"},
                                                    {"TRIREME_DISK_REPORT", report},
                                                    {"OMP_NUM_THREADS", "1"}};
  if (fault != nullptr) {
    environment["TRIREME_DISK_FAULT"] = compositions::Name(fault->kind);
    environment["TRIREME_DISK_CALL"] = std::to_string(strike);
    environment["TRIREME_DISK_CALLS"] = std::to_string(fault->calls);
  }
  Start start;
  Await(Spawn({program_, "train", recipe, "--run", Run(name)}, environment, output), start);
  start.output = ReadAll(output);
  ReadReport(report, start);
  return start;
}

void Sandbox::CopyCheckpoint(const std::string& from, std::int64_t step, const std::string& to) const {
  const std::string name = "/checkpoints/" + StepFolderName(step);
  fs::create_directories(Run(to) + "/checkpoints");
  fs::copy(Run(from) + name, Run(to) + name, fs::copy_options::recursive);
}

void Sandbox::CopyRun(const std::string& from, const std::string& to) const {
  fs::copy(Run(from), Run(to), fs::copy_options::recursive);
}

std::string Sandbox::Damage(const std::string& name, const Fault& fault) const {
  std::vector<std::string> files;
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(ListCheckpoints(Run(name) + "/checkpoints").front().path)) {
    if (entry.path().filename() == kIndexFile) {
      continue;  // a checkpoint without it is as good
    }
    files.push_back(entry.path().string());
    bytes += entry.file_size();
  }
  std::sort(files.begin(), files.end());
  auto at = static_cast<std::uintmax_t>(fault.moment * static_cast<double>(bytes));
  for (const std::string& file : files) {
    const std::uintmax_t size = fs::file_size(file);
    if (at >= size) {
      at -= size;
      continue;
    }
    if (fault.cuts) {
      fs::resize_file(file, at);
      return fmt::format("{} cut to {} of {} bytes", file, at, size);
    }
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const int value = stream.get();
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(value ^ 16));
    return fmt::format("{} has another bit at byte {} of {}", file, at, size);
  }
  return "nothing";
}

std::int64_t Sandbox::NewestStep(const std::string& name) const {
  const auto found = FindNewest(Run(name) + "/checkpoints");
  return found ? found->checkpoint.step : -1;
}

std::string Sandbox::Digest(const std::string& name) const {
  const auto found = FindNewest(Run(name) + "/checkpoints");
  return found ? ToHex(DigestOfState(CheckpointReader(found->checkpoint.path))) : "no checkpoint";
}

std::vector<Row> Sandbox::Metrics(const std::string& name) const {
  std::vector<Row> rows;
  std::ifstream file(Run(name) + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json row = ParseJsonOrDiscard(line);
    if (row.is_object() && row.contains("loss")) {
      rows.push_back({.step = row["step"].get<std::int64_t>(),
                      .loss = row["loss"].is_number() ? row["loss"].get<double>() : std::nan("")});
    }
  }
  return rows;
}

std::int64_t Sandbox::TornLines(const std::string& name) const {
  std::int64_t torn = 0;
  std::ifstream file(Run(name) + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    torn += ParseJsonOrDiscard(line).is_object() ? 0 : 1;
  }
  return torn;
}

std::map<std::string, std::vector<float>> Sandbox::Weights(const std::string& name) const {
  std::map<std::string, std::vector<float>> weights;
  const auto found = FindNewest(Run(name) + "/checkpoints");
  if (!found) {
    return weights;
  }
  const CheckpointReader reader(found->checkpoint.path);
  for (const StoredTensor& tensor : reader.tensors()) {
    if (tensor.about.kind == kMasterKind) {
      std::vector<float>& values = weights[tensor.about.name];
      values.resize(static_cast<std::size_t>(tensor.about.shape.count()));
      reader.Read(tensor, 0, values);
    }
  }
  return weights;
}

}  // namespace trireme::compositions
