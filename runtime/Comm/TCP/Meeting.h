// How processes that were started by somebody who only numbers them come to be
// connected, each with each. They know where the first process is to be found, a
// name and a port that it listens on:
//
//   1. All others connect to the first, which lets in those of this run, and says
//      where each of them listens when all are there.
//   2. Each connects to those with smaller numbers, over the network by which it
//      reached the first.
//   3. When all have said that they are done, the first lets them go, and nobody
//      listens any more.
//
// Nothing waits longer than it was told to. What goes wrong for one becomes the error
// of all that have come, and says who is missing or could not reach whom. Messages are
// not encrypted, and who can read them can join: a run belongs into a network of its
// own, as with MPI, NCCL and Gloo.
#pragma once

#include "runtime/Base/Files.h"
#include "runtime/Base/Status.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cleave::rt::tcp {

/// Where and as whom to meet; alike on all processes but for `process`.
struct MeetingPlace {
  int process = 0, processes = 1;
  /// A name or an address of the first process's host.
  std::string host;
  /// The first of these that is free on its host.
  std::vector<uint16_t> ports;
  /// Where host and ports came from, for messages: "MASTER_PORT = 29500".
  std::string given;
  /// All processes are on this host, as far as is known.
  bool isOneHost = false;
  /// Tells this run from others that meet at the same place.
  std::string run;
  /// For all to come.
  std::chrono::milliseconds limit{60000};
  /// Asked now and then: whether to wait no longer.
  std::function<bool()> isStopped;
};

/// The connections to one process.
struct Contact {
  FileDescriptor messages;
  /// What has been read from there before the meeting was over.
  std::string unread;
  /// Between the first process and another one.
  FileDescriptor control;
  /// "10.0.0.2:40123"
  std::string address;
};

/// Waits for all; a contact for each process, in order, that of this one empty.
/// `comm.port_taken` (exit 2) where the first process can't listen,
/// `comm.no_leader` where the first process is not found in time, or lost,
/// `comm.unreachable` where others don't come or can't reach each other in time,
/// `comm.rank_lost` where one that had come went, `runtime.bad_launch` (exit 2) where
/// two have the same number or were told of different numbers of processes,
/// `comm.stopped` (exit 130) where one was told to wait no longer.
StatusOr<std::vector<Contact>> meet(const MeetingPlace &place);

} // namespace cleave::rt::tcp
