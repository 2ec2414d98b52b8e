//===- PackedMemory.h - Memory of a program that was packed ------------------===//
//
// Where values have their places when a program is compiled (`HostProfile::packs`), a rank
// holds what lives at the fullest moment and no more. This is what lives then, read from
// the graph: with our own programs within some percent, without lowering anything.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/CostModel/Step.h"

namespace cleave::cost {

/// Of each weight.
Bytes weightBytes(const HostProfile &host, const Layout &layout);

/// Of a layer, but for its weights.
LayerMemory packedLayer(const KindWork &kind, const HostProfile &host, const Layout &layout);

/// `working`, with parameters that are gathered, gradients that are whole before they are shared
/// out, and a matrix that is made narrow.
Bytes packedBeside(const Device &device, const HostProfile &host, const Layout &layout,
                   const RankLoad &load, Bytes working);

/// Of the layer with the statistic: what lives while it is made, and what it keeps of a micro-batch
/// in a pipeline.
struct PackedStatistic {
  Bytes working, kept;
};
PackedStatistic packedStatistic(const StepInput &in, const LayerMemory &memory);

/// What a stage of a pipeline keeps of a micro-batch beside what its layers' backward reads.
Bytes packedStage(const StepInput &in, const std::vector<int64_t> &stageBegins, int64_t stage);

/// What lives at the ends of a step: the gradient of what tokens pick.
void packEnds(const StepInput &in, bool hasFirst, int64_t stages, RankLoad &load);

} // namespace cleave::cost
