#include "device/cpu/cpu_level.h"

#include <cstdlib>
#include <map>
#include <memory>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "device/op_cases.h"
#include "message_of.h"

namespace trireme {
namespace {

using test::MessageOf;

// TRIREME_CPU_LEVEL for a scope.
class ForcedLevel {
 public:
  explicit ForcedLevel(const std::string& name) {
    if (const char* before = std::getenv("TRIREME_CPU_LEVEL"); before != nullptr) {
      before_ = before;
    }
    setenv("TRIREME_CPU_LEVEL", name.c_str(), 1);
  }
  ~ForcedLevel() { before_.empty() ? unsetenv("TRIREME_CPU_LEVEL") : setenv("TRIREME_CPU_LEVEL", before_.c_str(), 1); }
  ForcedLevel(const ForcedLevel&) = delete;
  ForcedLevel& operator=(const ForcedLevel&) = delete;

 private:
  std::string before_;
};

TEST(CpuLevel, EveryLevelOfTheMachineCanBeForced) {
  const std::vector<CpuLevel> levels = CpuLevels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), CpuLevel::kPortable);
  for (const CpuLevel level : levels) {
    const ForcedLevel forced{std::string(NameOf(level))};
    EXPECT_EQ(ChosenCpuLevel(), level);
    EXPECT_NE(MakeCpuDevice({})->description().find(NameOf(level)), std::string::npos);
  }
}

TEST(CpuLevel, TheHighestIsTheDefault) {
  const ForcedLevel none("");
  EXPECT_EQ(ChosenCpuLevel(), CpuLevels().back());
}

std::unique_ptr<Device> DeviceOfLevel(CpuLevel level) {
  const ForcedLevel forced{std::string(NameOf(level))};
  return CpuForTest(2);
}

TEST(CpuLevel, EveryOperationAgreesWithTheBaselineAtEveryLevel) {
  const auto baseline = DeviceOfLevel(CpuLevel::kPortable);
  std::map<CpuLevel, std::unique_ptr<Device>> devices;
  for (const CpuLevel level : CpuLevels()) {
    devices[level] = DeviceOfLevel(level);
  }
  for (const OpCase& op_case : OpCases()) {
    Workbench bench(*baseline);
    const std::vector<OpResult> expected = op_case.run(bench, DType::kFloat32);
    for (const auto& [level, device] : devices) {
      for (const DType working : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        for (const CaseDifference& difference : Compare(op_case, *device, working, expected)) {
          EXPECT_LE(difference.difference, difference.tolerance)
              << op_case.name << ", " << difference.result << " at " << NameOf(level);
        }
      }
    }
  }
}

// Updates are promised to the bit: a run may go on under another layout, on another machine.
TEST(CpuLevel, UpdatesHaveTheSameBitsAtEveryLevel) {
  const auto baseline = DeviceOfLevel(CpuLevel::kPortable);
  for (const CpuLevel level : CpuLevels()) {
    const auto device = DeviceOfLevel(level);
    for (const OpCase& op_case : UpdateCases()) {
      if (op_case.name.find("AdamW") == std::string::npos) {
        continue;
      }
      Workbench first(*baseline);
      Workbench second(*device);
      const auto a = op_case.run(first, DType::kFloat32);
      const auto b = op_case.run(second, DType::kFloat32);
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(RelativeDifference(a[i].values, b[i].values), 0) << op_case.name << " at " << NameOf(level);
      }
    }
  }
}

TEST(CpuLevel, AnUnknownNameIsRefusedWithTheNamesThatRunHere) {
  const ForcedLevel forced("sse9");
  const std::string message = MessageOf([] { ChosenCpuLevel(); });
  EXPECT_NE(message.find("sse9"), std::string::npos);
  EXPECT_NE(message.find("portable"), std::string::npos);
}

}  // namespace
}  // namespace trireme
