// Where the loader looks for libraries of the programs and libraries that this build made.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A structure of the format from `offset` of the file on; zeros beyond its end.
template <typename Part>
Part At(std::ifstream& file, std::uint64_t offset) {
  Part part = {};
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&part), sizeof(part));
  return part;
}

// The run paths (DT_RPATH, DT_RUNPATH) of a program or library of this machine's kind.
std::vector<std::string> RunPaths(std::ifstream& file) {
  const auto header = At<Elf64_Ehdr>(file, 0);
  std::vector<std::string> paths;
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto section = At<Elf64_Shdr>(file, header.e_shoff + static_cast<std::uint64_t>(i) * header.e_shentsize);
    if (section.sh_type != SHT_DYNAMIC) {
      continue;
    }
    const auto strings = At<Elf64_Shdr>(file, header.e_shoff + std::uint64_t{section.sh_link} * header.e_shentsize);
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= section.sh_size; at += sizeof(Elf64_Dyn)) {
      const auto entry = At<Elf64_Dyn>(file, section.sh_offset + at);
      if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) {
        file.clear();
        file.seekg(static_cast<std::streamoff>(strings.sh_offset + entry.d_un.d_val));
        std::getline(file, paths.emplace_back(), '\0');
      }
    }
  }
  return paths;
}

// The first entry of a run path that depends on the current folder: an empty or a relative one; "" where there is none.
std::string EntryOfCurrentFolder(const std::string& path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string entry = path.substr(begin, end - begin);
    if (!entry.starts_with('/') && !entry.starts_with("$ORIGIN") && !entry.starts_with("${ORIGIN}")) {
      return "'" + entry + "'";
    }
    begin = end + 1;
  }
  return "";
}

// Programs and libraries; objects that are still to be linked have no run path.
bool IsLinked(std::ifstream& file) {
  const auto header = At<Elf64_Ehdr>(file, 0);
  return file.good() && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         (header.e_type == ET_EXEC || header.e_type == ET_DYN);
}

TEST(BuiltPrograms, LoadNoLibraryFromTheCurrentFolder) {
  int seen = 0;
  const fs::path build = TRIREME_BUILD_DIR;
  for (auto entry = fs::recursive_directory_iterator(build); entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && entry->path() == build / "web") {
      entry.disable_recursion_pending();  // packages of the pages' tools
    }
    if (!entry->is_regular_file() || entry->is_symlink()) {
      continue;
    }
    std::ifstream file(entry->path(), std::ios::binary);
    if (!IsLinked(file)) {
      continue;
    }
    ++seen;
    for (const std::string& path : RunPaths(file)) {
      EXPECT_EQ(EntryOfCurrentFolder(path), "") << entry->path() << " has the run path '" << path << "'";
    }
  }
  EXPECT_GE(seen, 2) << "this test and the program at least";
}

TEST(BuiltPrograms, EntriesOfTheCurrentFolderAreSeen) {
  EXPECT_EQ(EntryOfCurrentFolder("/usr/lib:$ORIGIN/../lib"), "");
  for (const char* path : {"", "/usr/lib:", ":/usr/lib", "/usr/lib::/lib", "lib", "/usr/lib:./lib"}) {
    EXPECT_NE(EntryOfCurrentFolder(path), "") << path;
  }
}

}  // namespace
}  // namespace trireme
