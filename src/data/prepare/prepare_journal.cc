#include "data/prepare/prepare_journal.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "data/files/json_file.h"

namespace trireme {

std::optional<PrepareJournal> ReadJournal(const std::string& path) {
  if (!std::filesystem::exists(path)) {
    return std::nullopt;
  }
  try {
    const nlohmann::json json = ReadHostileJson(path, 1 << 16);
    PrepareJournal journal;
    journal.fingerprint = json.at("fingerprint").get<std::string>();
    const auto number = [&](const char* name) {
      const auto value = json.at(name).get<std::int64_t>();
      Require(value >= 0, "'{}' has {} {}", path, name, value);
      return value;
    };
    journal.position = {.file = number("file"), .offset = number("offset"), .line = number("line")};
    journal.extent = {.tokens = number("tokens"), .sequences = number("sequences"), .documents = number("documents")};
    return journal;
  } catch (const nlohmann::json::exception& error) {
    Fail("'{}' is damaged ({}): remove it to start anew", path, error.what());
  }
}

void WriteJournal(const std::string& path, const PrepareJournal& journal) {
  const nlohmann::ordered_json json = {{"fingerprint", journal.fingerprint},   {"file", journal.position.file},
                                       {"offset", journal.position.offset},    {"line", journal.position.line},
                                       {"tokens", journal.extent.tokens},      {"sequences", journal.extent.sequences},
                                       {"documents", journal.extent.documents}};
  ReplaceFile(path, JsonText(json, {.indent = 1}) + "\n");
}

}  // namespace trireme
