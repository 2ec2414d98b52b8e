//===- AttentionKernel.h - generated CPU attention --------------*- C++ -*-===//
//
// Builds causal softmax attention with grouped queries, and its gradients, as
// functions for given static sizes:
//
//   extern "C" void name(void *const *args, int64_t begin, int64_t end);
//
// over units [begin, end) of [0, extent) that do not depend on each other: tiles
// of queries (forward, query gradient) or of keys (key and value gradients) of one
// head. Scores live in a tile on the stack and nowhere else; nothing is allocated;
// the bits do not depend on how the range is cut, and calls on disjoint ranges may
// run at the same time.
//
// The functions are ordinary ones of arith, scf, vector and LLVM ops without
// `cleave.outputs`: `compileObject` lowers and compiles them as they are, in the
// same module as fused kernels if so wished.
//
// Operands are dense, row-major, f32 or (`narrow`) bf16, and do not overlap:
//
//   query, its gradient           [batch, sequence, kv_head, group, head_dim]
//   out, its gradient             [batch, sequence, kv_head, group, value_dim]
//   key, its gradient             [batch, sequence, kv_head, head_dim]
//   value, its gradient           [batch, sequence, kv_head, value_dim]
//   lse                           [batch, sequence, kv_head, group]
//   sinks                         [kv_head, group]
//
// With `keys`, key and value have so many rows in place of `sequence`, and two more
// operands stand behind those that are read: the positions of queries [batch, sequence]
// and of keys [batch, keys], i32, in any order. A query sees the keys at its own
// position and before. One that sees none yields zeros, and an lse that means nothing.
//
// With `sinks`, which the forward kernel alone takes, behind all others that are read, each
// row has a further score whose value is zero; it is in lse.
//
// This is not a choice of which attention to run, nor does it know of operators:
// see the callers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CPU/KernelCompiler.h"

namespace cleave::cpu {

/// Sizes of one attention, all at least 1.
struct AttentionSizes {
  int64_t batch = 1;
  int64_t sequence = 1;
  int64_t kvHeads = 1;
  int64_t group = 1; ///< query heads that share a key and value head
  int64_t headDim = 1;
  double scale = 1;     ///< scores are multiplied by it
  int64_t window = 0;   ///< positions that a query sees, itself included; 0: all up to itself
  double cap = 0;       ///< scores are bounded: cap * tanh(score / cap); 0: they are not
  int64_t keys = 0;     ///< keys of a sequence, by position; 0: row i of both is position i
  int64_t valueDim = 0; ///< width of values and of out; 0: that of keys
  bool sinks = false;
  /// Bit i: the kernel's operand i, positions and sinks not counted, is bf16 in memory. It is
  /// widened when it is read and rounded when it is written; lse never is.
  unsigned narrow = 0;

  int64_t valueWidth() const { return valueDim != 0 ? valueDim : headDim; }
  bool hasPositions() const { return keys != 0; }
  int64_t keyRows() const { return hasPositions() ? keys : sequence; }
  /// Whether the window hides anything.
  bool isWindowed() const { return window != 0 && window < keyRows(); }
  /// Floating-point operations of products of `width` elements over the visible (query, key)
  /// pairs; where there are positions, the share of `sequence` queries out of `keys` at all of
  /// them.
  double productFlops(int64_t width) const {
    // The first `full` queries see all up to themselves, the others `full` keys each.
    double all = double(keyRows()), full = double(isWindowed() ? window : all), rest = all - full;
    return double(batch * kvHeads * group * width) * (full * (full + 1) + 2 * full * rest) *
           (double(sequence) / all);
  }
};

/// A kernel that was added to a module.
struct AttentionKernel {
  std::string symbol;
  int64_t extent = 0; ///< units: the range that calls cover together
  int64_t grain = 1;  ///< the fewest units worth a call of their own
  double flops = 0;   ///< of the products over visible pairs that the kernel computes
};

/// Adds `name` to `module`, with operands (query, key, value, out, lse): writes the
/// attention and the log-sum-exp of each row of scores. On failure an error at the
/// module says which size or profile is not supported.
mlir::FailureOr<AttentionKernel> buildAttentionForward(mlir::ModuleOp module, llvm::StringRef name,
                                                       const AttentionSizes &sizes,
                                                       const Profile &profile);

/// Adds `name` to `module`, with operands (query, key, value, out, lse, outGradient,
/// queryGradient): writes the gradient of the query. Errors as above.
mlir::FailureOr<AttentionKernel> buildAttentionBackwardQuery(mlir::ModuleOp module,
                                                             llvm::StringRef name,
                                                             const AttentionSizes &sizes,
                                                             const Profile &profile);

/// Adds `name` to `module`, with operands (query, key, value, out, lse, outGradient,
/// keyGradient, valueGradient): writes the gradients of key and value. Errors as
/// above.
mlir::FailureOr<AttentionKernel> buildAttentionBackwardKeyValue(mlir::ModuleOp module,
                                                                llvm::StringRef name,
                                                                const AttentionSizes &sizes,
                                                                const Profile &profile);

} // namespace cleave::cpu
