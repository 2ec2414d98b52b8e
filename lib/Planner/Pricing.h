//===- Pricing.h - Prices that layouts have in common ------------------------===//
#pragma once

#include "cleave/CostModel/Bound.h"
#include "cleave/CostModel/Places.h"
#include "cleave/Planner/Search.h"
#include "lib/Planner/Stages.h"
#include "llvm/ADT/ArrayRef.h"
#include <array>
#include <limits>
#include <map>

namespace cleave {

/// Prices choices of one problem, and remembers what others will need again: layers by all that
/// they depend on, stages by the ratio of layers, micro-batches in flight by schedule and size.
class Pricing {
public:
  explicit Pricing(const SearchProblem &problem);

  const cost::LayerPrices &layersOf(const Choice &choice);
  /// The layers at which stages begin, and their number: the slowest stage is as fast as can be.
  const std::vector<int64_t> &stagesOf(const Choice &choice);
  const std::vector<int64_t> &inFlightOf(const Choice &choice);

  /// By kind.
  using Exchanges = std::vector<cost::StateExchange>;
  using Shares = std::vector<cost::LayerShare>;
  /// Of a choice's way to share state, and what its layers add then.
  Exchanges exchangesOf(const Choice &choice);
  Shares sharesOf(const Choice &choice, const Exchanges &exchanges);

  /// Below the step of all layouts of a family; and of all pipelines of a group, and of a pipeline,
  /// whose layers add `shares`.
  double familyBound(const Choice &family);
  double groupBound(const Choice &group, const Shares &shares);
  double pipelineBound(const Choice &pipeline, const Shares &shares);
  /// Below the step of a choice.
  double bound(const Choice &choice) {
    return pipelineBound(choice, sharesOf(choice, exchangesOf(choice)));
  }
  /// Bytes of the fullest rank, or of the first one that has more than `enough`.
  double memoryOf(const Choice &choice, double enough = std::numeric_limits<double>::max());
  /// Less than those of all ways to share state, ranks after the first one that has more than
  /// `enough` (0: no limit) left out; and less than those of all pipelines.
  double leastMemoryOf(const Choice &pipeline, double enough = 0);
  double leastMemoryOfGroup(const Choice &group);
  /// Less than those of all pipelines of a group that share state as `group` does.
  double leastMemoryOfWay(const Choice &group);

  PricedChoice price(const Choice &choice);

private:
  /// All that a layer's memory depends on, and where those stand that exchange in it.
  using ShapeKey = std::array<int64_t, 8>;
  static ShapeKey shapeKey(const Choice &choice);
  using LayerKey = std::pair<ShapeKey, std::array<int64_t, 3>>;

  /// Layers that are alike.
  struct LayerLoad {
    cost::RankLoad load;
    double count = 0;
    /// The first or the last one.
    bool isEdge = false;
  };
  /// Layers with a micro-batch of one sequence, without their times.
  struct Sequence {
    cost::LayerPrices prices;
    std::vector<LayerLoad> loads;
  };

  /// Stages of layers of the same weights.
  struct Splits {
    explicit Splits(llvm::ArrayRef<int64_t> weights) : table(weights) {}
    /// Where each of `stages` begins, and the number of layers.
    const std::vector<int64_t> &begins(int64_t stages);

    StageTable table;
    std::map<int64_t, std::vector<int64_t>> known;
  };
  /// Layers of a micro-batch: their times, and their memory where it was asked for.
  struct Layers {
    cost::LayerPrices prices;
    Splits *splits = nullptr;
  };

  const cost::HostProfile &hostOf(const Choice &choice) const;
  const Sequence &sequenceOf(const Choice &choice);
  Layers &layersAt(const Choice &choice);
  const cost::LayerPrices &timesOf(const Choice &choice) { return layersAt(choice).prices; }
  const cost::RankLoad &loadOf(const Choice &choice, const cost::Layout &layout, int64_t rank);
  /// Stages of ZeRO of which one takes the least memory.
  std::vector<int64_t> leastSharings(const Choice &choice) const;

  const SearchProblem &problem;
  /// The software where exchanges are waited for.
  cost::HostProfile waiting;
  /// The device with nothing slower for being large.
  cost::Device best;
  std::map<LayerKey, Layers> layers;
  Layers *lastLayers = nullptr;
  LayerKey lastKey = {};
  std::map<ShapeKey, Sequence> sequences;
  std::map<std::vector<int64_t>, Splits> splits;
  std::map<std::array<int64_t, 4>, std::vector<int64_t>> inFlight;
  cost::PlayBook book;
  /// Those of the first ranks of the pipeline that was asked for last.
  std::vector<cost::RankLoad> loads;
  std::optional<Choice> loadsKey;
};

} // namespace cleave
