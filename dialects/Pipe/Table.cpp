//===- Table.cpp - A pipeline's step as plain data -------------------------===//

#include "dialects/Pipe/Table.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::pipe {

llvm::hash_code hash_value(const Action &action) {
  return llvm::hash_combine(static_cast<int>(action.kind), action.stage, action.micro, action.slot,
                            action.peer);
}

std::string toString(const Action &action) {
  std::string text = action.isSend() ? "send " : action.isReceive() ? "recv " : "";
  switch (action.kind) {
  case ActionKind::Forward:
    text += 'F';
    break;
  case ActionKind::Backward:
    text += 'B';
    break;
  case ActionKind::WeightGradient:
    text += 'W';
    break;
  default:
    text += action.isOfGradient() ? 'G' : 'A';
  }
  text += std::to_string(action.stage) + "." + std::to_string(action.micro) + "[" +
          std::to_string(action.slot) + "]";
  if (!action.isComputation())
    text += (action.isSend() ? " to " : " from ") + std::to_string(action.peer);
  return text;
}

Channel channelOf(const Action &transfer, int64_t rank) {
  return transfer.isSend() ? Channel{rank, transfer.peer, transfer.isOfGradient()}
                           : Channel{transfer.peer, rank, transfer.isOfGradient()};
}

bool Table::hasWeightGradients() const {
  return llvm::any_of(ranks, [](const Rank &rank) {
    return llvm::any_of(rank.actions,
                        [](const Action &a) { return a.kind == ActionKind::WeightGradient; });
  });
}

} // namespace cleave::pipe
