// Numbers, and what they stand for.
#include "runtime/Comm/TCP/Operations.h"

#include <cstring>

namespace cleave::rt::tcp {

uint64_t Operations::begin(bool isSend, int peer, char *data, int bytes) {
  if (freeNumbers.empty()) {
    all.emplace_back();
    freeNumbers.push_back(all.size());
  }
  const uint64_t number = freeNumbers.back();
  freeNumbers.pop_back();
  at(number) = {Operation::State::Waiting, isSend, peer, data, static_cast<size_t>(bytes), 0};
  return number;
}

Operation *Operations::find(uint64_t number, int peer, bool isSend) {
  if (!isUnderWay(number))
    return nullptr;
  Operation &operation = at(number);
  return operation.peer == peer && operation.isSend == isSend ? &operation : nullptr;
}

void Operations::finishReceive(uint64_t number, size_t bytes, const char *data) {
  Operation &operation = at(number);
  const bool fits = bytes <= operation.bytes;
  if (fits && data && bytes > 0)
    std::memcpy(operation.data, data, bytes);
  operation.received = fits ? static_cast<int>(bytes) : -1;
  operation.state = Operation::State::Done;
}

void Operations::end(uint64_t number) {
  at(number) = {};
  freeNumbers.push_back(number);
}

} // namespace cleave::rt::tcp
