#include "apps/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "device/host_memory.h"

namespace trireme {
namespace {

constexpr const char* kOut = ".out";
constexpr const char* kErr = ".err";

}  // namespace

std::string Unwrapped(const std::string& text) { return std::regex_replace(text, std::regex("\\n {10}"), " "); }

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::size_t Outcome::messages() const {
  std::size_t count = 0;
  for (const std::string& line : Lines(err)) {
    count += line.empty() ? 0 : 1;
  }
  return count;
}

std::string ProgramUnderTest() {
  const char* const named = std::getenv("TRIREME_TEST_PROGRAM");
  return named == nullptr ? TRIREME_PROGRAM : named;
}

Workplace::Workplace() : path_((std::filesystem::temp_directory_path() / "trireme-apps-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) {
    throw std::runtime_error("no temporary folder");
  }
  // Programs under test run side by side: each rank takes one thread, whatever the cores, unless a test says otherwise.
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("XDG_CACHE_HOME", (path_ + "/.cache").c_str(), 1);
  setenv("XDG_CONFIG_HOME", (path_ + "/config").c_str(), 1);
}

Workplace::~Workplace() { std::filesystem::remove_all(path_); }

void Workplace::Write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ + "/" + name, std::ios::binary) << text;
}

std::string Workplace::Read(const std::string& name) const {
  std::ifstream file(path_ + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool Workplace::Has(const std::string& name) const { return std::filesystem::exists(path_ + "/" + name); }

pid_t Workplace::Start(const std::vector<std::string>& arguments, const std::string& program) const {
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const std::string out = path_ + "/" + kOut;
  const std::string err = path_ + "/" + kErr;
  const pid_t child = fork();
  if (child == 0) {
    // Between fork and exec only calls that are safe in a copy of a process with threads.
    const int out_file = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err_file = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int nothing = open("/dev/null", O_RDONLY);
    if (chdir(path_.c_str()) == 0 && dup2(nothing, 0) >= 0 && dup2(out_file, 1) >= 0 && dup2(err_file, 2) >= 0) {
      execv(pointers[0], pointers.data());
    }
    _exit(127);
  }
  return child;
}

Outcome Workplace::End(pid_t program, int signal) const {
  if (signal != 0) {
    kill(program, signal);
  }
  int status = 0;
  waitpid(program, &status, 0);
  return {
      .code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .out = Read(kOut), .err = Read(kErr)};
}

Outcome Workplace::Run(const std::vector<std::string>& arguments) const { return End(Start(arguments), 0); }

std::string LargeRecipe(int data_ranks) {
  // Blocks of 201 M parameters at 16 bytes.
  const std::int64_t layers = std::max<std::int64_t>(1, HostMemoryBytes() * 3 / 4 / (16 * 201'000'000LL));
  return fmt::format(
      "model = {{ layers = {}, hidden = 4096, heads = 32, vocabulary = 64, sequence = 16 }}\n"
      "layout.data = {}\nbatch.global = {}\ndata.source = 'synthetic'\ntrain.device = 'cpu'\n",
      layers, data_ranks, data_ranks);
}

std::string TinyRecipe() {
  return R"([model]
family = "gpt2"
layers = 2
hidden = 32
heads = 4
vocabulary = 256
sequence = 16
[layout]
tensor = 2
pipeline = 2
data = 2
zero = 1
micro_batch = 1
[batch]
global = 8
[train]
steps = 4
device = "cpu"
engine = "packed"
[validation]
every = 2
samples = 8
)";
}

}  // namespace trireme
