#include "planner/search/fan_out.h"

namespace trireme {

void FanOut(int workers, const std::function<void(int)>& work) {
  for (int worker = 0; worker < workers; ++worker) {
    work(worker);
  }
}

}  // namespace trireme
