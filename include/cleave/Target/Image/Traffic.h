//===- Traffic.h - What ranks exchange in a step ---------------------------===//
//
// The table of a step's communication, made of a module in `exec` before anything
// runs. Bytes are those that the runtime's communicators and channels count: of a
// message, not of what a transport moves.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/Schema/Program.h"

namespace cleave {

/// One exchange, as often as the ranks of a program do it in a step. A transfer
/// between stages stands at the rank that sends.
struct TrafficRow {
  /// Place in the pipeline; 0 without one.
  int64_t program = 0;
  /// "microbatch", "update", …; "pipeline" for a transfer.
  std::string entry;
  /// Of an entry of a stage, and of a transfer the one that sends.
  std::optional<int64_t> stage;
  /// "all_reduce", …; "send_activation", "send_gradient".
  std::string kind;
  /// Path of the operator whose value it is, "*" for the number of a layer; of a transfer
  /// "to stage 1".
  std::string label;
  /// Name of the group in the program; none for a transfer.
  std::string group;
  /// The axes along which the ranks differ, and how many take part.
  std::vector<std::string> axes;
  int64_t members = 1;
  /// Where the value lies before and after it, and the names of its dimensions; absent
  /// for a transfer.
  dist::ShardingAttr from, to;
  std::vector<std::string> dims;
  /// Bytes of a message, and how often it comes on each rank in a step.
  int64_t bytes = 0, count = 0;
  /// Of an exchange that goes with others in one message: which one, by the label of its
  /// bucket; and whether it is the one with which that is counted.
  std::string bucket;
  bool begins = true;
  /// Ranks of the mesh that do so.
  int64_t ranks = 1;
  /// Of a transfer: place in the pipeline of the rank that receives.
  int64_t peer = -1;

  bool isTransfer() const { return group.empty(); }
  /// Of one rank in a step.
  int64_t total() const { return bytes * count; }
  int64_t messages() const { return begins ? count : 0; }
};

/// All that a step of `microBatches` micro-batches exchanges; rows that come to nothing (groups of
/// one rank, entries that a step does not run) are left out. In the order of the
/// programs.
std::vector<TrafficRow> trafficOf(mlir::ModuleOp module, int64_t microBatches);

/// "batch, sequence / tensor, model; partial data": for each dimension its name and the
/// axes that cut it.
std::string placementText(dist::ShardingAttr placement, llvm::ArrayRef<std::string> dims);

/// What each of `programs` counts in a step, by the table; the groups are the program's.
void setTraffic(llvm::MutableArrayRef<rt::Program> programs, mlir::ModuleOp module);

} // namespace cleave
