// Buffers of activations on a device whose streams run as late as they may: what is not waited for shows.
#include "nn/activation_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "train/late_device.h"

namespace trireme {
namespace {

constexpr std::int64_t kBytes = 8;
constexpr std::size_t kBlocks = 5;

class Buffers : public testing::Test {
 protected:
  ActivationBuffers::Home HomeOf(std::size_t block) { return {.host = host_.data() + block * kBytes, .bytes = kBytes}; }
  // What a block's forward leaves, as a kernel of the compute stream would write it.
  static void Write(char* kept, std::size_t block, char round) {
    std::fill_n(kept, kBytes, static_cast<char>(10 * round + static_cast<char>(block)));
  }
  static std::vector<char> Written(std::size_t block, char round) {
    return std::vector<char>(kBytes, static_cast<char>(10 * round + static_cast<char>(block)));
  }
  static std::vector<char> Read(const char* kept) { return {kept, kept + kBytes}; }

  void Forward(char round) {
    char* kept = buffers_.Take(HomeOf(0));
    for (std::size_t block = 0; block < kBlocks; ++block) {
      // The output goes into the next block's buffer while this one's is read.
      char* const next = block + 1 < kBlocks ? buffers_.Take(HomeOf(block + 1)) : nullptr;
      EXPECT_NE(kept, next);
      Write(kept, block, round);
      buffers_.Save(HomeOf(block));
      kept = next;
    }
  }
  void ExpectBackward(char round, bool again) {
    for (std::size_t block = kBlocks; block-- > 0;) {
      buffers_.Prefetch(HomeOf(block));
      if (block > 0) {
        buffers_.Prefetch(HomeOf(block - 1));
      }
      char* const kept = buffers_.Get(HomeOf(block));
      EXPECT_EQ(Read(kept), Written(block, round)) << block;
      if (again) {
        Write(kept, block, static_cast<char>(round + 1));  // as the first part of a backward in two
        buffers_.Save(HomeOf(block));
      } else {
        std::fill_n(kept, kBytes, '\0');
        buffers_.Drop(HomeOf(block));
      }
    }
  }

  LateDevice device_;
  std::array<char, kBytes * kActivationBuffers> memory_{};
  std::array<char, kBytes * kBlocks> host_{};
  ActivationBuffers buffers_{device_, memory_.data(), kBytes};
};

TEST_F(Buffers, BringBackWhatForwardLeft) {
  for (const char round : {1, 2, 3}) {
    Forward(round);
    ExpectBackward(round, false);
  }
}

TEST_F(Buffers, BringBackWhatTheFirstPartOfBackwardLeft) {
  Forward(1);
  ExpectBackward(1, true);
  ExpectBackward(2, false);
  Forward(3);
  ExpectBackward(3, false);
}

TEST_F(Buffers, FetchOnlyWhatIsNotHere) {
  Forward(1);
  const int saves = device_.tasks;
  EXPECT_EQ(saves, static_cast<int>(kBlocks));
  ExpectBackward(1, false);
  EXPECT_EQ(device_.tasks - saves, static_cast<int>(kBlocks) - kActivationBuffers);
}

}  // namespace
}  // namespace trireme
