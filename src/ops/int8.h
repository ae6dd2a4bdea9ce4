// Int8 blocks as they are sent between ranks (base/int8_block.h).
#pragma once

namespace trireme {

// How packed blocks become numbers: `parts` packed tensors of the result's length lie one after another and are summed
// in fp32 in their order.
struct Int8Sum {
  int parts = 1;
  bool add = false;  // to what the result holds, which is fp32
};

}  // namespace trireme
