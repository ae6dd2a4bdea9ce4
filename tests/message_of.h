// The message of the Error that a call throws, "" when it throws none.
#pragma once

#include <string>

#include "base/error.h"

namespace trireme::test {

template <typename Call>
std::string MessageOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace trireme::test
