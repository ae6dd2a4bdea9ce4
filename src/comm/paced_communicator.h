// A group of ranks whose devices are paced. Members meet as threads of one process do; a collective begins in simulated
// time when the last of them could begin it and takes what its PacedCluster says. A message occupies its sender's route
// to the next or the previous member and arrives when that is done; the receiver's stream waits for it. Values of a few
// bytes (kPacedValueBytes per member) are exchanged: ranks agree on numbers. Tensors are not.
#pragma once

#include "comm/thread_world.h"
#include "device/paced/paced_device.h"

namespace trireme {

class PacedCommunicator final : public Communicator {
 public:
  // This rank's device, and one of the host that moves values.
  struct Devices {
    PacedDevice& paced;
    Device& host;
  };
  // Member `member` of `group`, which belongs to `world`. All outlive the communicator.
  PacedCommunicator(ThreadWorld& world, ThreadGroup& group, int member, const Devices& devices,
                    std::string name = "world");

  int rank() const override { return member_; }
  int size() const override { return group_.size(); }
  void Abort(const std::string& message) override { world_.Abort(group_.world_rank(member_), message); }
  void CheckAborted() const override { world_.ThrowIfAborted(); }

 protected:
  Device& device() override { return devices_.paced; }
  std::unique_ptr<Communicator> DoSplit(const std::string& name, int color, int key) override;
  void Do(const CollectiveCall& call, const Tensor& in, const Tensor& out) override;
  std::shared_ptr<const std::string> DoShareBytes(const CollectiveCall& call,
                                                  std::shared_ptr<const std::string> bytes) override;
  std::vector<std::string> DoCollectBytes(const CollectiveCall& call, std::string bytes) override;
  void DoConnectNeighbours(Neighbours /*neighbours*/, int first_stream) override { first_route_ = first_stream; }

 private:
  void MeetAtBarrier(const CollectiveCall& call);
  void PostMessage(const CollectiveCall& call, const Tensor& message);
  void TakeMessage(const CollectiveCall& call, const Tensor& message);
  // Values are exchanged when what a member brings or gets is small.
  void Exchange(Post post);
  // The stream of this rank's messages to a member.
  int RouteTo(int member) const;
  int NodeOf(int member) const { return group_.world_rank(member) / devices_.paced.cluster().ranks_per_node(); }

  ThreadWorld& world_;
  ThreadGroup& group_;
  const int member_;
  Devices devices_;
  PacedGroup place_;
  int first_route_ = kFirstMessageStream;  // to the next member; the one after it to the previous
};

}  // namespace trireme
