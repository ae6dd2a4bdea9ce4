#include "measure/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "device/cpu/product/engine_choice.h"
#include "device/cudnn_version.h"
#include "measure/cpu_model.h"
#include "measure/missing.h"
#include "message_of.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;
using testing::Not;

// A folder that stands for the root of a machine.
class Machine : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "trireme_machine_" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << '\n';
  }
  // What FindMissing says of `report` where PATH is the folder bin of this root.
  std::string AllMissing(const MachineReport& report) const {
    const char* const path = std::getenv("PATH");
    const std::string before = path == nullptr ? "" : path;
    setenv("PATH", (root_ + "/bin").c_str(), 1);
    std::string all;
    for (const Missing& missing : FindMissing(report, root_)) {
      EXPECT_FALSE(missing.command.empty()) << missing.what;
      all += missing.what + "\n" + missing.command + "\n";
    }
    setenv("PATH", before.c_str(), 1);
    return all;
  }
  // A program in that folder.
  void Install(const std::string& name) const {
    Write("/bin/" + name, "#!/bin/sh");
    std::filesystem::permissions(root_ + "/bin/" + name, std::filesystem::perms::owner_all);
  }
  std::string root_;
};

TEST_F(Machine, IsDescribedFromItsFiles) {
  Write("/etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"");
  Write("/proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:   500 kB\nHugePages_Total:  3");
  Write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: A Fast One\nmodel name\t: another\n");
  Write("/proc/self/status", "Cpus_allowed_list:\t2-3");
  Write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  const MachineReport report = DescribeMachine({}, root_);
  EXPECT_FALSE(report.program.empty());
  EXPECT_EQ(report.system.system, "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(report.cpu.model, "A Fast One");
  EXPECT_EQ(report.cpu.cores.cores(), 2);
  EXPECT_THAT(report.cpu.levels, testing::Contains(report.cpu.level));
  EXPECT_EQ(report.memory.machine_bytes, 1024000);
  EXPECT_EQ(report.memory.available_bytes, 512000);
  EXPECT_EQ(report.memory.huge_pages, 3);
  EXPECT_EQ(report.memory.transparent_huge_pages, "madvise");
  EXPECT_TRUE(report.products.empty());
  EXPECT_THAT(MachineText(report), HasSubstr("processors 2-3 of 2"));
}

TEST_F(Machine, ArmProcessorsHaveNames) {
  Write("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
  EXPECT_EQ(CpuModel(root_), "Arm Neoverse-N1");
  Write("/proc/cpuinfo", "CPU implementer\t: 0x99\nCPU part\t: 0x7\n");
  EXPECT_EQ(CpuModel(root_), "ARM implementer 0x99, part 0x7");
  Write("/proc/cpuinfo", ":\n\n  :x");
  EXPECT_EQ(CpuModel(root_), "unknown");
}

TEST_F(Machine, GpusOfTheDriverAreNamedWhereCudaIsNotBuilt) {
  Write("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA A100\nIRQ: 7");
  const MachineReport report = DescribeMachine({}, root_);
  if (!report.cuda.built) {
    ASSERT_EQ(report.cuda.gpus.size(), 1U);
    EXPECT_EQ(report.cuda.gpus[0].name, "NVIDIA A100");
    EXPECT_THAT(MachineText(report), HasSubstr("NVIDIA A100, not usable: built without CUDA"));
    EXPECT_THAT(MachineText(report), HasSubstr("cmake --workflow --preset cuda"));
  }
}

TEST_F(Machine, TheDriverIsNamedByItsKernelModule) {
  EXPECT_EQ(DescribeMachine({}, root_).nvidia_driver, "");
  Write("/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)");
  EXPECT_EQ(DescribeMachine({}, root_).nvidia_driver, "535.104.05");
  Write("/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U22)");
  MachineReport report = DescribeMachine({}, root_);
  EXPECT_EQ(report.nvidia_driver, "570.86.15");
  EXPECT_EQ(ParseJson(MachineJson(report))["cuda"]["nvidia_driver"], "570.86.15");
  report.cuda.driver = "";
  EXPECT_THAT(MachineText(report), HasSubstr("driver      NVIDIA 570.86.15\n"));
  report.cuda.driver = "12.8";
  EXPECT_THAT(MachineText(report), HasSubstr("driver      NVIDIA 570.86.15, CUDA 12.8\n"));
}

TEST_F(Machine, LibrariesOfProductsHaveTheVersionsThatEnginesHave) {
  const MachineReport report = DescribeMachine({}, root_);
  for (const auto& [name, engine] : {std::pair("oneDNN", ProductEngine::kOnednn),
                                     {"OpenBLAS", ProductEngine::kOpenblas},
                                     {"BLIS", ProductEngine::kBlis}}) {
    const auto library = std::find_if(report.libraries.begin(), report.libraries.end(),
                                      [name = name](const Library& each) { return each.name == name; });
    ASSERT_NE(library, report.libraries.end()) << name;
    const auto made = MakeSingleEngine(engine, CpuLevels().back(), 1);
    EXPECT_EQ(made == nullptr ? "" : made->name(), library->version.empty() ? "" : name + (" " + library->version));
  }
}

TEST_F(Machine, WhatIsMissingComesWithACommand) {
  MachineReport report;
  report.libraries = {{"MPI", ""}};
  report.memory.shared_bytes = 64 << 20;
  report.memory.transparent_huge_pages = "never";
  report.limits = {{.name = "open files", .flag = "-n", .soft = 256, .hard = 4096}};
  report.cuda = {.built = true,
                 .toolkit = "13.0",
                 .architectures = "80, 90",
                 .gpus = {{.name = "B200", .capability = 100}, {.name = "B200", .capability = 100}}};
  Write("/etc/os-release", "ID=debian");
  const std::string all = AllMissing(report);
  EXPECT_THAT(all, HasSubstr("apt-get install libopenmpi-dev"));
  EXPECT_THAT(all, HasSubstr("/dev/shm holds 64 MB"));
  EXPECT_THAT(all, HasSubstr("ulimit -n 1024"));
  EXPECT_THAT(all, HasSubstr("B200, of compute capability 10.0: this program was built for 80, 90"));
  EXPECT_THAT(all, HasSubstr("apt-get install libcudnn9-dev-cuda-13"));
  EXPECT_THAT(all, HasSubstr("NCCL, for collectives between 2 GPUs"));
  EXPECT_THAT(all, HasSubstr("apt-get install libnccl-dev && cmake --preset cuda"));
  EXPECT_THAT(all, HasSubstr("transparent_hugepage"));
  Write("/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"");
  EXPECT_THAT(FindMissing(report, root_)[0].command, HasSubstr("dnf install openmpi-devel"));
}

TEST_F(Machine, EnginesThatAreMissingComeWithACommandWhereTheyWouldMultiply) {
  Write("/etc/os-release", "ID=debian");
  MachineReport report;
  std::string all = AllMissing(report);
  EXPECT_THAT(all, HasSubstr("apt-get install libdnnl-dev && cmake --preset cpu -DTRIREME_ONEDNN=ON && cmake --build"));
  EXPECT_THAT(all, HasSubstr("apt-get install libopenblas0-pthread"));
  report.libraries = {{"oneDNN", "2.6.3"}, {"OpenBLAS", ""}, {"BLIS", "0.9.0"}};
  all = AllMissing(report);
  EXPECT_THAT(all, Not(HasSubstr("oneDNN")));
  EXPECT_THAT(all, Not(HasSubstr("OpenBLAS")));
  report.libraries.clear();
  Write("/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"");
  all = AllMissing(report);
  EXPECT_THAT(all, HasSubstr("git clone --depth 1 --branch v3.7 https://github.com/uxlfoundation/oneDNN"));
  EXPECT_THAT(all, HasSubstr("dnf install openblas-serial"));
  report.cuda = {.built = true, .gpus = {{.name = "H200", .built_for = true}}};
  all = AllMissing(report);
  EXPECT_THAT(all, Not(HasSubstr("oneDNN")));
  EXPECT_THAT(all, Not(HasSubstr("OpenBLAS")));
}

TEST_F(Machine, NvccIsMissingWhereAGpuWaitsForABuildWithCuda) {
  Write("/etc/os-release", "ID=debian");
  MachineReport report;
  EXPECT_THAT(AllMissing(report), Not(HasSubstr("nvcc")));
  report.cuda.gpus = {{.name = "NVIDIA A100"}};
  EXPECT_THAT(AllMissing(report),
              HasSubstr("developer.nvidia.com/cuda-downloads\nsudo apt-get install cuda-toolkit\n"));
  Install("nvcc");
  const std::string all = AllMissing(report);
  EXPECT_THAT(all, Not(HasSubstr("nvcc")));
  EXPECT_THAT(all, HasSubstr("cmake --workflow --preset cuda"));
}

TEST_F(Machine, PagesThatAreMissingComeWithWhatTheyTake) {
  Write("/etc/os-release", "ID=debian");
  MachineReport report;
  EXPECT_THAT(AllMissing(report), Not(HasSubstr("page")));
  report.pages = {.report = "a reason", .planner = "another reason"};
  std::string all = AllMissing(report);
  EXPECT_THAT(all, HasSubstr("npm: a reason\nsudo apt-get install nodejs npm && cmake --preset cpu -DTRIREME_WEB=ON"));
  EXPECT_THAT(all,
              HasSubstr("Emscripten as well: another reason\nsudo apt-get install emscripten && cmake --preset cpu"));
  for (const char* const program : {"nodejs", "npm", "emcmake"}) {
    Install(program);
  }
  all = AllMissing(report);
  EXPECT_THAT(all, HasSubstr("npm: a reason\ncmake --preset cpu -DTRIREME_WEB=ON && cmake --build --preset cpu"));
  EXPECT_THAT(all, HasSubstr("as well: another reason\ncmake --preset cpu -DTRIREME_PLANNER_PAGE=ON"));
  Write("/etc/os-release", "ID=fedora");
  std::filesystem::remove(root_ + "/bin/emcmake");
  EXPECT_THAT(AllMissing(report), HasSubstr("emsdk/emsdk install latest"));
}

TEST_F(Machine, AnOlderCudnnThanAttentionTakesIsSaidToBeSo) {
  MachineReport report;
  report.cuda = {.built = true,
                 .toolkit = "12.8",
                 .cudnn = "9.5.0",
                 .cudnn_note = CudnnNote(90500),
                 .gpus = {{.name = "H200", .built_for = true}}};
  Write("/etc/os-release", "ID=debian");
  const std::vector<Missing> missing = FindMissing(report, root_);
  const auto row = std::find_if(missing.begin(), missing.end(),
                                [](const Missing& one) { return one.what.starts_with("cuDNN 9.14 or later"); });
  ASSERT_NE(row, missing.end());
  EXPECT_THAT(row->what, HasSubstr("cuDNN 9.5.0 is older than 9.14"));
  EXPECT_THAT(row->command, testing::EndsWith("apt-get install libcudnn9-dev-cuda-12"));  // nothing is built again
}

TEST_F(Machine, NothingIsMissingWhereAllIsThere) {
  MachineReport report;
  report.libraries = {{"MPI", "Open MPI"}};  // NCCL is not, which one GPU does not need
  report.memory = {.transparent_huge_pages = "always", .shared_bytes = 1LL << 30};
  report.limits = {{.name = "open files", .flag = "-n", .soft = -1}};
  report.cuda = {.built = true, .cudnn = "9.14.0", .gpus = {{.name = "H200", .built_for = true}}};
  for (const Missing& missing : FindMissing(report, root_)) {
    EXPECT_THAT(missing.what, testing::AnyOf(HasSubstr("gdb"), HasSubstr("mpirun"))) << missing.what;
  }
}

TEST_F(Machine, JsonHoldsWhatTheScreenShows) {
  MachineReport report = DescribeMachine({.report = "no Node.js", .planner = ""});
  const nlohmann::json quick = ParseJson(MachineJson(report));
  for (const char* const key : {"trireme", "host", "system", "kernel", "architecture", "device", "threads", "cpu",
                                "memory", "cuda", "limits", "libraries", "missing"}) {
    EXPECT_TRUE(quick.contains(key)) << key;
  }
  EXPECT_FALSE(quick.contains("products"));
  for (const char* const library : {"oneDNN", "OpenBLAS", "BLIS", "MPI"}) {
    EXPECT_TRUE(quick["libraries"].contains(library)) << library;
  }
  EXPECT_EQ(quick["pages"]["report"], false);
  EXPECT_EQ(quick["pages"]["planner"], true);
  EXPECT_EQ(quick["cpu"]["level"], report.cpu.level);
  EXPECT_EQ(quick["limits"].size(), 3U);
  report.products.push_back({.engine = "x", .dtype = "bf16", .shape = {1, 2, 3}, .threads = 2, .gflops = 7});
  report.copies.push_back({.bytes = 5, .threads = 1, .gigabytes_per_second = 9});
  const nlohmann::json whole = ParseJson(MachineJson(report));
  EXPECT_EQ(whole["products"][0]["gflops"], 7);
  EXPECT_EQ(whole["copies"][0]["gigabytes_per_second"], 9);
  EXPECT_THAT(MachineText(report), HasSubstr("7 GFLOP/s  x (not used)"));
}

TEST(Rates, ArePositive) {
  const std::unique_ptr<Device> device = MakeCpuDevice({.threads = 1});
  EXPECT_GT(MeasureProduct(*device, {.m = 32, .n = 32, .k = 32}, DType::kFloat32), 0);
  EXPECT_GT(MeasureProduct(*device, {.m = 32, .n = 32, .k = 32}, DType::kBFloat16), 0);
  const CopyRate copies = MeasureCopy(1 << 16, 2);
  EXPECT_EQ(copies.threads, 2);
  EXPECT_GT(copies.gigabytes_per_second, 0);
}

TEST(Rates, OfNothingAreRefused) {
  const std::unique_ptr<Device> device = MakeCpuDevice({.threads = 1});
  EXPECT_THAT(MessageOf([&] { MeasureProduct(*device, {.m = 0, .n = 1, .k = 1}, DType::kFloat32); }),
              HasSubstr("cannot measure a product of 0 x 1 x 1"));
  EXPECT_THAT(MessageOf([] { MeasureCopy(1, 0); }), HasSubstr("by 0 threads"));
}

}  // namespace
}  // namespace trireme
