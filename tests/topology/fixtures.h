// Shipped cluster and stack files.
#pragma once

#include <string>

#include "message_of.h"
#include "topology/cluster.h"
#include "topology/software_stack.h"

namespace trireme::test {

inline std::string Source(const std::string& path) { return std::string(TRIREME_SOURCE_DIR) + "/" + path; }
inline Cluster ShippedCluster(const std::string& name) { return LoadCluster(name, Source("clusters")); }
inline SoftwareStack ShippedStack(const std::string& name) { return LoadStack(name, Source("stacks")); }

}  // namespace trireme::test
