//===- KernelText.h - a planned kernel as a CUDA function -------*- C++ -*-===//
//
// Writes the function of one kernel: which row and which part of it a thread has,
// then the nests one after another, with barriers where a thread reads what another
// one has written. Statements of elements come from ElementText.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ElementText.h"
#include "Geometry.h"

namespace cleave::cuda {

/// Types and functions that the kernels' text uses.
llvm::StringRef preludeText();

class KernelText {
public:
  explicit KernelText(const Kernel &kernel);
  /// The function with its signature; an error at the op that can't be printed.
  mlir::FailureOr<std::string> write();
  const Geometry &launchGeometry() const { return geometry; }

private:
  /// Loops over some dimensions as one, cut among threads.
  struct Walk {
    unsigned first = 0, last = 0; ///< positions in the nest's extents
    bool rows = false;            ///< the rows as well, before them
    std::string start, step;      ///< in elements (or groups of four)
    unsigned group = 1;
  };
  struct Accumulator {
    Root *root = nullptr;
    unsigned result = 0;
    Item item;
  };

  std::string signature() const;
  mlir::LogicalResult checkTypes();
  void writePlace();
  void writeBuffers();
  std::string rank() const { return geometry.teamSize == 1 ? "0" : "rank"; }
  std::string guard(bool leaderOnly) const;

  mlir::LogicalResult writeNest(const Nest &each);
  std::string barrierIfNeeded();
  /// Opens the loops of `walk`, runs `body` inside and closes them.
  mlir::LogicalResult forWalk(const Walk &walk, llvm::function_ref<mlir::LogicalResult()> body);
  void bindDims(const Walk &walk, const std::string &variable, unsigned scope);
  mlir::LogicalResult writeLeaf(llvm::MutableArrayRef<Accumulator> accumulators);

  // Reductions, in ReductionText.cpp.
  mlir::LogicalResult writeReductions();
  mlir::LogicalResult writeTeamReduction();
  mlir::LogicalResult writeThreadReductions(bool everyThread);
  mlir::LogicalResult writeScatterLeaf(llvm::MutableArrayRef<Accumulator> accumulators);
  mlir::FailureOr<std::vector<Accumulator>> startAccumulators(bool fromInitial);
  mlir::FailureOr<Item> initialElement(const Root &root, unsigned result);
  mlir::LogicalResult finish(llvm::ArrayRef<Accumulator> accumulators, bool acrossTeam);
  mlir::FailureOr<std::string> combineAcrossTeam(const Accumulator &accumulator,
                                                 const Item &initial);
  IndexList indexOf(llvm::ArrayRef<LinearExpr> index) const;

  const Kernel &kernel;
  Geometry geometry;
  ElementText text;
  const Nest *nest = nullptr;
  llvm::SmallVector<LinearExpr, 6> nestDims;         ///< the row, then extents
  std::set<std::string> pendingReads, pendingWrites; ///< since the last barrier
  std::set<std::string> scratchTypes;                ///< of arrays for partial results
};

} // namespace cleave::cuda
