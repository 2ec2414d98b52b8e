//===- Units.h - Groups of operators and what they wait for ----------------===//
//
// A flat function as a graph of units: a unit is a group, or an operator alone.
// Keeps what each operator must come after (operands, and the order of effects)
// and answers whether an operator may join a group.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace cleave::fusion {

class Units {
public:
  /// Every operator of `block` but the terminator is a unit of its own.
  explicit Units(mlir::Block &block);

  size_t size() const { return ops.size(); }
  mlir::Operation *op(unsigned index) const { return ops[index]; }
  /// Index of an operator of the block, or -1.
  int find(mlir::Operation *op) const {
    auto it = index.find(op);
    return it == index.end() ? -1 : static_cast<int>(it->second);
  }
  unsigned unitOf(unsigned op) const { return unit[op]; }
  llvm::ArrayRef<unsigned> members(unsigned unit) const { return memberLists[unit]; }

  /// Whether no path leads from one of two units to the other through a third.
  bool mayMerge(unsigned a, unsigned b) const {
    return !waitsThroughOthers(a, b) && !waitsThroughOthers(b, a);
  }
  /// Moves the members of `unit` to `target`.
  void merge(unsigned unit, unsigned target);

  /// Puts the members of every unit next to each other, units in an order that
  /// keeps all dependences, as near to the present one as can be. False (and
  /// nothing moves) if units wait for each other in a circle.
  bool reorder();

private:
  /// Whether `waiting` must come after `target` on account of a third unit.
  bool waitsThroughOthers(unsigned waiting, unsigned target) const;

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, unsigned> index;
  llvm::SmallVector<llvm::SmallVector<unsigned>> after; ///< by operator
  llvm::SmallVector<unsigned> unit;                     ///< by operator
  llvm::SmallVector<llvm::SmallVector<unsigned>> memberLists;
};

} // namespace cleave::fusion
