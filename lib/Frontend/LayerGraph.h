//===- LayerGraph.h - The graph of one kind of layer, in the family's words ---===//
//
// What a family's file writes a layer with. Operators take their path
// ("attention.q") first and refer to parameters by their names in the layer;
// shapes, types, locations and attributes follow. Values are named tensors in
// float32 with leading dimensions batch and sequence. This builds operators
// only; functions and calls are the importer's.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/NN/NN.h"
#include "lib/Frontend/Architecture.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace cleave::frontend {

enum class Activation { Silu, Gelu, GeluTanh, Relu };

class LayerGraph {
public:
  /// Builds at `builder`'s insertion point, in the entry block of `kind`'s
  /// function; `arguments` are the block's, by name (values and parameters).
  LayerGraph(mlir::OpBuilder &builder, const LayerKind &kind,
             llvm::StringMap<mlir::Value> arguments);

  mlir::Value tokens() { return argument("tokens"); }
  mlir::Value positions() { return argument("positions"); }
  mlir::Value residual() { return argument("residual"); }
  mlir::Value pending() { return argument("pending"); }
  /// How many choices have gone to each expert in the layers before, and the sum of their
  /// scores; `count` adds those of this layer.
  mlir::Value loads() { return argument("loads"); }
  mlir::Value scores() { return argument("scores"); }
  void count(llvm::StringRef path, mlir::Value choices, mlir::Value scores);
  /// A parameter by its name in the layer.
  mlir::Value parameter(llvm::StringRef name) { return argument(name); }

