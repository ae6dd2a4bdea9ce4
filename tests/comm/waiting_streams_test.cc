#include "comm/waiting_streams.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(WaitingStreams, MessagesOfFewRanksFit) {
  EXPECT_TRUE(WaitingStreams(2).Take(1, 2));
  EXPECT_TRUE(WaitingStreams(4).Take(1, 2));   // tensor 2, pipeline 2
  EXPECT_TRUE(WaitingStreams(4).Take(3, 4));   // pipeline 4
  EXPECT_FALSE(WaitingStreams(4).Take(4, 4));  // that goes round
  EXPECT_FALSE(WaitingStreams(8).Take(1, 2));
}

TEST(WaitingStreams, WhatIsTakenCountsUntilItIsGivenBack) {
  WaitingStreams streams(4);
  EXPECT_TRUE(streams.Take(1, 2));
  EXPECT_FALSE(streams.Take(1, 2));
  EXPECT_FALSE(streams.Take(1, 2));  // a refusal takes nothing
  streams.GiveBack(1, 2);
  EXPECT_TRUE(streams.Take(1, 2));
}

TEST(WaitingStreams, OneRankHasAllThatItAsksFor) {
  WaitingStreams streams(1);
  for (int group = 0; group < 100; ++group) {
    EXPECT_TRUE(streams.Take(8, 8));
  }
}

}  // namespace
}  // namespace trireme
