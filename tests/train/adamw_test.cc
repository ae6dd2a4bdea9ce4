#include "optim/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "base/random.h"

namespace trireme {
namespace {

// A CPU whose lanes are as late as they may be: what Beside is given happens when something that waits for it does.
// AdamW gives it work that refers to nothing of the caller's, so that it can be called later.
class LateDevice : public Device {
 public:
  std::string description() const override { return "cpu with late lanes"; }
  bool is_host() const override { return true; }
  void* Allocate(std::int64_t bytes) override { return AllocateHost(bytes); }
  void Free(void* memory) override { FreeHost(memory); }
  void CopyToHost(void* host, const void* device, std::int64_t bytes) override {
    cpu_->CopyToHost(host, device, bytes);
  }
  void CopyFromHost(void* device, const void* host, std::int64_t bytes) override {
    cpu_->CopyFromHost(device, host, bytes);
  }
  void Synchronize() override {}
  Ops& ops() override { return cpu_->ops(); }
  void StartAfter(const Moment& moment) override { Reach(moment); }
  Moment Beside(int lane, const Moment& after, const std::function<void()>& work) override {
    auto task = std::make_shared<Task>(Task{lane, after, work});
    lanes_[static_cast<std::size_t>(lane)].push_back(task);
    ++tasks;
    return task;
  }
  std::int64_t internal_bytes() const override { return 0; }
  std::int64_t memory_bytes() const override { return 0; }
  double peak_flops(DType) const override { return 0; }

  int tasks = 0;

 private:
  struct Task {
    int lane = 0;
    Moment after;
    std::function<void()> work;
  };
  // Does what is before `moment` in its lane and what each of it waits for, then the work itself.
  void Reach(const Moment& moment) {
    if (moment == nullptr) {
      return;
    }
    auto& lane = lanes_[static_cast<std::size_t>(static_cast<const Task*>(moment.get())->lane)];
    const auto waits = [&] {
      return std::any_of(lane.begin(), lane.end(), [&](const auto& task) { return task.get() == moment.get(); });
    };
    while (waits()) {
      const std::shared_ptr<Task> task = lane.front();
      lane.pop_front();
      Reach(task->after);
      task->work();
    }
  }
  std::array<std::deque<std::shared_ptr<Task>>, kLanes> lanes_;
  std::unique_ptr<Device> cpu_ = MakeCpuDevice({});
};

constexpr std::array<std::int64_t, 3> kShards = {640, 64, 1024};

// Weights, gradients and state after a few updates.
std::vector<std::vector<float>> Updated(Device& device, DType dtype, std::int64_t host_piece) {
  MemoryUse planned;
  planned.bytes.fill(1 << 20);
  Arena arena(device, planned);
  std::vector<OwnedShard> shards;
  for (const std::int64_t count : kShards) {
    OwnedShard shard{.weight = arena.Allocate(MemoryKind::kWeights, dtype, {count}),
                     .gradient = arena.Allocate(MemoryKind::kGradients, DType::kFloat32, {count}),
                     .ranges = {}};
    device.ops().Fill(shard.weight, 0);
    // The last 24 elements are padding.
    shard.ranges = {{.first = 0, .count = 17, .decays = false}, {.first = 17, .count = count - 41, .decays = true}};
    shards.push_back(shard);
  }
  AdamW optimizer(arena, {.weight_decay = 0.1F, .host_piece = host_piece}, shards);
  for (int step = 1; step <= 3; ++step) {
    for (const OwnedShard& shard : shards) {
      for (std::int64_t i = 0; i < shard.gradient.count(); ++i) {
        shard.gradient.as<float>()[i] = RandomUniform(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(i));
      }
    }
    optimizer.Step(0.01F, 0.5F, step);
  }
  optimizer.JoinMasters();
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const Tensor& tensor : {optimizer.master(i), optimizer.first_moment(i), optimizer.second_moment(i)}) {
      values.emplace_back(tensor.as<float>(), tensor.as<float>() + tensor.count());
    }
  }
  EXPECT_EQ(arena.used()[MemoryKind::kHost] > 0, host_piece > 0);
  return values;
}

TEST(AdamW, PiecesThatPassThroughTheDeviceGiveTheBitsOfStateThatStays) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    LateDevice device;
    const auto expected = Updated(device, dtype, 0);
    EXPECT_EQ(device.tasks, 0);
    for (const std::int64_t piece : {64, 192, 640, 1024, 4096}) {
      LateDevice late;
      EXPECT_EQ(Updated(late, dtype, piece), expected) << Name(dtype) << " in pieces of " << piece;
      EXPECT_GT(late.tasks, 0);
    }
  }
}

}  // namespace
}  // namespace trireme
