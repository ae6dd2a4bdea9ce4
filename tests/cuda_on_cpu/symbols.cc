#include "cuda_on_cpu/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

// The section that GCC makes of functions with code before them.
extern "C" {
extern const std::uintptr_t __start___patchable_function_entries[] __attribute__((weak));  // NOLINT
extern const std::uintptr_t __stop___patchable_function_entries[] __attribute__((weak));   // NOLINT
}

namespace trireme::cuda_on_cpu {
namespace {

struct Function {
  std::uintptr_t first = 0;
  std::uintptr_t bytes = 0;
  std::string symbol;
};

struct Tables {
  std::vector<Function> functions;
  std::vector<SharedArray> arrays;
};

template <typename T>
T At(const std::vector<char>& file, std::size_t offset) {
  T value{};
  if (offset + sizeof(T) > file.size()) {
    throw std::runtime_error("the program's ELF file is cut short");
  }
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

Tables ReadTables() {
  std::ifstream stream("/proc/self/exe", std::ios::binary);
  const std::vector<char> file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const auto header = At<Elf64_Ehdr>(file, 0);
  Tables tables;
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto section = At<Elf64_Shdr>(file, header.e_shoff + static_cast<std::size_t>(i) * header.e_shentsize);
    if (section.sh_type != SHT_SYMTAB) {
      continue;
    }
    const auto names = At<Elf64_Shdr>(file, header.e_shoff + section.sh_link * header.e_shentsize);
    bool of_kernels = false;  // whether local symbols that follow are of a .cu file
    for (std::size_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = At<Elf64_Sym>(file, section.sh_offset + at);
      const char* const name = file.data() + names.sh_offset + symbol.st_name;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FILE) {
        of_kernels = std::string_view(name).ends_with(".cu");
      } else if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_size > 0) {
        tables.functions.push_back({ProgramImage().first + symbol.st_value, symbol.st_size, name});
      } else if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS && symbol.st_shndx != SHN_UNDEF &&
                 std::string_view(name).starts_with("_ZZ") &&
                 (of_kernels || ELF64_ST_BIND(symbol.st_info) != STB_LOCAL)) {
        tables.arrays.push_back({symbol.st_value, symbol.st_size, name, {}});
      }
    }
  }
  std::ranges::sort(tables.functions, {}, &Function::first);
  std::ranges::sort(tables.arrays, {}, &SharedArray::first);
  if (tables.functions.empty()) {
    throw std::runtime_error("the program has no symbols: it must not be stripped");
  }
  std::set<std::string_view> names;
  for (const Function& function : tables.functions) {
    names.insert(function.symbol);
  }
  // _ZZ<function>E<name> lies in _Z<function>.
  for (SharedArray& array : tables.arrays) {
    for (std::size_t at = array.symbol.find('E'); at != std::string::npos; at = array.symbol.find('E', at + 1)) {
      const std::string function = "_Z" + array.symbol.substr(3, at - 3);
      if (names.contains(function)) {
        array.owner = function;
      }
    }
  }
  return tables;
}

const Tables& Known() {
  static const Tables tables = ReadTables();
  return tables;
}

std::string ReadCommand(const std::string& command) {
  std::string output;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 4096> part{};
  while (pipe != nullptr && fgets(part.data(), part.size(), pipe.get()) != nullptr) {
    output += part.data();
  }
  return output;
}

}  // namespace

AddressRange ProgramImage() {
  static const AddressRange image = [] {
    AddressRange found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
          std::uintptr_t last = 0;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            if (info->dlpi_phdr[i].p_type == PT_LOAD) {
              last = std::max(last, info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
            }
          }
          *static_cast<AddressRange*>(data) = {info->dlpi_addr, last};
          return 1;  // the program is the first
        },
        &found);
    return found;
  }();
  return image;
}

AddressRange ThreadSegment() {
  AddressRange found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type == PT_TLS) {
            *static_cast<AddressRange*>(data) = {reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data),
                                                 info->dlpi_phdr[i].p_memsz};
          }
        }
        return 1;
      },
      &found);
  return found;
}

const std::vector<SharedArray>& SharedArrays() { return Known().arrays; }

std::vector<bool> ArraysOf(std::uintptr_t kernel) {
  const auto& functions = Known().functions;
  const auto own = std::ranges::lower_bound(functions, kernel, {}, &Function::first);
  std::vector<bool> arrays;
  for (const SharedArray& array : Known().arrays) {
    const std::string owner = Demangled(array.owner);
    const bool of_kernel = std::string_view(owner).substr(0, owner.find_first_of("<(")).ends_with("Kernel");
    arrays.push_back(!of_kernel || (own != functions.end() && own->symbol == array.owner));
  }
  return arrays;
}

std::string Demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  std::string name = status == 0 ? text.get() : symbol;
  for (const std::string_view part : {"trireme::", "(anonymous namespace)::", "plain_attention::", "cuda_on_cpu::"}) {
    for (std::size_t at = name.find(part); at != std::string::npos; at = name.find(part)) {
      name.erase(at, part.size());
    }
  }
  return name;
}

std::string FunctionName(std::uintptr_t address) {
  const auto& functions = Known().functions;
  auto after = std::ranges::upper_bound(functions, address, {}, &Function::first);
  if (after == functions.begin() || address - std::prev(after)->first >= std::prev(after)->bytes) {
    return fmt::format("{:#x}", address);
  }
  std::string name = Demangled(std::prev(after)->symbol);
  if (name.starts_with("void ")) {
    name.erase(0, 5);
  }
  // Up to the parameters: the first parenthesis outside of <>.
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) {
      return name.substr(0, i);
    }
  }
  return name;
}

std::string SourceLine(std::uintptr_t return_address) {
  static std::map<std::uintptr_t, std::string> known;
  std::string& text = known[return_address];
  if (!text.empty()) {
    return text;
  }
  // addr2line answers with a line for each function that the code was inlined into.
  std::istringstream lines(ReadCommand(fmt::format("addr2line -i -e /proc/{}/exe {:#x} 2> /dev/null", getpid(),
                                                   return_address - 1 - ProgramImage().first)));
  int places = 0;
  for (std::string line; places < 3 && std::getline(lines, line);) {
    line = line.substr(line.rfind('/') + 1);
    line = line.substr(0, line.find(' '));
    if (!line.empty() && !line.starts_with("??") && !line.starts_with("kernel_dialect.h")) {
      text += (places++ == 0 ? "" : " in ") + line;
    }
  }
  if (text.empty()) {
    text = FunctionName(return_address);
  }
  return text;
}

std::uint64_t BytesBefore(std::uintptr_t function) {
  std::uint64_t bytes = 0;
  if (__start___patchable_function_entries == nullptr) {
    return bytes;
  }
  for (const auto* entry = __start___patchable_function_entries; entry != __stop___patchable_function_entries;
       ++entry) {
    // Code of a kernel is longer than its bounds: the nearest entry before it is its own.
    if (*entry < function && function - *entry <= 4 * 1024 && (bytes == 0 || function - *entry < bytes)) {
      bytes = function - *entry;
    }
  }
  // Another function's entry lies before that function's code.
  const auto& functions = Known().functions;
  const auto after = std::ranges::lower_bound(functions, function, {}, &Function::first);
  if (after != functions.begin() && std::prev(after)->first >= function - bytes && std::prev(after)->first < function) {
    return 0;
  }
  return bytes;
}

}  // namespace trireme::cuda_on_cpu
