//===- Work.h - What a model computes, as pieces -----------------------------===//
//
// The nn graph as the cost model sees it: for each kind of layer a list of matrix
// products, scores and memory-bound passes, each with the named dimensions of what it
// reads and writes. It is read from operators by their interfaces alone, so whatever
// can be imported can be costed. Nothing here knows devices or plans; how many
// elements a rank has of something is asked with a `Cut`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cleave::cost {

/// A named dimension. The size is 0 where it is the batch's or the sequence's.
struct Extent {
  std::string name;
  int64_t size = 0;

  bool operator==(const Extent &) const = default;
};
using Extents = std::vector<Extent>;

/// How dimensions lie on a rank: sizes of those that the graph leaves open, and in how many
/// parts each is cut.
struct Cut {
  std::map<std::string, double> open;
  std::map<std::string, double> ways;
  /// Whether what has no dimension that `tensor` cuts is cut along the sequence instead.
  bool sequence = false;
  /// The dimensions that tensor parallelism cuts, and in how many parts.
  std::vector<std::string> tensorDims;
  double tensor = 1;

  double waysOf(const std::string &dim) const;
  bool isTensor(const std::string &dim) const;
  /// Elements of a rank's part of something with these dimensions.
  double elements(const Extents &extents) const;
  /// The same where the sequence is whole for the tensor ranks.
  double gathered(const Extents &extents) const;
};

/// A matrix product rows × summed by summed × columns.
struct Product {
  std::string path;
  Extents rows, columns, summed;
  /// Which value is multiplied, by number in the kind: products of one input may be merged.
  int input = 0;
  /// An index picks the matrix; `picked` is the dimension that it picks from.
  bool isPicked = false;
  Extent picked;
  /// Rows are made of others' here (a token's choices), and put together again behind.
  bool spreads = false, gathers = false;
  /// Nothing that the backward reads is made of its result.
  bool isLast = false;
  /// Bits of its operands and its result, where they are not the layout's.
  std::optional<int> width = {};

  int widthOr(int layout) const { return width.value_or(layout); }
};

/// Attention: rows of queries against rows of keys.
struct Scores {
  std::string path;
  Extents queries, keys, values;
  std::optional<int64_t> window;
  /// As of a product.
  std::optional<int> width = {};
};

/// What a kernel does with the elements that it passes over.
enum class PassKind {
  /// Each element by itself.
  Elementwise,
  /// Elements along a dimension hang together (a norm).
  Tied,
  /// A number for many elements: the loss over a vocabulary.
  Statistic,
};

/// One loop of an operator's body: how often each operation is done for an element of the
/// operator's first result, by MLIR's name, and how many numbers a row of the loop has.
struct BodyLoop {
  std::map<std::string, double> operations;
  double inner = 1;
};

/// A memory-bound piece: what it reads and writes when it stands alone.
struct Pass {
  std::string path;
  PassKind kind = PassKind::Elementwise;
  struct Operand {
    Extents extents;
    /// Number of the value; of the pass that makes it, or -1.
    int value = 0, maker = -1;
  };
  std::vector<Operand> reads, writes;
  /// Passes that run as one kernel where elementwise chains are fused.
  int chain = 0;
  /// Something that the backward reads is made of it and is not kept, where dear results are.
  bool isDoneAgain = false;
  /// What is computed, by the operator and by its gradient.
  std::vector<BodyLoop> forward, backward;
  /// As of a product.
  std::optional<int> width = {};
};

/// A value that the backward reads.
struct Saved {
  Extents extents;
  /// It is what a product multiplies, which products of few bits keep so.
  bool isFactor = false;
  /// It is made and used inside of one elementwise chain.
  bool isInner = false;
  /// It is a sum of several values or goes from layer to layer, where nothing is rounded.
  bool isStream = false;
  /// It is kept where dear results alone are (cleave/Analysis/Dear.h).
  bool isDear = false;
  /// Where it is made, and the bits of what is made there, where they are not the layout's.
  std::string path = {};
  std::optional<int> width = {};
};

/// A trained tensor of one layer.
struct Weight {
  std::string symbol;
  Extents extents;
  /// One of several is picked for each token.
  bool isPicked = false;
};

struct KindWork {
  std::string name;
  std::vector<Product> products;
  std::vector<Scores> scores;
  std::vector<Pass> passes;
  std::vector<Saved> saved;
  /// What is kept where dear results alone are, and those of `statistics` then.
  std::vector<Saved> dear;
  std::vector<Extents> dearStatistics;
  std::vector<Weight> weights;
  /// What operators note of each row for their backward, beside their results.
  std::vector<Extents> statistics;
  /// What goes from this layer to the next: the first of these, and how many they are.
  Extents output;
  int outputs = 0;
};

struct ModelWork {
  std::vector<KindWork> kinds;
  /// The kind of each layer in order, embedding and head included.
  std::vector<int> layers;
};

/// Gives what stands at a path the width that `widthOf` says, where it says one.
void setWidths(ModelWork &work,
               const std::function<std::optional<int>(const std::string &path)> &widthOf);

/// The work of `model`, a module in nn with its `@forward`; nothing where it has none.
std::optional<ModelWork> workOf(mlir::ModuleOp model);

} // namespace cleave::cost
