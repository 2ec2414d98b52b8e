//===- Bound.h - What a step takes at least ----------------------------------===//
//
// Cheap numbers that `predict` never goes below, for those who look through many
// layouts and want to leave most of them out unseen.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Prediction.h"

namespace cleave::cost {

/// Below the step of every layout that has the prices and degrees of `layout` and goes through
/// `microBatches` of them, whatever its schedule, its stages and who shares state: each rank of
/// the pipeline has its part of the work, and the rank of the longest layer at least that one.
///
/// A sequence takes the least in a micro-batch of many, so the prices of a huge one and a small
/// part of it as `microBatches` bound layouts of any micro-batch.
Seconds stepBound(const ModelWork &work, const HostProfile &host, const Layout &layout,
                  const LayerPrices &prices, double microBatches);

/// The same for stages that begin at `stageBegins` and the schedule of `layout`: each rank waits
/// for the stages before its first one, forward and back, and does all of its work in between. With
/// `sharing` exchanges and update are those of who shares state in `layout`, which are left out
/// otherwise.
Seconds stepBound(const ModelWork &work, const Device &device, const HostProfile &host,
                  const Layout &layout, const LayerPrices &prices,
                  const std::vector<int64_t> &stageBegins, bool sharing);

} // namespace cleave::cost
