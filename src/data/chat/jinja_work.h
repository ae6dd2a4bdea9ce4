// What one rendering of a template may cost. Templates come with downloaded models: whatever they ask for, a rendering
// ends within about a second, with memory of the order of kMostBytes. One thread uses a Work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "data/chat/jinja_tree.h"

namespace trireme::jinja {

inline constexpr std::int64_t kMostSteps = 1'000'000;
// Limits for all values that a rendering makes or visits, including its text.
inline constexpr std::size_t kMostBytes = std::size_t{256} << 20;
// Whole numbers are exact up to here, where all numbers are doubles.
inline constexpr double kLargestWhole = 9007199254740992.0;
// How deep lists and dictionaries may hold each other.
inline constexpr int kDeepestValue = 64;

class Work {
 public:
  // `origin` names the template in errors and outlives this.
  explicit Work(const std::string& origin) : origin_(origin) {}

  // Counts one statement or expression of this line; errors name the line of the last one.
  void Step(int line);
  void AtLine(int line) { line_ = line; }
  // Counts bytes before they are written.
  void Take(std::size_t bytes);
  // Counts `times` texts of this size.
  void Take(std::size_t bytes, std::size_t times);
  // Counts a search in a dictionary of this many keys, which are compared one by one.
  void TakeKeys(std::size_t keys) { Take(sizeof(void*), keys); }
  // Counts a whole value.
  void Take(const Value& value) { TakeDeep(value, 0); }

  [[noreturn]] void Refuse(const std::string& message) const;

 private:
  void TakeDeep(const Value& value, int depth);

  const std::string& origin_;
  int line_ = 1;
  std::int64_t steps_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace trireme::jinja
