// A TOML file as flat keys ("links.node.bandwidth_gbs", "calibration[0].cluster"), with errors that name file, line and
// key. Cluster and stack files are read through it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trireme {

class Settings {
 public:
  // An Error names the line of the first mistake.
  static Settings FromText(const std::string& text, const std::string& origin);
  static Settings FromFile(const std::string& path);

  bool Has(const std::string& key) const;
  // Without a fallback a missing key is an Error; so is a value of another type.
  double Number(const std::string& key) const;
  double Number(const std::string& key, double fallback) const;
  // A number above 0, and below 1e18.
  double Positive(const std::string& key) const;
  double Positive(const std::string& key, double fallback) const;
  // A whole number from 1 to `most`.
  int Count(const std::string& key, int most = 1'000'000) const;
  int CountOr(const std::string& key, int fallback) const;
  std::string Text(const std::string& key) const;
  std::string Text(const std::string& key, const std::string& fallback) const;
  bool Flag(const std::string& key, bool fallback) const;
  std::vector<std::string> Texts(const std::string& key) const;  // empty when missing
  std::vector<double> Numbers(const std::string& key) const;     // empty when missing
  int Entries(const std::string& array_of_tables) const;
  // True when any key starts with `table` and a dot.
  bool HasTable(const std::string& table) const;

  // Throws on the first key that was not read and suggests the closest known one.
  void RequireAllKnown() const;
  const std::string& origin() const { return origin_; }

 private:
  enum class Kind : std::uint8_t { kNumber, kText, kFlag, kList };
  struct Value {
    Kind kind = Kind::kNumber;
    double number = 0;
    std::string text;
    std::vector<Value> list;
    int line = 0;
  };
  friend struct SettingsReader;

  const Value* Find(const std::string& key, const char* type, Kind kind) const;
  [[noreturn]] void FailMissing(const std::string& key, const char* type) const;

  std::string origin_;
  std::map<std::string, Value> values_;
  std::map<std::string, int> entries_;
  mutable std::set<std::string> asked_;
};

// Folders where files that come with the program may lie, `kind` ("models", "clusters", …) each: those of the program's
// own place, installed or built, then the working folder's. Recipes lie in recipes/systems too.
std::vector<std::string> FoldersOf(const std::string& kind);

struct NamedFile {
  std::string path;
  std::string passed_over;  // a file of the same name in a later folder; "" where there is none

  // What was taken and what was not, to be told to the user; "" where there was no choice.
  std::string Choice() const;
};

// Whether `name` is a path: it ends in ".toml" or holds a '/'.
bool IsPath(const std::string& name);
// The file that `name` stands for: a path is itself, any other name NAME.toml of the first of the folders that has it.
// An Error lists the names that they have, nearest first.
NamedFile FindNamedFile(const std::vector<std::string>& folders, const std::string& name, const char* what);
// Like FindNamedFile, but nothing where no folder has the name.
std::optional<NamedFile> LookForNamedFile(const std::vector<std::string>& folders, const std::string& name);

}  // namespace trireme
