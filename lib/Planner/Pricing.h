//===- Pricing.h - Prices that layouts have in common ------------------------===//
#pragma once

#include "cleave/Planner/Search.h"
#include "llvm/ADT/ArrayRef.h"
#include <map>
#include <unordered_map>

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

  /// Below the step of all layouts of a family, of a group, of a pipeline, and of a choice.
  double familyBound(const Choice &family);
  double groupBound(const Choice &group);
  double pipelineBound(const Choice &pipeline) { return boundOf(pipeline, /*sharing=*/false); }
  double bound(const Choice &choice) { return boundOf(choice, /*sharing=*/true); }
  /// Bytes of the fullest rank, and less than those of all ways to share state, and than those of
  /// all pipelines.
  double memoryOf(const Choice &choice);
  double leastMemoryOf(const Choice &pipeline);
  double leastMemoryOfGroup(const Choice &group);

  PricedChoice price(const Choice &choice);

private:
  double boundOf(const Choice &choice, bool sharing);
  const cost::HostProfile &hostOf(const Choice &choice) const;
  /// Of a micro-batch of one sequence.
  const std::vector<cost::LayerMemory> &memoryOfSequence(const Choice &choice);
  /// With times alone.
  cost::LayerPrices &timesOf(const Choice &choice);
  std::vector<cost::MemoryParts> ranksOf(const Choice &choice);

  const SearchProblem &problem;
  /// The software where exchanges are waited for.
  cost::HostProfile waiting;
  std::map<std::vector<int64_t>, cost::LayerPrices> layers;
  std::map<std::vector<int64_t>, std::vector<cost::LayerMemory>> memory;
  std::map<std::vector<int64_t>, std::vector<int64_t>> stages;
  std::map<std::vector<int64_t>, std::vector<int64_t>> inFlight;
};

} // namespace cleave
