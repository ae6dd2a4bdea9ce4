#include "device/cpu/matmul.h"

namespace trireme {
namespace {

class PlainEngine final : public MatmulEngine {
 public:
  explicit PlainEngine(int threads) : threads_(threads) {}
  std::string name() const override { return "plain"; }
  void Run(const MatmulArgs& args) override { PlainMatmul(args, threads_, scratch_); }
  std::int64_t internal_bytes() const override { return scratch_.bytes(); }

 private:
  int threads_;
  Scratch scratch_;
};

}  // namespace

std::unique_ptr<MatmulEngine> MakeMatmulEngine(int threads) { return std::make_unique<PlainEngine>(threads); }

}  // namespace trireme
