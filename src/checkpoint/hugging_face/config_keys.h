// Reads a config.json as the library that writes it does: keys may be missing or null. Remembers which keys were read,
// so that an import can say which were not.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace trireme {

class ConfigKeys {
 public:
  // Both outlive the keys.
  ConfigKeys(const nlohmann::json& root, const std::string& origin);

  bool Has(const char* key) const;
  std::int64_t Count(const char* key, std::int64_t otherwise) const;
  // Under either name; one must be there.
  std::int64_t Count(const char* key, const char* other) const;
  double Number(const char* key, double otherwise) const;
  bool Flag(const char* key, bool otherwise) const;
  std::string Text(const char* key, const char* otherwise) const;
  ConfigKeys Inner(const char* key) const;
  // A list of texts; empty where there is none.
  std::vector<std::string> Texts(const char* key) const;

  // A list of numbers; it must be there.
  std::vector<double> Numbers(const char* key) const;

  // Errors for what this program does not compute.
  void RequireFlag(const char* key, bool wanted) const;
  void RequireText(const char* key, const std::vector<std::string>& wanted) const;
  void RequireAbsent(const char* key) const;
  const std::string& origin() const { return origin_; }

  // Keys of the outermost object that nothing has asked for.
  std::vector<std::string> Unread() const;

 private:
  const nlohmann::json& root_;
  const std::string& origin_;
  std::shared_ptr<std::set<std::string>> read_;
};

}  // namespace trireme
