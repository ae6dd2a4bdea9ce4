// A group of ranks that are threads of one process, with their data in memory that all of them can reach: the host's,
// or one GPU's that they share. Small collectives, and all of a GPU's, are done by the last member to arrive; in large
// ones on the host each member does its share.
#pragma once

#include "comm/thread_world.h"

namespace trireme {

class ThreadCommunicator : public Communicator {
 public:
  // Member `member` of `group`, which belongs to `world`. World and device must outlive the communicator.
  ThreadCommunicator(ThreadWorld& world, ThreadGroup& group, int member, Device& device, std::string name = "world");

  int rank() const override { return member_; }
  int size() const override { return group_.size(); }
  void Abort(const std::string& message) override;
  void CheckAborted() const override { world_.ThrowIfAborted(); }

 protected:
  Device& device() override { return device_; }
  std::unique_ptr<Communicator> DoSplit(const std::string& name, int color, int key) override;
  void Do(const CollectiveCall& call, const Tensor& in, const Tensor& out) override;
  std::shared_ptr<const std::string> DoShareBytes(const CollectiveCall& call,
                                                  std::shared_ptr<const std::string> bytes) override;
  std::vector<std::string> DoCollectBytes(const CollectiveCall& call, std::string bytes) override;

 private:
  void PostMessage(const CollectiveCall& call, const Tensor& message);
  void TakeMessage(const CollectiveCall& call, const Tensor& message);
  void Exchange(const Post& post);
  void ExchangeOnDevice(Post post);

  ThreadWorld& world_;
  ThreadGroup& group_;
  const int member_;
  Device& device_;
};

}  // namespace trireme
