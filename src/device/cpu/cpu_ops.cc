#include "device/cpu/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/cpu_ops.cc"
#include <hwy/foreach_target.h>

#include "device/cpu/cpu_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

std::unique_ptr<HostOps> MakeOpsOfTarget(CpuLevel level, int threads, const EngineTable& engines) {
  return std::make_unique<CpuOps>(level, threads, engines);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

std::unique_ptr<HostOps> MakeCpuOps(CpuLevel level, int threads, const EngineTable& engines) {
  using Maker = std::unique_ptr<HostOps> (*)(CpuLevel, int, const EngineTable&);
  constexpr LevelTable<Maker> kMakers{HWY_STATIC_DISPATCH(MakeOpsOfTarget), HWY_CHOOSE_AVX2(MakeOpsOfTarget),
                                      HWY_CHOOSE_AVX3(MakeOpsOfTarget), HWY_CHOOSE_NEON(MakeOpsOfTarget),
                                      HWY_CHOOSE_SVE(MakeOpsOfTarget)};
  return kMakers.of(level)(level, threads, engines);
}

}  // namespace trireme
#endif
