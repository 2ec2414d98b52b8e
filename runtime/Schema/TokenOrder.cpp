// In which order the tokens of a sequence stand in the rows that ranks share.
#include "runtime/Schema/TokenOrder.h"

#include "runtime/Schema/Layout.h"

#include <algorithm>

namespace cleave::rt {

std::vector<int64_t> zigzagOrder(int64_t length, int64_t blocks) {
  std::vector<int64_t> order;
  order.reserve(length);
  const int64_t block = blockSize(length, blocks);
  int64_t front = 0, back = length;
  while (front < back) {
    const int64_t rows = std::min(block, back - front), early = (rows + 1) / 2, late = rows / 2;
    for (int64_t i = 0; i < early; ++i)
      order.push_back(front + i);
    front += early;
    back -= late;
    for (int64_t i = 0; i < late; ++i)
      order.push_back(back + i);
  }
  return order;
}

} // namespace cleave::rt
