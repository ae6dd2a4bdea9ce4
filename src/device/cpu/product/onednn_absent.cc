#include "device/cpu/product/outside_engines.h"

namespace trireme {

std::unique_ptr<MatmulEngine> MakeOnednnEngine(int) { return nullptr; }
std::string OnednnVersion() { return ""; }

}  // namespace trireme
