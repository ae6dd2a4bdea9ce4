// How many groups a rank makes does not depend on how many ranks there are.
#include "comm/grid_comms.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme {
namespace {

// A rank of a world that need not exist: counts the groups that are split off, all of one member.
class CountingCommunicator : public Communicator {
 public:
  CountingCommunicator(std::string name, int rank, int size, int& splits)
      : Communicator(std::move(name)), rank_(rank), size_(size), splits_(splits) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void Abort(const std::string& message) override { Fail("{}", message); }

 protected:
  Device& device() override { Fail("group '{}' has no device", name()); }
  std::unique_ptr<Communicator> DoSplit(const std::string& name, int /*color*/, int /*key*/) override {
    ++splits_;
    return std::make_unique<CountingCommunicator>(name, 0, 1, splits_);
  }
  void Do(const CollectiveCall& call, const Tensor& /*in*/, const Tensor& /*out*/) override {
    Fail("{} is not expected", Describe(call));
  }
  std::shared_ptr<const std::string> DoShareBytes(const CollectiveCall& call,
                                                  std::shared_ptr<const std::string> /*bytes*/) override {
    Fail("{} is not expected", Describe(call));
  }
  std::vector<std::string> DoCollectBytes(const CollectiveCall& call, std::string /*bytes*/) override {
    Fail("{} is not expected", Describe(call));
  }

 private:
  int rank_;
  int size_;
  int& splits_;
};

int GroupsOf(const ParallelLayout& layout, int rank) {
  int splits = 0;
  CountingCommunicator world("world", rank, layout.ranks(), splits);
  const GridComms comms(world, layout, layout.pipeline - 1);
  return splits;
}

TEST(GridComms, ARankMakesAsManyGroupsAmongTenThousandAsAmongEight) {
  ParallelLayout small;
  small.tensor = small.pipeline = small.data = 2;
  ParallelLayout large;
  large.tensor = 8;
  large.pipeline = 16;
  large.data = 80;
  for (const int rank : {0, 1, large.ranks() / 2 + 3, large.ranks() - 1}) {
    EXPECT_EQ(GroupsOf(large, rank), GroupsOf(small, rank % small.ranks())) << rank;
  }
  EXPECT_EQ(large.ranks(), 10'240);
  EXPECT_LE(GroupsOf(large, 0), 6);
}

}  // namespace
}  // namespace trireme
