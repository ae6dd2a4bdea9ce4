#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <tuple>
#include <utility>

#include "device/cuda/architectures.h"
#include "device/op_cases.h"
#include "message_of.h"

namespace trireme {
namespace {

// Law 7: every back end beside the CPU gives the CPU's results. One test walks all cases, since starting a GPU's
// libraries takes longer than the cases themselves.
class OpsAgainstCpu : public testing::TestWithParam<std::tuple<DType, bool>> {};

TEST_P(OpsAgainstCpu, ResultsAgree) {
  const auto [working, deterministic] = GetParam();
  const auto cpu = CpuForTest();
  const auto device = MakeDevice({.kind = "cuda", .deterministic = deterministic});
  for (const OpCase& op_case : OpCases()) {
    try {
      for (const CaseDifference& difference : Compare(op_case, *device, working, *cpu)) {
        EXPECT_LE(difference.difference, difference.tolerance) << op_case.name << ", " << difference.result;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << op_case.name << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, OpsAgainstCpu,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                                          testing::Bool()),
                         [](const auto& choice) {
                           return std::string(Name(std::get<0>(choice.param))) +
                                  (std::get<1>(choice.param) ? "Deterministic" : "");
                         });

TEST(CudaDevice, DeterministicModeGivesTheSameBitsTwice) {
  const auto device = MakeDevice({.kind = "cuda", .deterministic = true});
  Workbench bench(*device);
  for (const OpCase& op_case : OpCases()) {
    for (const DType working : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const auto a = op_case.run(bench, working);
      const auto b = op_case.run(bench, working);
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(RelativeDifference(a[i].values, b[i].values), 0) << op_case.name << ", " << a[i].name;
      }
    }
  }
}

// What Device::AllocateHost promises: copies in streams, operations, and copies to and from the host's other memory.
TEST(CudaDevice, HostMemoryMadeForItIsReachedByAllMeans) {
  const auto device = MakeDevice({.kind = "cuda"});
  constexpr std::int64_t kCount = 100'003;
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i) / 7;
  }
  const Tensor host{device->AllocateHost(kCount * 4), DType::kFloat32, {kCount}};
  const Tensor inside{device->Allocate(kCount * 4), DType::kFloat32, {kCount}};
  const auto read = [&](const Tensor& tensor) {
    std::vector<float> out(kCount);
    device->CopyToHost(out.data(), tensor.data, tensor.bytes());
    return out;
  };
  device->ops().Fill(host, 0);
  EXPECT_EQ(read(host), std::vector<float>(kCount, 0));
  device->CopyFromHost(host.data, values.data(), host.bytes());
  EXPECT_EQ(read(host), values);
  const Event come =
      device->OnStream(kFromHostStream, device->RecordEvent(), [&] { device->ops().Copy(inside, host); });
  device->StreamWait(come);
  EXPECT_EQ(read(inside), values);
  device->ops().Add(host, inside);  // a kernel that reads and writes it
  const Event gone = device->OnStream(kToHostStream, device->RecordEvent(), [&] { device->ops().Copy(host, inside); });
  device->StreamWait(gone);
  EXPECT_EQ(read(host), values);
  device->ops().Add(host, inside);
  device->Synchronize();
  EXPECT_EQ(host.as<float>()[kCount - 1], 2 * values.back());
  device->Free(inside.data);
  device->FreeHost(host.data);
}

// A product with fp32 sums, of a shape and in a type of its own.
Tensor Product(Workbench& bench, std::int64_t extent) {
  const Tensor c = bench.Filled(DType::kFloat32, {extent, extent}, 0);
  bench.ops().Matmul({.a = bench.Normal(DType::kBFloat16, {extent, extent}, "a"),
                      .b = bench.Normal(DType::kBFloat16, {extent, extent}, "b"),
                      .c = c,
                      .accumulate = true});
  return c;
}

// The lines that are read again, without those for people, which tell of measurements.
std::vector<std::string> ChoicesAlone(const Device& device) {
  std::vector<std::string> lines;
  std::istringstream text(device.choices());
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("#")) {
      lines.push_back(line);
    }
  }
  return lines;
}

TEST(CudaDevice, AGpuWithoutKernelsIsNamedWithTheListOfThoseThatHave) {
  EXPECT_TRUE(KernelsRunHere());
  const std::string message = test::MessageOf([] { RequireKernels(false, "Tesla T4", 75); });
  EXPECT_THAT(message, testing::HasSubstr("Tesla T4 has compute capability 7.5"));
  EXPECT_THAT(message, testing::ContainsRegex("was built for [0-9]+"));
  EXPECT_THAT(message, testing::HasSubstr("-DCMAKE_CUDA_ARCHITECTURES=75"));
}

TEST(CudaDevice, ChosenAlgorithmsComeBackFromText) {
  const auto first = MakeDevice({.kind = "cuda"});
  Workbench first_bench(*first);
  for (const std::int64_t extent : {64, 512, 1024}) {
    Product(first_bench, extent);
  }
  const std::string choices = first->choices();
  EXPECT_EQ(ChoicesAlone(*first).size(), 4U) << choices;
  const auto second = MakeDevice({.kind = "cuda"});
  second->ReadChoices(choices);
  Workbench second_bench(*second);
  for (const std::int64_t extent : {64, 512, 1024}) {
    Product(second_bench, extent);
  }
  EXPECT_EQ(ChoicesAlone(*second), ChoicesAlone(*first));
}

