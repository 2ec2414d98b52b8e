//===- ElementEmitter.h - code for elements of tensors ----------*- C++ -*-===//
//
// Emits, on demand, the value of a tensor's element at an index: a load, the
// body of the linalg op that makes it, or a value stored before. Inside a loop
// over vector lanes the same request gives a whole vector.
//
// Loops are *scopes*. Every piece of code goes to the outermost scope in which
// its operands exist, and is remembered there, so that nothing is computed twice
// and invariants leave loops by construction (LLVM could not move the loads: it
// does not know that destinations and inputs are apart).
//
// Products that are added become fused multiply-adds here, so that vector and
// scalar versions of one element round the same way.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Target/Kernel/Kernel.h"
#include "mlir/IR/Builders.h"
#include <map>
#include <memory>

namespace cleave::cpu {
using namespace target; // plans of kernels

/// A scalar, or a vector with one entry per lane.
struct Elem {
  mlir::Value value; ///< null while it is only known as `linear`
  mlir::Type type;   ///< of one lane
  bool lanes = false;
  unsigned scope = 0; ///< where it was computed
  std::optional<LinearExpr> linear;
  std::shared_ptr<std::pair<Elem, Elem>> product; ///< factors, if it is a product
};

class ElementEmitter {
public:
  using Elems = llvm::SmallVector<Elem, 2>;

  /// Emits into `entry`; `pointers[i]` is the base of argument i.
  ElementEmitter(const Kernel &kernel, mlir::OpBuilder &builder, mlir::Block *entry,
                 llvm::ArrayRef<mlir::Value> pointers);

  // Scopes: 0 is the function.
  unsigned pushScope(mlir::Block *block);
  void popScope() { scopes.pop_back(); }
  unsigned innermost() const { return scopes.size() - 1; }
  /// Code of `scope` goes before `op`, or to the end of its block if null.
  void setAnchor(unsigned scope, mlir::Operation *op) { scopes[scope].anchor = op; }
  mlir::OpBuilder &at(unsigned scope);

  /// A loop variable; `lanes`: each lane adds its number to `value`.
  unsigned addDim(mlir::Value value, unsigned scope, bool lanes);
  /// f32 lanes of vectors made now; 1 makes scalars.
  unsigned width = 1;
  /// The scope of a row: what stack buffers hold changes with it.
  unsigned rowScope = 0;
  /// Marks `root`'s values as stored: from now on they are read, not computed.
  void complete(const Root &root, llvm::ArrayRef<Elem> scalars);
  /// Another loop over rows begins: scalars of the last one are out of reach.
  void forgetScalars(const Kernel &kernel);

  /// The element of `value` at `index`.
  mlir::FailureOr<Elem> element(mlir::Value value, IndexList index);
  /// Runs the body of `op` at `loops` and returns what it yields; `accumulators`
  /// stand for its output arguments (or, if empty, the old elements do).
  mlir::FailureOr<llvm::SmallVector<Elem, 2>> body(mlir::linalg::GenericOp op,
                                                   llvm::ArrayRef<LinearExpr> loops,
                                                   llvm::ArrayRef<Elem> accumulators);
  /// The operation `op` of a body on other operands.
  mlir::FailureOr<Elems> apply(mlir::Operation *op, llvm::ArrayRef<Elem> operands);
  /// `elem` as an SSA value, a vector if `lanes`.
  mlir::Value materialize(const Elem &elem, bool lanes);

  /// Stores at the innermost scope, to an argument or to a stack buffer.
  mlir::LogicalResult store(const RootValue &slot, llvm::ArrayRef<LinearExpr> index,
                            const Elem &elem);
  /// Reads what `store` has stored.
  mlir::FailureOr<Elem> loadStored(const RootValue &slot, llvm::ArrayRef<LinearExpr> index,
                                   bool overRows);
  /// Brings the lines of a vector at `address` of an argument near.
  void prefetch(unsigned arg, const LinearExpr &address);
  void setBuffers(llvm::ArrayRef<mlir::Value> values) {
    buffers.assign(values.begin(), values.end());
  }

private:
  struct Scope {
    mlir::Block *block = nullptr;
    mlir::Operation *anchor = nullptr;
    std::map<std::pair<const void *, IndexList>, llvm::SmallVector<Elem, 2>> elements;
    std::map<std::pair<const void *, LinearExpr>, mlir::Value> addresses;
    std::map<std::pair<const void *, unsigned>, mlir::Value> broadcasts;
  };
  struct Dim {
    mlir::Value value;
    unsigned scope = 0;
    bool lanes = false;
  };

  unsigned scopeOf(const LinearExpr &expr) const;
  unsigned scopeOf(llvm::ArrayRef<LinearExpr> index) const;
  int64_t laneStride(const LinearExpr &expr) const;
  mlir::Value scalarIndex(const LinearExpr &expr);
  mlir::Value pointer(mlir::Value base, mlir::Type element, const LinearExpr &address,
                      unsigned &scope);
  mlir::Value lanePointers(mlir::Value pointer, mlir::Type element, int64_t stride,
                           mlir::Value offsets, unsigned scope);
  Elem load(mlir::Value base, mlir::Type element, const LinearExpr &address, unsigned minScope,
            const void *identity, mlir::Value laneOffsets = nullptr, unsigned laneOffsetsScope = 0);
  mlir::FailureOr<Elem> extract(mlir::Value tensor, llvm::ArrayRef<Elem> indices,
                                mlir::Location loc);
  mlir::FailureOr<Elem> captured(mlir::Value value);
  mlir::FailureOr<Elems> bodyOp(mlir::Operation &op, llvm::ArrayRef<LinearExpr> loops,
                                llvm::ArrayRef<Elem> operands);
  std::optional<Elem> fuseMultiplyAdd(mlir::Operation *op, llvm::ArrayRef<Elem> operands);
  Elem negate(const Elem &elem, mlir::Location loc);

  const Kernel &kernel;
  mlir::OpBuilder &builder;
  llvm::SmallVector<mlir::Value> pointers;
  llvm::SmallVector<mlir::Value> buffers;
  std::vector<Scope> scopes;
  std::vector<Dim> dims;
  llvm::DenseMap<mlir::Value, unsigned> dimOfValue;
  /// Stored values: the scalar of the row, or an Elem without a value for memory.
  llvm::DenseMap<mlir::Value, Elem> completed;
};

} // namespace cleave::cpu
