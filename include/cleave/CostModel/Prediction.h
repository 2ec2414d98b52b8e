//===- Prediction.h - What a step will take --------------------------------===//
//
// The cost model's question and its answer. `predict` is pure: the same work, device,
// host and layout give the same numbers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/HostProfile.h"
#include "cleave/CostModel/Layout.h"
#include "cleave/CostModel/Work.h"

namespace cleave::cost {

/// Where the time of a layer goes, alone on its rank.
struct LayerParts {
  Seconds products, scores, passes;
  /// Exchanges that the layer waits for.
  Seconds tensor, context, experts;

  Seconds sum() const { return products + scores + passes + tensor + context + experts; }
  LayerParts &operator+=(const LayerParts &o);
  LayerParts operator*(double times) const;
};

struct LayerTimes {
  LayerParts forwardParts, backwardParts;
  /// With what the host adds where it is slower than the device.
  Seconds forward, backward;
  /// Done again before the backward.
  Seconds recompute;
  /// The part of `backward` that makes gradients of weights.
  Seconds weightGradients;

  Seconds back() const { return backward + recompute; }
};

/// The time of one layer of `kind` for one micro-batch.
LayerTimes layerTimes(const KindWork &kind, const Device &device, const HostProfile &host,
                      const Layout &layout);

/// How a kind's dimensions lie on a rank: `routed` for what each token does at its experts.
struct Cuts {
  Cut plain, routed;
};
Cuts cutsOf(const KindWork &kind, const Layout &layout);
/// Whether these are of what tokens do at their experts.
bool isRouted(const KindWork &kind, const Extents &extents);

/// Elements of a layer's weights on one tensor rank: all of them, and those of experts.
struct WeightCount {
  double plain = 0, experts = 0;
};
WeightCount weightsOf(const KindWork &kind, const Layout &layout);

/// Memory of the fullest rank.
struct MemoryParts {
  /// `temporary`: logits, or what a layer's backward makes, whichever is more; gathered
  /// parameters, gradients on their way, buffers of exchanges.
  Bytes weights, gradients, optimizer, activations, temporary;
  /// The stage that it is.
  int64_t rank = 0;

  Bytes sum() const { return weights + gradients + optimizer + activations + temporary; }
};

struct Prediction {
  Seconds step;
  /// Of `step`: the busiest rank's layers, with head and loss; then what it waits for.
  LayerParts layers;
  Seconds host, recompute, bubble, data, update, fixed;
  MemoryParts memory;
  /// Relative, at the 90th percentile of published rows of this kind.
  double errorBar = 0;
};

Prediction predict(const ModelWork &work, const Device &device, const HostProfile &host,
                   const Layout &layout);

} // namespace cleave::cost
