// The cases of collective_cases.h about groups, messages and accounting.
#pragma once

#include "comm/rank_runner.h"

namespace trireme {

void SplitByColorKeepsTheOrderOfRanks(RankContext& context);
void SplitByKeyReordersRanks(RankContext& context);
void SplitsNest(RankContext& context);
void GroupsOfOneMoveNothing(RankContext& context);
void MessagesGoRoundARing(RankContext& context);
void TagsDoNotWaitForEachOther(RankContext& context);
void MessagesToOneselfArrive(RankContext& context);
void ManyMessagesArriveInOrder(RankContext& context);
void SendersNeverWaitForReceivers(RankContext& context);
void GroupsDoNotMixTheirMessages(RankContext& context);
void SharedBytesAreTheRoots(RankContext& context);
void CollectedBytesAreOfEveryMember(RankContext& context);
void TrafficCountsPayloads(RankContext& context);
void ObserverSeesEveryCallInOrder(RankContext& context);

}  // namespace trireme
