// The engine of BLAS libraries, with stand-ins for both (stand_in_blas.cc): what they are asked, and that they are
// known by their versions. Where the libraries themselves are installed, product_test.cc multiplies with them too.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cpu/product/engine_choice.h"
#include "device/product_forms.h"

namespace trireme {
namespace {

struct StandIn {
  ProductEngine engine;
  const char* file;
  const char* version;
  const char* name;

  template <typename Function>
  Function FunctionOf(const char* function) const {
    return reinterpret_cast<Function>(dlsym(dlopen(file, RTLD_LAZY | RTLD_LOCAL), function));
  }
};
constexpr StandIn kStandIns[] = {{ProductEngine::kOpenblas, "libopenblas.so.0", "0.3.99", "OpenBLAS 0.3.99"},
                                 {ProductEngine::kBlis, "libblis.so.4", "0.9.99", "BLIS 0.9.99"}};

std::unique_ptr<MatmulEngine> Make(const StandIn& library, int threads = 1) {
  return MakeSingleEngine(library.engine, CpuLevels().back(), threads);
}

TEST(BlasEngine, IsNamedByItsLibraryAndVersion) {
  for (const StandIn& library : kStandIns) {
    EXPECT_EQ(LibraryVersion(library.engine), library.version);
    const auto engine = Make(library);
    ASSERT_NE(engine, nullptr) << library.name;
    EXPECT_EQ(engine->name(), library.name);
  }
}

TEST(BlasEngine, GivesTheSumsOfDoubleInEveryForm) {
  std::vector<NamedEngine> engines;
  for (const StandIn& library : kStandIns) {
    for (const int threads : {1, 3}) {
      engines.push_back({fmt::format("{}, {} threads", library.name, threads), Make(library, threads)});
    }
  }
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {3, 17, 33}, {50, 34, 70}, {150, 130, 120}}) {
    for (const Form& form : FormsOfSize(m, n, k)) {
      if (form.operands == kFloat) {
        ExpectSums(engines, form);
      }
    }
  }
}

TEST(BlasEngine, MultipliesFloatsAloneAndLeavesTheRestToPacked) {
  const CpuLevel level = CpuLevels().back();
  for (const StandIn& library : kStandIns) {
    EXPECT_TRUE(Make(library)->Multiplies(kFloat));
    EXPECT_FALSE(Make(library)->Multiplies(DType::kBFloat16));
    const EngineTable table{.fp32 = library.engine, .bf16 = library.engine};
    EXPECT_EQ(MakeMatmulEngine(level, 1, table)->name(), fmt::format("{}, bf16 packed", library.name));
  }
}

TEST(BlasEngine, HasEachCallOfTheLibraryUseOneThread) {
  for (const StandIn& library : kStandIns) {
    // Either stand-in has the functions of both.
    const auto set = library.FunctionOf<void (*)(int)>("openblas_set_num_threads");
    ASSERT_NE(set, nullptr) << "the stand-in is not found";
    set(7);
    const auto engine = Make(library, 3);
    EXPECT_EQ(library.FunctionOf<int (*)()>("stand_in_threads")(), 1) << library.name;
  }
}

TEST(BlasEngine, LeavesALibraryOfWideExtentsAlone) {
  for (const StandIn& library : kStandIns) {
    const auto set_wide = library.FunctionOf<void (*)(bool)>("stand_in_set_wide_extents");
    ASSERT_NE(set_wide, nullptr) << "the stand-in is not found";
    set_wide(true);
    EXPECT_EQ(Make(library), nullptr) << library.name;
    EXPECT_EQ(LibraryVersion(library.engine), "");
    set_wide(false);
    EXPECT_NE(Make(library), nullptr) << library.name;
  }
}

TEST(BlasEngine, TakesPartInMeasurements) {
  const std::vector<EngineSpeed> speeds = MeasureEngineSpeeds(CpuLevels().back(), 1);
  for (const StandIn& library : kStandIns) {
    EXPECT_EQ(std::count_if(speeds.begin(), speeds.end(),
                            [&](const EngineSpeed& speed) { return speed.engine == library.engine; }),
              1)
        << library.name;
  }
}

}  // namespace
}  // namespace trireme
