#include "device/energy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "scratch_directory.h"

namespace trireme {
namespace {

void WriteZone(const std::string& folder, const char* name, const char* energy) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/name") << name << '\n';
  std::ofstream(folder + "/energy_uj") << energy << '\n';
  std::ofstream(folder + "/max_energy_range_uj") << "50000000\n";
}

TEST(Energy, OfPackagesIsReadFromPowercap) {
  const ScratchDirectory root;
  WriteZone(root / "intel-rapl:1", "package-1", "7000000");
  WriteZone(root / "intel-rapl:0", "package-0", "3500000");
  WriteZone(root / "intel-rapl:0:0", "dram", "9000000");  // within the package
  std::filesystem::create_directories(root / "dtpm");
  const std::vector<EnergyCounter> counters = ReadHostEnergy(root.path().string());
  ASSERT_EQ(counters.size(), 2U);
  EXPECT_EQ(counters[0].name, "intel-rapl:0");
  EXPECT_DOUBLE_EQ(counters[0].joules, 3.5);
  EXPECT_DOUBLE_EQ(counters[1].joules, 7);
  EXPECT_DOUBLE_EQ(counters[1].range, 50);
  EXPECT_TRUE(ReadHostEnergy(root / "nowhere").empty());
}

TEST(Energy, IsSummedOverCountersThatBeginAgain) {
  EnergySum sum;
  EXPECT_FALSE(sum.known());
  sum.Add({{"a", 40, 50}, {"b", 1000, 0}});
  EXPECT_TRUE(sum.known());
  EXPECT_DOUBLE_EQ(sum.joules(), 0);
  sum.Add({{"a", 45, 50}, {"b", 1010, 0}});
  sum.Add({{"a", 3, 50}, {"b", 1010, 0}});
  EXPECT_DOUBLE_EQ(sum.joules(), 5 + 10 + 8);
  sum.Add({{"b", 1011, 0}, {"c", 99, 0}});
  EXPECT_DOUBLE_EQ(sum.joules(), 24);
}

}  // namespace
}  // namespace trireme
