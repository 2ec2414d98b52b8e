//===- Watch.h - What the ranks of a place compute, value by value ---------===//
#pragma once

#include "cleave/Verify/Training.h"
#include "lib/Verify/Placements.h"
#include <functional>
#include <map>

namespace cleave {

/// A value that the ranks of a place have just computed.
struct Seen {
  /// Operator of the model, and which of its results.
  int64_t origin;
  unsigned result;
  /// Number of the layer; -1 for those that are one of their kind.
  int64_t layer;
  int64_t micro;
  /// How often it was computed before in this micro-batch: again for the backward, or in
  /// pieces.
  int64_t before;
  /// In how many pieces the micro-batch goes through the layer.
  int64_t pieces;
  /// The function that computes it ("block.forward").
  llvm::StringRef function;
  const Placed &placed;
  const RankTensors &blocks;

  mlir::RankedTensorType type() const { return placed.types[result]; }
  dist::ShardingAttr sharding() const { return placed.shardings[result]; }
};

/// Observes a part. Lives at one place as long as the part runs.
class Watch {
public:
  using OnValue = std::function<void(Part &part, const Seen &value)>;
  /// Called where a micro-batch adds to the gradient of a tensor.
  using OnGradient = std::function<void(const std::string &name)>;

  Watch(Part &part, PlacedOps ops, OnValue onValue, OnGradient onGradient = {});
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

  /// A step begins.
  void begin() { counts.clear(); }

private:
  void observe(mlir::Operation *op, llvm::ArrayRef<const RankTensors *> results,
               llvm::ArrayRef<Iteration> iterations);

  Part &part;
  PlacedOps ops;
  OnValue onValue;
  OnGradient onGradient;
  /// By origin, layer, micro-batch.
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> counts;
};

} // namespace cleave
