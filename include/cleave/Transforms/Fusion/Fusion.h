//===- Fusion.h - Operators become kernels ---------------------------------===//
//
// Decides which operators of a flat block are computed together, records it
// in the IR (`fusion.group`), and makes a kernel function of every group, in the
// form that a target's kernel compiler takes (see KernelCompiler.h): linalg on
// static tensors without encodings, destinations last, rows outermost.
//
// Operators take part by FusionOpInterface; none is named here. Nothing here
// schedules kernels, gives buffers to values or knows a target.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringMap.h"
#include <cstdint>
#include <string>

namespace cleave {

/// Number of the kernel that an operator belongs to (i64).
inline constexpr llvm::StringLiteral kFusionGroupAttr = "fusion.group";

/// What keeps operators out of each other's kernels where it differs (any attribute): they
/// run at times of their own.
inline constexpr llvm::StringLiteral kFusionApartAttr = "fusion.apart";

/// The decision of `cleave-fusion-decide` for one block, whose shapes are static,
/// and for those that repeat in it. Values keep their meaning; operators may be
/// split, copied and moved within their block.
void decideFusion(mlir::Block &flat);

/// A kernel's argument that is not a destination: a value of the function, or a
/// tensor that the program supplies (a table, this rank's coordinate).
struct KernelInput {
  mlir::Value value; ///< null: `extra` says what
  std::optional<BodyInput> extra;
};

struct KernelOutput {
  mlir::Value value;
  /// The value whose buffer must be this output's, null if the output gets a
  /// buffer of its own. The kernel reads the old elements there: the value is
  /// among the inputs of the group's operators, but no argument of the kernel,
  /// and nobody reads it after the group.
  mlir::Value inPlace;
};

/// A group of operators and the kernel that computes it.
struct KernelGroup {
  /// The operators, in program order, next to each other in their block.
  llvm::SmallVector<mlir::Operation *> ops;
  /// The kernel's arguments, in order: inputs, then outputs.
  llvm::SmallVector<KernelInput> inputs;
  llvm::SmallVector<KernelOutput> outputs;
  /// The kernel's name in the kernel module. Groups with equal kernels share it.
  std::string symbol;
  /// Rows: the kernel runs over [0, extent).
  int64_t extent = 0;
  /// Rows that one task should take.
  int64_t grain = 1;
  /// Read and written once in all.
  int64_t bytes = 0;
  /// Arithmetic operations on elements, all loops.
  int64_t flops = 0;
};

/// Kernels of a module by what they compute. One table serves all blocks whose kernels go to the
/// module, so that none is read twice.
class KernelTable {
public:
  /// With the kernels that are in `module` already.
  explicit KernelTable(mlir::ModuleOp module);

  /// The symbol of a kernel equal to `kernel`, which is added under a name made from `name` if
  /// there is none.
  std::string add(mlir::OwningOpRef<mlir::func::FuncOp> kernel, const std::string &name);
  mlir::ModuleOp getModule() const { return module; }

private:
  mlir::ModuleOp module;
  llvm::StringMap<std::string> symbols;
};

/// Makes a kernel in the module of `kernels` for every distinct group of `flat` (decided by
/// `decideFusion`, or by hand) and returns the groups in program order. Fails at the operator at
/// fault if a group cannot be one kernel: dynamic shapes, rows that do not agree, or a path between
/// members that leads through another operator.
/// Blocks that repeat in `flat` are left alone.
mlir::FailureOr<llvm::SmallVector<KernelGroup>> outlineKernels(mlir::Block &flat,
                                                               KernelTable &kernels);

#define GEN_PASS_DECL
#include "lib/Transforms/Fusion/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/Fusion/Passes.h.inc"

} // namespace cleave
