// Lines at the end of a file, on a disk that may be full: a line is in the file whole or not at all, and lines that the
// disk does not take stay in memory, in their order, until it does.
#pragma once

#include <deque>
#include <string>

namespace trireme {

// Appends the line and its end to the file in one piece, on a line of its own even where an earlier writer's line was
// cut short. 0, or the reason (errno) why nothing was written.
int AppendLine(int file, const std::string& line);

class LineFile {
 public:
  // Takes a descriptor opened to read and append, and closes it.
  explicit LineFile(int file) : file_(file) {}
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Writes what waits and then this line, as far as the disk takes them. 0, or why it does not take all (errno).
  int Add(std::string line);
  int Flush();
  // Lines that wait, oldest first.
  const std::deque<std::string>& waiting() const { return waiting_; }
  void DropWaiting() { waiting_.clear(); }
  // Goes on in another file, as the constructor takes it.
  void set_file(int file);
  int descriptor() const { return file_; }

 private:
  int file_;
  std::deque<std::string> waiting_;
};

}  // namespace trireme
