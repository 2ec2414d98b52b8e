//===- Table.h - A pipeline's step as plain data ---------------------------===//
//
// What a `pipe.schedule` says, for those who make, check, time and run it. Stages,
// ranks, micro-batches and slots are counted from 0.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::pipe {

enum class ActionKind {
  Forward,
  /// All gradients, or that of the input alone where WeightGradient is apart.
  Backward,
  WeightGradient,
  SendActivation,
  ReceiveActivation,
  SendGradient,
  ReceiveGradient,
};

/// One thing that a rank does.
struct Action {
  ActionKind kind = ActionKind::Forward;
  /// The stage that computes; of a transfer the one that the activation enters.
  int64_t stage = 0;
  int64_t micro = 0;
  /// Where the rank keeps what `ownStage` needs of the micro-batch.
  int64_t slot = 0;
  /// The other rank of a transfer; -1 for a computation.
  int64_t peer = -1;

  bool operator==(const Action &) const = default;

  bool isSend() const {
    return kind == ActionKind::SendActivation || kind == ActionKind::SendGradient;
  }
  bool isReceive() const {
    return kind == ActionKind::ReceiveActivation || kind == ActionKind::ReceiveGradient;
  }
  bool isComputation() const { return !isSend() && !isReceive(); }
  /// Of a transfer: whether it is of a gradient.
  bool isOfGradient() const {
    return kind == ActionKind::SendGradient || kind == ActionKind::ReceiveGradient;
  }
  /// The stage of this rank that the action serves.
  int64_t ownStage() const {
    return kind == ActionKind::SendActivation || kind == ActionKind::ReceiveGradient ? stage - 1
                                                                                     : stage;
  }
  /// Of a transfer: the stage on the other side.
  int64_t peerStage() const { return ownStage() == stage ? stage - 1 : stage; }
};

llvm::hash_code hash_value(const Action &action);

/// As in IR: "F0.3[1]", "send A1.3[1] to 2".
std::string toString(const Action &action);

/// One direction of one kind of transfers between two ranks.
struct Channel {
  int64_t from = 0, to = 0;
  bool ofGradients = false;

  auto operator<=>(const Channel &) const = default;
};

/// The channel of a transfer in `rank`'s list.
Channel channelOf(const Action &transfer, int64_t rank);

/// A step of a pipeline.
struct Table {
  struct Rank {
    /// Slots of memory; each action names one.
    int64_t slots = 1;
    std::vector<Action> actions;
  };

  int64_t microBatches = 1;
  /// Values that a channel holds before a send waits.
  int64_t buffers = 1;
  llvm::SmallVector<int64_t> rankOfStage;
  std::vector<Rank> ranks;

  int64_t stages() const { return static_cast<int64_t>(rankOfStage.size()); }
  /// Whether the gradients of weights are actions of their own.
  bool hasWeightGradients() const;
};

} // namespace cleave::pipe
