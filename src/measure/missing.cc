#include "measure/missing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace trireme {
namespace {

constexpr std::int64_t kLeastSharedBytes = 256LL << 20;
constexpr std::int64_t kLeastOpenFiles = 1024;

bool InPath(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/" + program).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

bool IsFedoraLike(const std::string& root) {
  std::ifstream file(root + "/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("ID") &&
        (line.find("rhel") != std::string::npos || line.find("fedora") != std::string::npos)) {
      return true;
    }
  }
  return false;
}

struct Names {
  const char* debian;
  const char* fedora;
};

std::string Install(const std::string& root, const Names& names) {
  return IsFedoraLike(root) ? fmt::format("sudo dnf install {}", names.fedora)
                            : fmt::format("sudo apt-get install {}", names.debian);
}

bool Has(const MachineReport& report, const std::string& library) {
  for (const Library& each : report.libraries) {
    if (each.name == library) {
      return !each.version.empty();
    }
  }
  return false;
}

// Builds the program with an option that it was built without.
std::string BuildWith(const MachineReport& report, const char* option) {
  return fmt::format("cmake --preset {0} -D{1}=ON && cmake --build --preset {0}", report.cuda.built ? "cuda" : "cpu",
                     option);
}

std::string InstallOnednn(const std::string& root) {
  return IsFedoraLike(root)
             ? "git clone --depth 1 --branch v3.7 https://github.com/uxlfoundation/oneDNN && cmake -S oneDNN -B "
               "oneDNN/build && cmake --build oneDNN/build -j && sudo cmake --install oneDNN/build"
             : "sudo apt-get install libdnnl-dev";
}

// Engines of products besides Trireme's own. On a GPU they multiply nothing.
void LookAtEngines(const MachineReport& report, const std::string& root, std::vector<Missing>& missing) {
  for (const GpuFacts& gpu : report.cuda.gpus) {
    if (gpu.built_for) {
      return;
    }
  }
  if (!Has(report, "oneDNN")) {
    missing.push_back(
        {"oneDNN, which multiplies where it is measured to be faster than Trireme's own products: this "
         "program was built without it",
         InstallOnednn(root) + " && " + BuildWith(report, "TRIREME_ONEDNN")});
  }
  if (!Has(report, "OpenBLAS") && !Has(report, "BLIS")) {
    missing.push_back(
        {"OpenBLAS or BLIS, which multiply in fp32 where they are measured to be faster than Trireme's own products",
         Install(root, {"libopenblas0-pthread", "openblas-serial"})});
  }
}

std::string InstallEmscripten(const std::string& root) {
  return IsFedoraLike(root) ? "git clone https://github.com/emscripten-core/emsdk && emsdk/emsdk install latest && "
                              "emsdk/emsdk activate latest && . emsdk/emsdk_env.sh"
                            : "sudo apt-get install emscripten";
}

// The pages of `trireme report` and `trireme plan --page`.
void LookAtPages(const MachineReport& report, const std::string& root, std::vector<Missing>& missing) {
  if (!report.pages.report.empty()) {
    const bool here = InPath("npm") && (InPath("node") || InPath("nodejs"));
    missing.push_back(
        {"the pages of `trireme report`, which take Node.js 18 or later and npm: " + report.pages.report,
         (here ? "" : Install(root, {"nodejs npm", "nodejs npm"}) + " && ") + BuildWith(report, "TRIREME_WEB")});
  }
  if (!report.pages.planner.empty()) {
    missing.push_back(
        {"the planner's page, which takes Emscripten as well: " + report.pages.planner,
         (InPath("emcmake") ? "" : InstallEmscripten(root) + " && ") + BuildWith(report, "TRIREME_PLANNER_PAGE")});
  }
}

void LookAtPrograms(const MachineReport& report, const std::string& root, std::vector<Missing>& missing) {
  if (!Has(report, "MPI")) {
    missing.push_back(
        {"MPI, for ranks on several machines: this program was built without it",
         Install(root, {"libopenmpi-dev openmpi-bin", "openmpi-devel"}) + " && cmake --workflow --preset cpu"});
  } else if (!InPath("mpirun") && !InPath("srun")) {
    missing.push_back({"mpirun or srun, for ranks on several machines", Install(root, {"openmpi-bin", "openmpi"})});
  }
  if (!InPath("gdb")) {
    missing.push_back({"gdb, for the stacks of ranks that stand still", Install(root, {"gdb", "gdb"})});
  }
}

// cuDNN and NCCL, without which a program for GPUs can be built too.
void LookAtGpuLibraries(const MachineReport& report, const std::string& root, std::vector<Missing>& missing) {
  if (!report.cuda.built || report.cuda.gpus.empty()) {
    return;
  }
  const std::string build = " && cmake --preset cuda && cmake --build build/cuda";
  if (report.cuda.cudnn.empty() || !report.cuda.cudnn_note.empty()) {
    const std::string major = report.cuda.toolkit.substr(0, report.cuda.toolkit.find('.'));
    const std::string debian = "libcudnn9-dev-cuda-" + major;
    const std::string fedora = "libcudnn9-devel-cuda-" + major;
    const std::string found = report.cuda.cudnn.empty() ? "this program was built without it" : report.cuda.cudnn_note;
    missing.push_back({"cuDNN 9.14 or later, for fast attention in bf16: " + found,
                       Install(root, {debian.c_str(), fedora.c_str()}) + (report.cuda.cudnn.empty() ? build : "")});
  }
  if (report.cuda.gpus.size() > 1 && !Has(report, "NCCL")) {
    missing.push_back({fmt::format("NCCL, for collectives between {} GPUs: this program was built without it",
                                   report.cuda.gpus.size()),
                       Install(root, {"libnccl-dev", "libnccl-devel"}) + build});
  }
}

void LookAtGpus(const MachineReport& report, const std::string& root, std::vector<Missing>& missing) {
  if (!report.cuda.built && !report.cuda.gpus.empty()) {
    if (!InPath("nvcc") && access((root + "/usr/local/cuda/bin/nvcc").c_str(), X_OK) != 0) {
      missing.push_back(
          {"nvcc of CUDA 12 or later, which compiles for NVIDIA GPUs: add NVIDIA's packages first, "
           "https://developer.nvidia.com/cuda-downloads",
           Install(root, {"cuda-toolkit", "cuda-toolkit"})});
    }
    missing.push_back(
        {fmt::format("CUDA: this machine has {} GPUs, and this program was built without it", report.cuda.gpus.size()),
         "cmake --workflow --preset cuda"});
  }
  for (const GpuFacts& gpu : report.cuda.gpus) {
    if (report.cuda.built && !gpu.built_for) {
      missing.push_back({fmt::format("kernels for {}, of compute capability {}.{}: this program was built for {}",
                                     gpu.name, gpu.capability / 10, gpu.capability % 10, report.cuda.architectures),
                         fmt::format("cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES={} && cmake --build build/cuda",
                                     gpu.capability)});
    }
  }
}

void LookAtLimits(const MachineReport& report, std::vector<Missing>& missing) {
  if (report.memory.shared_bytes > 0 && report.memory.shared_bytes < kLeastSharedBytes) {
    missing.push_back({fmt::format("shared memory: /dev/shm holds {} MB, and MPI keeps its buffers there",
                                   report.memory.shared_bytes >> 20),
                       "sudo mount -o remount,size=1G /dev/shm (in Docker: docker run --shm-size=1g)"});
  }
  for (const Limit& limit : report.limits) {
    if (limit.flag == "-n" && limit.soft >= 0 && limit.soft < kLeastOpenFiles) {
      missing.push_back({fmt::format("open files: {} are few for many ranks and shards", limit.soft),
                         fmt::format("ulimit -n {}", kLeastOpenFiles)});
    }
  }
  if (report.memory.transparent_huge_pages == "never") {
    missing.push_back({"huge pages: the kernel gives none, so large tensors cost more address translation",
                       "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"});
  }
}

}  // namespace

std::vector<Missing> FindMissing(const MachineReport& report, const std::string& root) {
  std::vector<Missing> missing;
  LookAtPrograms(report, root, missing);
  LookAtEngines(report, root, missing);
  LookAtGpus(report, root, missing);
  LookAtGpuLibraries(report, root, missing);
  LookAtPages(report, root, missing);
  LookAtLimits(report, missing);
  return missing;
}

}  // namespace trireme
