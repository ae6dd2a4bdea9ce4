#include "ops/loss.h"

#include "base/error.h"
#include "ops/checks.h"

namespace trireme {

void Check(const SoftCap<Tensor>& op) {
  RequireWorkingType({"SoftCap", "logits", op.logits});
  Require(op.cap > 0, "SoftCap: the cap {} is not above 0", op.cap);
}

}  // namespace trireme
