// The message library of processes that have met over TCP: one connection between any
// two of them, messages in order for each sender and tag. What CleaveTransport asks for.
//
// A short message is sent at once and kept by its receiver until it is asked for. A
// long one is announced, and sent when its receiver has said where it goes: it is
// copied nowhere, and takes no memory at a receiver that is late. Things move while
// somebody asks (`test`), whichever message it is about; no call waits but the exchange
// at the start.
#pragma once

#include "runtime/Comm/TCP/Meeting.h"
#include "runtime/Comm/Transport.h"

#include <memory>

namespace cleave::rt::tcp {

class Mesh {
public:
  virtual ~Mesh() = default;
  /// Its functions live as long as the mesh. Codes name the connection that failed.
  virtual CleaveTransport table() = 0;

  /// `contacts` as `meet` gives them, for process `self`.
  static std::unique_ptr<Mesh> create(int self, std::vector<Contact> contacts);
};

} // namespace cleave::rt::tcp
