//===- ElementText.h - elements of tensors as CUDA statements ---*- C++ -*-===//
//
// Writes, on demand, the statements that make a tensor's element at an index: a
// load, the body of the linalg op that makes it, or a value stored before.
//
// Loops are *scopes*. Every statement goes to the outermost scope in which its
// operands exist and is remembered there, so nothing is computed twice. A loop over
// the four lanes of a group is a scope of its own; loads of neighbours then move
// out of it and become one load of 16 bytes:
//
//   for (int i = 4 * rank; i < 64; i += 128) {
//     const Four<float> x0 = load4(in0 + row * 64 + i);
//     for (int k = 0; k < 4; ++k) {
//       const float v0 = x0.at[k] * x0.at[k];
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Target/Kernel/Kernel.h"
#include <map>
#include <set>
#include <string>

namespace cleave::cuda {
using namespace target; // plans of kernels

/// A scalar in the text.
struct Item {
  std::string text; ///< a name, a literal or in parentheses; empty if `linear` says it
  mlir::Type type;
  unsigned scope = 0; ///< where it exists
  std::optional<LinearExpr> linear;
};

class ElementText {
public:
  explicit ElementText(const Kernel &kernel);

  // Scopes: 0 is the function with its row.
  unsigned innermost() const { return scopes.size() - 1; }
  /// Opens "head {"; an empty head is a scope without braces.
  unsigned open(std::string head);
  /// Ends the innermost scope; `before` is a statement to put in front of it.
  void close(llvm::StringRef before = "");
  void line(unsigned scope, const std::string &statement);
  /// The text of the function, once all scopes but the first are closed.
  const std::string &functionText() const { return scopes[0].text; }
  std::string freshName(llvm::StringRef prefix);

  /// A loop variable, always a multiple of `multiple`.
  unsigned addDim(std::string name, unsigned scope, int64_t multiple = 1);
  /// The number within a group of four, of which `scope` is the loop.
  unsigned addLane(std::string name, unsigned scope);
  /// The scope of a nest: values stored before it are read inside of it.
  unsigned nestScope = 0;

  /// Marks `root`'s values as stored, or known as `scalars`.
  void complete(const Root &root, llvm::ArrayRef<Item> scalars);
  mlir::FailureOr<Item> element(mlir::Value value, IndexList index);
  /// What the body of `op` yields at `loops`; `accumulators` stand for its output
  /// arguments (or, if empty, the old elements do).
  mlir::FailureOr<llvm::SmallVector<Item, 2>> body(mlir::linalg::GenericOp op,
                                                   llvm::ArrayRef<LinearExpr> loops,
                                                   llvm::ArrayRef<Item> accumulators);
  /// Stores at the innermost scope, under `guard` if there is one; a group of four
  /// is stored when its loop over lanes ends (`flushGroups`).
  void store(const RootValue &slot, llvm::ArrayRef<LinearExpr> index, const Item &item,
             llvm::StringRef guard);
  void flushGroups();
  /// The text of an item as an operand.
  std::string operand(const Item &item) const;
  std::string typeOf(mlir::Type type) const;
  llvm::StringRef indexType() const { return indexText; }
  std::string pointerOf(unsigned arg) const;
  std::string bufferOf(unsigned buffer) const;
  std::string linearText(const LinearExpr &expr) const;

  /// Memory that statements written since the last `forgetAccesses` touch.
  std::set<std::string> reads, writes;

private:
  struct Scope {
    std::string head, text;
    unsigned depth = 1; ///< of indentation
    std::map<std::pair<const void *, IndexList>, llvm::SmallVector<Item, 2>> elements;
  };
  struct Dim {
    std::string name;
    unsigned scope = 0;
    int64_t multiple = 1;
    bool lane = false;
  };
  struct GroupStore {
    std::string statement;
    unsigned scope;
  };

  unsigned scopeOf(llvm::ArrayRef<LinearExpr> index) const;
  /// The lane's dimension if it moves `address` by one and the rest is aligned.
  std::optional<unsigned> groupLane(const LinearExpr &address) const;
  Item load(const std::string &pointer, mlir::Type element, const LinearExpr &address,
            unsigned minScope, const void *identity);
  Item loadStored(const RootValue &slot, llvm::ArrayRef<LinearExpr> index);
  LinearExpr storedAddress(const RootValue &slot, llvm::ArrayRef<LinearExpr> index) const;
  mlir::FailureOr<Item> extract(mlir::Value tensor, llvm::ArrayRef<Item> indices,
                                mlir::Location loc);
  mlir::FailureOr<Item> constant(mlir::Operation *op, mlir::Attribute value);
  mlir::FailureOr<Item> captured(mlir::Value value);
  mlir::FailureOr<Item> bodyOp(mlir::Operation &op, llvm::ArrayRef<LinearExpr> loops,
                               llvm::ArrayRef<Item> operands);
  mlir::FailureOr<Item> apply(mlir::Operation *op, llvm::ArrayRef<Item> operands);

  const Kernel &kernel;
  std::string indexText;
  std::vector<Scope> scopes;
  std::vector<Dim> dims;
  std::map<std::string, unsigned> dataDims; ///< values of the text used as indices
  std::map<std::string, unsigned> names;
  std::vector<GroupStore> groupStores;
  llvm::DenseMap<mlir::Value, Item> completed; ///< without text: in memory
};

} // namespace cleave::cuda
