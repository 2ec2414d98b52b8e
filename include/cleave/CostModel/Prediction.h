//===- Prediction.h - What a step will take --------------------------------===//
//
// The cost model's question and its answer. `predict` is pure: the same work, device,
// host and layout give the same numbers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/HostProfile.h"
#include "cleave/CostModel/Layout.h"
#include "cleave/CostModel/PlayBook.h"
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
  /// Done again before the backward: as the layout says, and if it is all of the forward, or what
  /// is not dear.
  Seconds recompute, whole, passesAgain;
  /// The part of `backward` that makes gradients of weights.
  Seconds weightGradients;

  Seconds back() const { return backward + recompute; }
  /// What is done again under `value`.
  Seconds again(Recompute value) const;
};

/// The time of one layer of `kind` for one micro-batch, with `movedAround`.
LayerTimes layerTimes(const KindWork &kind, const Device &device, const HostProfile &host,
                      const Layout &layout, std::optional<Bytes> around = {});
/// What a rank moves between two uses of an operand, in weights, gradients and what products read
/// and write: those of one micro-batch and all layers, however many ranks have them. Nothing where
/// products don't depend on it.
std::optional<Bytes> movedAround(const ModelWork &work, const Device &device,
                                 const HostProfile &host, const Layout &layout);

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
  /// In so many tensors.
  double tensors = 0, expertTensors = 0;
};
WeightCount weightsOf(const KindWork &kind, const Layout &layout);

/// What one layer keeps of one micro-batch.
struct LayerMemory {
  /// From its forward to its backward; what the latter holds besides; what it hands on.
  Bytes saved, working, handed;
  /// Logits while the loss is made.
  Bytes statistic;
  /// Gradients that products of weights wait for, where these come later.
  Bytes apart;
  /// Elements of its largest parameter, and of what the last layer takes from the first one (tied
  /// embeddings).
  double largestWeight = 0, tied = 0;

  /// Of a micro-batch `times` as large.
  LayerMemory operator*(double times) const {
    return {saved * times,
            working * times,
            handed * times,
            statistic * times,
            apart * times,
            largestWeight,
            tied};
  }
};

/// What a layer takes, by kind. It depends on tensor, context, expert, sequence, micro-batch,
/// widths and recomputation alone, so that layouts that have these in common can share it.
struct LayerPrices {
  std::vector<LayerTimes> times;
  std::vector<WeightCount> weights;
  std::vector<LayerMemory> memory;
  /// Elements that a rank sends to the next stage.
  double sent = 0;
};
LayerPrices priceLayers(const ModelWork &work, const Device &device, const HostProfile &host,
                        const Layout &layout);
/// `prices` of a layout that has another value of `recompute`, but for memory.
LayerPrices withRecompute(const ModelWork &work, const LayerPrices &prices, Recompute value);
/// Times and weights alone, and memory alone, of which what depends on it is in proportion to the
/// micro-batch.
LayerPrices timeLayers(const ModelWork &work, const Device &device, const HostProfile &host,
                       const Layout &layout);
std::vector<LayerMemory> layerMemory(const ModelWork &work, const HostProfile &host,
                                     const Layout &layout);

/// Memory of a rank of the pipeline, the fullest one if it is not said of which.
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
  /// Of each rank of the pipeline.
  std::vector<MemoryParts> memoryOfRanks;
  /// The first layer of each stage, and the number of layers.
  std::vector<int64_t> stageBegins;
  /// Relative, at the 90th percentile of published rows of this kind.
  double errorBar = 0;
};

Prediction predict(const ModelWork &work, const Device &device, const HostProfile &host,
                   const Layout &layout);
/// The same with what `priceLayers` says of `layout`, and with pipelines of `book`.
Prediction predict(const ModelWork &work, const Device &device, const HostProfile &host,
                   const Layout &layout, const LayerPrices &prices, PlayBook &book);

/// Micro-batches × stages in flight on each rank of the pipeline, as `memoryOfRanks` wants them;
/// they don't depend on times.
std::vector<int64_t> inFlightOf(const Layout &layout);
/// What a rank of the pipeline has, whoever shares its state and however many micro-batches are in
/// flight.
struct RankLoad {
  /// Elements of its weights; a tensor that first and last layer have in common counts once.
  double plain = 0, experts = 0;
  /// Of its largest layer and parameter; of the largest layer between the first and the last one,
  /// its experts', and its largest parameter.
  double largestLayer = 0, largestWeight = 0, innerPlain = 0, innerExperts = 0, innerWeight = 0;
  /// Activations of one micro-batch in all of its stages, and what the backward of a layer, or the
  /// loss, makes besides.
  Bytes saved, working;
  bool hasFirst = false;
};
/// Of one layer.
RankLoad loadOfLayer(const ModelWork &work, const Device &device, const HostProfile &host,
                     const Layout &layout, const LayerPrices &prices, int64_t layer);
/// Of a rank, where stages begin at `stageBegins`.
RankLoad loadOfRank(const ModelWork &work, const Device &device, const HostProfile &host,
                    const Layout &layout, const LayerPrices &prices,
                    const std::vector<int64_t> &stageBegins, int64_t rank);
/// Memory of a rank, and of all of them with `loads`; `inFlight` as `inFlightOf` says it.
MemoryParts memoryOfRank(const Device &device, const HostProfile &host, const Layout &layout,
                         const RankLoad &load, int64_t inFlight);
std::vector<MemoryParts> memoryOfRanks(const Device &device, const HostProfile &host,
                                       const Layout &layout, const std::vector<RankLoad> &loads,
                                       const std::vector<int64_t> &inFlight);

} // namespace cleave::cost
