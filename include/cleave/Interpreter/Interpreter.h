//===- Interpreter.h - The float64 reference interpreter -------------------===//
//
// Runs a function in float64, for any number of ranks in one process. This is
// the meaning of the IR: a partitioned program, a gradient or a kernel is right
// if it agrees with what is computed here. Speed is no aim.
//
// All ranks run the same function in lockstep: every SSA value holds one tensor
// for each rank, and an operator is interpreted on every rank before the next
// operator. So an exchange between ranks is one step that sees everybody's
// operands, and nothing can deadlock.
//
// No operator is named here. Operators bring their meaning by interface
// (`InterpretableOpInterface`, `CollectiveOpInterface`, `StateOpInterface`);
// calls and constants go by MLIR's own interfaces.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Interfaces/HostTensor.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringRef.h"
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cleave {

/// One value: a tensor for each rank.
using RankTensors = std::vector<HostTensor>;

/// The tensors that outlive a run: parameters, gradients, moments, by
/// (symbol, slot). One store belongs to one number of ranks.
class StateStore {
public:
  using Key = std::pair<std::string, std::string>;

  /// The tensors of (symbol, slot), or null if nothing has stored them.
  const RankTensors *find(llvm::StringRef symbol, llvm::StringRef slot) const;
  /// Replaces the tensors of (symbol, slot).
  void set(llvm::StringRef symbol, llvm::StringRef slot, RankTensors tensors);
  /// Adds to (symbol, slot); absent tensors count as zeros. Fails, and changes
  /// nothing, if a shape differs from the one that is there.
  llvm::LogicalResult accumulate(llvm::StringRef symbol, llvm::StringRef slot,
                                 const RankTensors &tensors);
  /// Forgets one slot of every symbol (the gradients, when a step starts).
  void clearSlot(llvm::StringRef slot);

  /// Everything that is stored, in order of symbol and slot.
  const std::map<Key, RankTensors> &contents() const { return tensors; }

private:
  std::map<Key, RankTensors> tensors;
};

/// `count` rows (indices of the first dimension) of each tensor, from `begin` on.
RankTensors takeRows(const RankTensors &tensors, int64_t begin, int64_t count);

/// Tensors of `all` rows that hold `tensors` from row `begin` on, and zeros.
RankTensors spreadRows(const RankTensors &tensors, int64_t begin, int64_t all);

/// A repeat around what runs, and which of its iterations it is, from 0.
struct Iteration {
  mlir::Operation *repeat;
  int64_t number;
};

struct InterpreterOptions {
  /// Ranks in lockstep, at least one.
  unsigned ranks = 1;
  /// Refuse an operator that leaves a NaN in a result. Results hold NaN before
  /// an operator runs, so this finds elements that were never written.
  bool refuseNaN = true;
  /// Adds up what the stages of a pipeline that are in `ranks` (places along its axis)
  /// give; each is interpreted as a program of its own, on a thread of its own. Fails
  /// where another stage does not come.
  std::function<llvm::FailureOr<RankTensors>(llvm::ArrayRef<int64_t> ranks, const RankTensors &)>
      sumOverStages;
  /// Called after every operator, those in called functions included, with its
  /// results (by result, then by rank) and the repeats around it and around the calls
  /// that led to it, the outermost first.
  std::function<void(mlir::Operation *, llvm::ArrayRef<const RankTensors *>,
                     llvm::ArrayRef<Iteration>)>
      observer;
};

/// Runs `function` on `arguments` (by argument, then by rank) and returns its
/// results in the same form. All types must be static (see `specializeSizes`).
/// Errors are diagnostics at the operator at fault: an operator without a
/// meaning, a dynamic shape, a missing state tensor, a NaN in a result.
llvm::FailureOr<std::vector<RankTensors>> interpret(mlir::FunctionOpInterface function,
                                                    llvm::ArrayRef<RankTensors> arguments,
                                                    StateStore &state,
                                                    const InterpreterOptions &options = {});

/// The elements of a constant in float64 (integers exactly up to 2⁵³); fails
/// on anything but integers and floats.
llvm::FailureOr<HostTensor> toHostTensor(mlir::DenseElementsAttr elements);

/// `tensor` as an attribute of f64 elements.
mlir::DenseElementsAttr toAttribute(mlir::MLIRContext *context, const HostTensor &tensor);

} // namespace cleave