  /// Sum of two values; the second may lack dimensions of the first.
  mlir::Value add(llvm::StringRef path, mlir::Value lhs, mlir::Value rhs);
  /// Elementwise product of two values.
  mlir::Value mul(llvm::StringRef path, mlir::Value lhs, mlir::Value rhs);
  /// `value` over `type`'s shape.
  mlir::Value fill(llvm::StringRef path, mlir::Value like, double value);
  /// Rows of the table `weight`.
  mlir::Value embedding(llvm::StringRef path, llvm::StringRef weight, mlir::Value ids);
  /// Contraction with `<stem>.weight` (or what is called `stem` itself) over what the two
  /// have in common beyond batch and sequence, giving `dims` behind those; plus
  /// `<stem>.bias` if the layer has it.
  mlir::Value linear(llvm::StringRef path, mlir::Value x, llvm::StringRef stem,
                     llvm::ArrayRef<llvm::StringRef> dims);
  /// RMS normalisation with `<stem>.weight`, to which `offset` is added.
  mlir::Value rmsNorm(llvm::StringRef path, mlir::Value x, llvm::StringRef stem, double eps,
                      double offset = 0);
  /// Layer normalisation with `<stem>.weight` and `<stem>.bias`.
  mlir::Value layerNorm(llvm::StringRef path, mlir::Value x, llvm::StringRef stem, double eps);
  /// Rotation by position, half layout; radians per position and pair. Of a last
  /// dimension wider than twice the pairs, only the beginning is rotated.
  /// `interleaved`: neighbours are a pair instead.
  mlir::Value rope(llvm::StringRef path, mlir::Value x, llvm::ArrayRef<double> frequencies,
                   bool interleaved = false);
  /// Causal attention; scores are multiplied by `scale`, then bounded by `cap` if it is
  /// not 0. With a `window` a position sees that many, itself included. `sinks` (may be
  /// null) are a further score of each head, whose value is zero.
  mlir::Value attention(llvm::StringRef path, mlir::Value query, mlir::Value key, mlir::Value value,
                        double scale, std::optional<int64_t> window = {}, double cap = 0,
                        mlir::Value sinks = {});
  /// cap · tanh(x / cap).
  mlir::Value softCap(llvm::StringRef path, mlir::Value x, double cap);
  /// The slices along `dim`.
  llvm::SmallVector<mlir::Value> unstack(llvm::StringRef path, mlir::Value x, llvm::StringRef dim);
  mlir::Value activation(llvm::StringRef path, Activation function, mlir::Value x);
  /// Consecutive parts of the last dimension.
  llvm::SmallVector<mlir::Value> split(llvm::StringRef path, mlir::Value x,
                                       llvm::ArrayRef<NamedDim> parts);
  /// Parts along the last dimension, one behind the other as `dim`.
  mlir::Value concat(llvm::StringRef path, llvm::ArrayRef<mlir::Value> parts, const NamedDim &dim);
  /// `value` over the dimensions of `like`, but `last` for its last one.
  mlir::Value fill(llvm::StringRef path, mlir::Value like, const NamedDim &last, double value);
  /// Scores of the `keep` best of `groups` groups, by their `take` largest; zeros else.
  mlir::Value keepGroups(llvm::StringRef path, mlir::Value scores, int64_t groups, int64_t keep,
                         int64_t take);
  /// x / (Σ x + eps) over the last dimension.
  mlir::Value normalize(llvm::StringRef path, mlir::Value x, double eps);
  /// (u + 1) · g · σ(alpha · g), `gate` and `up` bounded by `limit`.
  mlir::Value clampedGlu(llvm::StringRef path, mlir::Value gate, mlir::Value up, double alpha,
                         double limit);
  /// 1 / (1 + exp(−x)).
  mlir::Value sigmoid(llvm::StringRef path, mlir::Value x);
  /// Softmax over the last dimension.
  mlir::Value softmax(llvm::StringRef path, mlir::Value x);
  /// Sum over `dim`.
  mlir::Value sum(llvm::StringRef path, mlir::Value x, llvm::StringRef dim);
  /// Where the largest elements along the last dimension are, as many as `choice` has.
  mlir::Value topK(llvm::StringRef path, mlir::Value scores, const NamedDim &choice);
  /// The elements of `x` at `index` along its last dimension.
  mlir::Value pick(llvm::StringRef path, mlir::Value x, mlir::Value index);
  /// The elements of `x` at their `index` along `dim`, zeros elsewhere.
  mlir::Value spread(llvm::StringRef path, mlir::Value x, mlir::Value index, const NamedDim &dim);
  /// For each of the indices, contraction with the slice of `<stem>.weight` (or of what is
  /// called `stem` itself) that it picks, giving `dims` behind those of the index.
  mlir::Value expertLinear(llvm::StringRef path, mlir::Value x, llvm::StringRef stem,
                           mlir::Value index, llvm::ArrayRef<llvm::StringRef> dims);
  /// Σ cross entropy of `logits` against the targets, times the caller's scale.
  mlir::Value loss(llvm::StringRef path, mlir::Value logits);

  /// 1 / x of a scalar.
  mlir::Value reciprocal(llvm::StringRef path, mlir::Value x);
  /// Sum over all dimensions.
  mlir::Value total(llvm::StringRef path, mlir::Value x);

  /// Ends an embed or a block.
  void finish(mlir::Value residual, mlir::Value pending);
  /// Ends a head, or a balance.
  void finish(mlir::Value loss);

private:
  mlir::Value argument(llvm::StringRef name);
  mlir::Value weightOf(llvm::StringRef stem);
  mlir::Location at(llvm::StringRef path);
  /// Records the operator's path and hands it back.
  template <typename Op> Op place(llvm::StringRef path, Op op);
  /// `x`'s type with other dimensions behind batch and sequence, sizes taken
  /// from `from`.
  mlir::RankedTensorType tokenType(llvm::ArrayRef<llvm::StringRef> dims, mlir::Type from);

  mlir::OpBuilder &builder;
  const LayerKind &kind;
  llvm::StringMap<mlir::Value> arguments;
  /// What a block returns behind its stream.
  llvm::SmallVector<mlir::Value> counted;
};

} // namespace cleave::frontend
