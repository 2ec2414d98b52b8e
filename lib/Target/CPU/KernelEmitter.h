//===- KernelEmitter.h - a planned kernel as loops over vectors -*- C++ -*-===//
//
// Writes the function (args, begin, end) of a planned kernel: the loop over rows,
// in it the nests, in them vector code from ElementEmitter. A dimension that runs
// over lanes is cut into sections: wide vectors, single registers, scalars.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ElementEmitter.h"

namespace cleave::cpu {

class KernelEmitter {
public:
  explicit KernelEmitter(const Kernel &kernel);
  /// Puts the new function in the place of the kernel's.
  mlir::LogicalResult run();

private:
  /// A part of a dimension that is walked in steps of `width`.
  struct Section {
    unsigned width = 1;
    int64_t begin = 0, end = 0;
  };
  /// One accumulator per result of every reduction in the nest, and per section.
  using Accumulators = llvm::SmallVector<llvm::SmallVector<Elem, 4>, 3>;

  void createFunction();
  unsigned wideVector(bool accumulates, unsigned heavyOps, unsigned accumulators) const;
  std::vector<Section> sectionsOf(const Nest &nest) const;

  /// Runs `body` for every row of the range, or for vectors of rows.
  mlir::LogicalResult forRows(llvm::function_ref<mlir::LogicalResult()> body);
  mlir::LogicalResult emitRowLoop(mlir::Value begin, mlir::Value end, unsigned width,
                                  llvm::function_ref<mlir::LogicalResult()> body);
  mlir::LogicalResult emitNest(const Nest &nest);
  mlir::LogicalResult emitLoops(unsigned pos);
  mlir::LogicalResult emitReductions(unsigned pos);
  mlir::LogicalResult emitReductionLoops(unsigned pos, Accumulators &accumulators,
                                         std::optional<unsigned> section);
  mlir::LogicalResult emitLeaf(llvm::MutableArrayRef<Elem> accumulators);
  void planPrefetches(llvm::ArrayRef<const Nest *> nests);
  bool sumsInBlocks(const Nest &nest) const;
  mlir::LogicalResult emitSumsInBlocks(const Nest &nest);
  mlir::LogicalResult emitBlockOfSums(const LinearExpr &first, int64_t count);
  mlir::LogicalResult emitScatter(const Nest &nest);
  mlir::LogicalResult emitScatterLoops(unsigned pos, bool accumulate);

  /// Runs `body` for position `pos` of the nest in [begin, end) by steps; carries
  /// the values of `carried` through the loop.
  mlir::LogicalResult forRange(unsigned pos, const Section &section, bool lanes,
                               llvm::MutableArrayRef<Elem *> carried,
                               llvm::function_ref<mlir::LogicalResult()> body);
  mlir::Value neutralElement(mlir::Operation *combiner, mlir::Type type, unsigned width);
  mlir::Value combine(mlir::Operation *combiner, mlir::Value a, mlir::Value b);
  mlir::Value combineLanes(mlir::Operation *combiner, mlir::Value lanes);
  mlir::FailureOr<Elem> initialElement(const Root &root, unsigned result);
  mlir::LogicalResult finishReductions(Accumulators &accumulators, bool split);

  const Kernel &kernel;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::func::FuncOp function;
  std::optional<ElementEmitter> emitter;
  mlir::Value begin, end; ///< of the rows, as index

  /// The nest in which the next row's operands are fetched ahead, and what they are.
  const Nest *prefetchNest = nullptr;
  std::vector<Load> prefetches;

  // The nest being emitted.
  const Nest *nest = nullptr;
  llvm::SmallVector<LinearExpr, 6> nestDims; ///< outer, then extents
  std::vector<Section> sections;             ///< of the lane dimension
};

} // namespace cleave::cpu
