#include "data/chat/jinja_work.h"

#include <fmt/format.h>

#include "base/error.h"

namespace trireme::jinja {
namespace {

// About what a value takes besides its characters, its place in a list or a dictionary included.
constexpr std::size_t kValueBytes = 48;

}  // namespace

void Work::Step(int line) {
  line_ = line;
  if (++steps_ > kMostSteps) {
    Refuse("takes more than a million steps");
  }
}

void Work::Take(std::size_t bytes) {
  if (bytes > kMostBytes - bytes_) {
    Refuse(fmt::format("needs more than {} MiB for its texts and lists", kMostBytes >> 20));
  }
  bytes_ += bytes;
}

void Work::Take(std::size_t bytes, std::size_t times) {
  Take(times > 0 && bytes > kMostBytes / times ? kMostBytes + 1 : bytes * times);
}

void Work::TakeDeep(const Value& value, int depth) {
  if (depth > kDeepestValue) {
    Refuse(fmt::format("makes a value that is nested more than {} deep", kDeepestValue));
  }
  Take(kValueBytes);
  if (value.is_string()) {
    Take(value.get_ref<const std::string&>().size());
  } else if (value.is_array()) {
    for (const Value& item : value) {
      TakeDeep(item, depth + 1);
    }
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.get_ref<const Value::object_t&>()) {
      Take(kValueBytes + key.size());
      TakeDeep(item, depth + 1);
    }
  }
}

void Work::Refuse(const std::string& message) const {
  Fail("the chat template of '{}', line {}: {}", origin_, line_, message);
}

}  // namespace trireme::jinja
