// A group of ranks that are processes, over MPI, which sees host memory only: tensors of another device are staged.
// Sums are taken in rank order, so equal runs give equal bits. Calls are compared before MPI sees them, because MPI
// itself answers a mismatch by hanging or by corrupting memory.
#pragma once

#include <mpi.h>

#include "comm/communicator.h"
#include "comm/mpi_session.h"
#include "comm/mpi_wait.h"
#include "comm/staging.h"

namespace trireme {

class MpiCommunicator : public Communicator {
 public:
  // All processes. Session and device must outlive the communicator. Collective.
  MpiCommunicator(MpiSession& session, Device& device, std::string name = "world");
  // Takes `group` over and frees it.
  MpiCommunicator(MpiSession& session, MPI_Comm group, Device& device, std::string name);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  // Prints "rank R: message" and ends every process with exit code 1. Does not return.
  void Abort(const std::string& message) override;

  // The last call of a rank on its world. An Error when another member calls something else instead.
  void End();

 protected:
  Device& device() override { return device_; }
  std::unique_ptr<Communicator> DoSplit(const std::string& name, int color, int key) override;
  void Do(const CollectiveCall& call, const Tensor& in, const Tensor& out) override;
  std::shared_ptr<const std::string> DoShareBytes(const CollectiveCall& call,
                                                  std::shared_ptr<const std::string> bytes) override;
  std::vector<std::string> DoCollectBytes(const CollectiveCall& call, std::string bytes) override;

 private:
  MpiGroup group() const { return {group_, session_.yields()}; }
  // Waits until every member is here; throws on all of them when their calls differ.
  void CheckCalls(const CollectiveCall& call) const;
  int WorldRank(int member) const;
  char* Scratch(std::int64_t bytes);
  void StartSend(const CollectiveCall& call, const Tensor& message);
  void TakeMessage(const CollectiveCall& call, const Tensor& message);
  // What follows works on host memory.
  void DoOnHost(const CollectiveCall& call, const Tensor& in, const Tensor& out);
  void AllReduceOnHost(const Tensor& in_place, ReduceOp op);
  void ReduceScatterOnHost(const Tensor& in, const Tensor& out);
  // The two ways to all-reduce: gather everything and sum it all, or let each member sum a part and gather the sums.
  void ReduceSmall(const Tensor& in_place, ReduceOp op);
  void ReduceBlock(const Tensor& in_place, ReduceOp op);

  MpiSession& session_;
  MPI_Comm group_ = MPI_COMM_NULL;
  Device& device_;
  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<char[]> scratch_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace trireme
