// The built program as a user runs it: arguments in, exit code and both outputs out, in a folder of the test's own.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace trireme {

struct Outcome {
  int code = -1;  // 128 + signal when it was killed
  std::string out;
  std::string err;
  // Lines of `err` that say something.
  std::size_t messages() const;
};

// The program that this build made, or the one that TRIREME_TEST_PROGRAM names: scripts/mutants gives one with a fault.
std::string ProgramUnderTest();

// A new folder, removed with the object; programs run in it.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const;
  std::string Read(const std::string& name) const;
  bool Has(const std::string& name) const;

  Outcome Run(const std::vector<std::string>& arguments) const;
  // Started and not waited for; End() after a signal. `program`: another one than trireme, such as a launcher.
  pid_t Start(const std::vector<std::string>& arguments, const std::string& program = ProgramUnderTest()) const;
  Outcome End(pid_t program, int signal) const;

 private:
  std::string path_;
};

// A recipe that trains within seconds on 8 ranks: tensor 2, pipeline 2, data 2, bytes of a synthetic text.
std::string TinyRecipe();
// A recipe whose every data rank takes three quarters of this machine's memory, without the copy that a save makes.
std::string LargeRecipe(int data_ranks);

std::vector<std::string> Lines(const std::string& text);
// With the broken lines of a labelled text (report/run_lines.h) whole.
std::string Unwrapped(const std::string& text);

}  // namespace trireme
