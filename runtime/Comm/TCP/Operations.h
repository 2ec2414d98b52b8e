// Sends and receives under way, by numbers that other processes give back. Internal to
// Comm/TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace cleave::rt::tcp {

/// One of them.
struct Operation {
  enum class State { Free, Waiting, Accepted, Done } state = State::Free;
  bool isSend = false;
  int peer = -1;
  char *data = nullptr;
  size_t bytes = 0;
  /// Of a receive that is done: the length, −1 if it did not fit.
  int received = 0;
};

class Operations {
public:
  uint64_t begin(bool isSend, int peer, char *data, int bytes);
  Operation &at(uint64_t number) { return all[number - 1]; }
  bool isUnderWay(uint64_t number) const {
    return number > 0 && number <= all.size() && all[number - 1].state != Operation::State::Free;
  }
  /// Of a number that another process gives; null if it can't mean that.
  Operation *find(uint64_t number, int peer, bool isSend);
  /// A receive is done with `bytes` from `data`, or with what lies there if that is null.
  void finishReceive(uint64_t number, size_t bytes, const char *data);
  void end(uint64_t number);

private:
  /// By number − 1; they don't move.
  std::deque<Operation> all;
  std::vector<uint64_t> freeNumbers;
};

} // namespace cleave::rt::tcp
