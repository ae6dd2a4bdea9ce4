// Shipped cluster and stack files, and the message of an Error.
#pragma once

#include <string>

#include "base/error.h"
#include "topology/cluster.h"
#include "topology/software_stack.h"

namespace trireme::testing {

inline std::string Source(const std::string& path) { return std::string(TRIREME_SOURCE_DIR) + "/" + path; }
inline Cluster ShippedCluster(const std::string& name) { return LoadCluster(name, Source("clusters")); }
inline SoftwareStack ShippedStack(const std::string& name) { return LoadStack(name, Source("stacks")); }

// "" when the call throws none.
template <typename Call>
std::string MessageOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace trireme::testing