// Their rows are others in every step: nothing is measured for them, and the list does not grow.
TEST(CudaDevice, ProductsOfExpertsAreNotMeasured) {
  const auto device = MakeDevice({.kind = "cuda"});
  Workbench bench(*device);
  for (const OpCase& op_case : OpCases()) {
    if (op_case.name.starts_with("GroupedMatmul")) {
      op_case.run(bench, DType::kBFloat16);
    }
  }
  EXPECT_EQ(ChoicesAlone(*device).size(), 1U) << device->choices();
}

TEST(CudaDevice, ChoicesOfOthersAreLeftAside) {
  const auto device = MakeDevice({.kind = "cuda"});
  EXPECT_NO_THROW(device->ReadChoices(""));
  EXPECT_NO_THROW(device->ReadChoices("another library\n1 2 3 = 4\n"));
  const std::string own = device->choices();
  EXPECT_NO_THROW(device->ReadChoices(own + "not numbers\n1 2 3 = zz\n"));
  Workbench bench(*device);
  EXPECT_NO_THROW(Product(bench, 64));
}

TEST(CudaDevice, RepeatedWorkAddsUpAndIsCounted) {
  const auto device = MakeDevice({.kind = "cuda"});
  Workbench bench(*device);
  const Tensor sum = bench.Filled(DType::kFloat32, {64, 64}, 0);
  const MatmulArgs product{.a = bench.Filled(DType::kBFloat16, {64, 64}, 1),
                           .b = bench.Filled(DType::kBFloat16, {64, 64}, 1),
                           .c = sum,
                           .accumulate = true};
  int calls = 0;
  const auto work = [&] {
    ++calls;
    device->ops().Matmul(product);
  };
  for (int i = 1; i <= 5; ++i) {
    device->Repeat(7, work);
    EXPECT_EQ(bench.Read(sum).front(), 64 * i);
    EXPECT_EQ(device->ops().flops().matmul, i * 2 * 64 * 64 * 64);
  }
  EXPECT_EQ(calls, 2);  // plainly, then recorded
}

// A query sees no later key, and without gradients of later outputs no key gets one from them: a long sequence begins
// as a short one does. The long one's heads are copied apart for cuDNN.
TEST(CudaDevice, ALongSequenceBeginsAsAShortOne) {
  constexpr std::int64_t kShort = 512;
  constexpr std::int64_t kHeads = 32;
  constexpr std::int64_t kKeyHeads = 8;
  constexpr std::int64_t kSize = 64;
  constexpr std::int64_t kColumns = (kHeads + 2 * kKeyHeads) * kSize;
  const auto device = MakeDevice({.kind = "cuda"});
  const auto attend = [&](std::int64_t tokens) {
    Workbench bench(*device);
    const Tensor qkv = bench.Filled(DType::kBFloat16, {tokens, kColumns}, 0.25F);
    const Tensor grad_out = bench.Filled(DType::kBFloat16, {tokens, kHeads * kSize}, 0);
    bench.ops().Copy(qkv.Rows(0, kShort), bench.Normal(DType::kBFloat16, {kShort, kColumns}, "qkv"));
    bench.ops().Copy(grad_out.Rows(0, kShort), bench.Normal(DType::kBFloat16, {kShort, kHeads * kSize}, "gradient"));
    const AttentionArgs args{.batch = 1,
                             .sequence = tokens,
                             .heads = kHeads,
                             .kv_heads = kKeyHeads,
                             .head_size = kSize,
                             .scale = 0.125F,
                             .qkv = qkv,
                             .out = bench.Output(DType::kBFloat16, {tokens, kHeads * kSize}),
                             .statistics = bench.Output(DType::kFloat32, {kHeads, tokens}),
                             .grad_out = grad_out,
                             .grad_qkv = bench.Output(DType::kBFloat16, {tokens, kColumns})};
    bench.ops().AttentionForward(args);
    bench.ops().AttentionBackward(args);
    return std::pair(bench.Read(args.out.Rows(0, kShort)), bench.Read(args.grad_qkv.Rows(0, kShort)));
  };
  const auto [short_out, short_gradient] = attend(kShort);
  const auto [long_out, long_gradient] = attend(std::int64_t{48} << 10);
  EXPECT_LE(RelativeDifference(long_out, short_out), 1e-2);
  EXPECT_LE(RelativeDifference(long_gradient, short_gradient), 1e-2);
}

TEST(CudaDevice, ProductsInTf32AreNearAndNotEqual) {
  const auto exact = MakeDevice({.kind = "cuda"});
  const auto fast = MakeDevice({.kind = "cuda", .tf32 = true});
  Workbench exact_bench(*exact);
  Workbench fast_bench(*fast);
  const auto product = [](Workbench& bench) {
    constexpr std::int64_t kExtent = 1024;  // large enough that the tensor cores are always the faster choice
    const Tensor a = bench.Normal(DType::kFloat32, {kExtent, kExtent}, "a");
    const Tensor b = bench.Normal(DType::kFloat32, {kExtent, kExtent}, "b");
    const Tensor c = bench.Output(DType::kFloat32, {kExtent, kExtent});
    bench.ops().Matmul({.a = a, .b = b, .c = c});
    return bench.Read(c);
  };
  const double difference = RelativeDifference(product(fast_bench), product(exact_bench));
  EXPECT_GT(difference, 1e-6);
  EXPECT_LT(difference, 5e-3);
}

}  // namespace
}  // namespace trireme
