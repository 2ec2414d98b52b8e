//===- Bound.h - What a step takes at least ----------------------------------===//
//
// Cheap numbers that `predict` never goes below, for those who look through many
// layouts and want to leave most of them out unseen.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Prediction.h"
#include <string_view>

namespace cleave::cost {

/// Below the step of every layout that has the prices and degrees of `layout` and goes through
/// `microBatches` of them, whatever its schedule, its stages and who shares state: each rank of
/// the pipeline has its part of the work, and the rank of the longest layer at least that one.
///
/// A sequence takes the least in a micro-batch of many, so the prices of a huge one and a small
/// part of it as `microBatches` bound layouts of any micro-batch.
Seconds stepBound(const ModelWork &work, const HostProfile &host, const Layout &layout,
                  const LayerPrices &prices, double microBatches);

/// What sharing state, or summing its gradients, takes for a layer of a kind, whatever its
/// micro-batch.
struct StateExchange {
  /// Gradients of weights and the parameters; what a step has of it once.
  Seconds reduce, gather, atEnd;
  /// Elements that a rank updates.
  double owned = 0;

  /// Of each part the lesser one, so that both are above it.
  void takeLeast(const StateExchange &o);
};
/// By kind.
std::vector<StateExchange> stateExchangesOf(const ModelWork &work, const Device &device,
                                            const HostProfile &host, const Layout &layout,
                                            const LayerPrices &prices);

/// What a layer adds to its rank: for each micro-batch, and once.
struct LayerShare {
  Seconds forward, backward;
  /// Exchanges as far as they are seen wherever they are; and what is seen of them besides where
  /// nothing is left to hide them.
  Seconds exchanged, lastReduce, firstGather;
  double owned = 0;

  /// As that of `StateExchange`.
  void takeLeast(const LayerShare &o);
  LayerShare &add(const LayerShare &o, double times);
};
/// By kind, where state is shared as `layout` says and that takes `exchanges`.
std::vector<LayerShare> layerSharesOf(const ModelWork &work, const Device &device,
                                      const HostProfile &host, const Layout &layout,
                                      const LayerPrices &prices,
                                      const std::vector<StateExchange> &exchanges);

/// Below the step of every layout whose layers add `shares`, for any schedule and stages.
Seconds stepBound(const ModelWork &work, const Device &device, const HostProfile &host,
                  const Layout &layout, const LayerPrices &prices,
                  const std::vector<LayerShare> &shares);

/// Whether gradients of weights are apart and may fill up waits: all that is asked of a schedule.
bool fillsUpWaits(std::string_view schedule);

/// The same for stages that begin at `stageBegins` and the schedule of `layout`: each rank waits
/// for the stages before its first one, forward and back, and does all of its work in between.
Seconds stepBound(const ModelWork &work, const Device &device, const HostProfile &host,
                  const Layout &layout, const LayerPrices &prices,
                  const std::vector<LayerShare> &shares, const std::vector<int64_t> &stageBegins);

} // namespace cleave::cost
