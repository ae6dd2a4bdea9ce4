#include "fuzz/fuzz_input.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace trireme {

ScratchFolder::ScratchFolder() : path_(fmt::format("/dev/shm/trireme-fuzz-{}", getpid())) {
  std::filesystem::create_directories(path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::Write(const std::string& name, std::string_view bytes) const {
  std::string path = path_ + "/" + name;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  Require(file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
          "cannot write '{}'", path);
  close(file);
  return path;
}

void ScratchFolder::Remove(const std::string& name) const { unlink((path_ + "/" + name).c_str()); }

Container MakeContainer(FuzzInput& input) {
  constexpr std::size_t kLengthBytes = 8;
  Container container;
  const bool as_it_is = input.Byte() % 2 == 1;
  const std::uint64_t data = input.Number(3);
  const std::string_view rest = input.Rest();
  if (as_it_is) {
    std::uint64_t length = 0;
    std::memcpy(&length, rest.data(), std::min(rest.size(), kLengthBytes));
    const std::size_t header = kLengthBytes + static_cast<std::size_t>(std::min<std::uint64_t>(length, rest.size()));
    container.header = rest.substr(0, header);
    container.file_bytes = static_cast<std::int64_t>(rest.size());
    return container;
  }
  const std::uint64_t length = rest.size();
  container.header.resize(kLengthBytes);
  std::memcpy(container.header.data(), &length, kLengthBytes);
  container.header += rest;
  container.file_bytes = static_cast<std::int64_t>(container.header.size() + data);
  return container;
}

}  // namespace trireme
