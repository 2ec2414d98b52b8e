//===- Memory.cpp - The fullest rank of a step -----------------------------===//

#include "lib/CostModel/PackedMemory.h"
#include "lib/CostModel/Step.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::cost {

/// Scores that are kept: of the softmax, of its dropout, and the mask.
static constexpr double kScoreBytes = 5;
/// Gradients of the scores behind dropout, behind the softmax and before it.
static constexpr double kScoreGradients = 6;

namespace {

/// What a layer's own memory depends on.
struct LayerInput {
  const HostProfile &host;
  const Layout &layout;
  const Cuts cuts;

  double valueBytes() const { return layout.valueBytes().value; }
};

/// What goes from one layer to the next, on a rank.
double keptOf(const LayerInput &in, const KindWork &kind) {
  const Cut &cut = in.cuts.plain;
  return in.layout.sequence ? cut.elements(kind.output) : cut.gathered(kind.output);
}

/// What `values` of one layer take for one micro-batch, with what a host keeps besides.
Bytes bytesOf(const LayerInput &in, const KindWork &kind, const std::vector<Saved> &values) {
  const Cuts &cuts = in.cuts;
  auto elements = [&](const Extents &extents) {
    return isRouted(kind, extents) ? cuts.routed.gathered(extents) : cuts.plain.elements(extents);
  };
  double bytes = in.host.dropoutMasks * keptOf(in, kind);
  for (const Saved &saved : values)
    if (!saved.isInner || !in.host.fusesElementwise)
      bytes += elements(saved.extents) * (saved.width      ? *saved.width / 8.
                                          : saved.isFactor ? in.layout.width / 8.
                                                           : in.valueBytes());
  if (in.host.attention == "unfused" && in.layout.recompute != Recompute::Scores)
    for (const Scores &s : kind.scores)
      bytes += kScoreBytes * cuts.plain.gathered(s.queries) /
               static_cast<double>(s.queries.back().size) *
               static_cast<double>(in.layout.sequenceLength);
  return Bytes(bytes);
}

/// All that the backward of one layer reads, for one micro-batch.
Bytes wholeOf(const LayerInput &in, const KindWork &kind) { return bytesOf(in, kind, kind.saved); }

/// The first, third, … product's result in the order of the layer, what attention makes and what
/// comes in (torchtitan's "op").
Bytes someOf(const LayerInput &in, const KindWork &kind) {
  const Cuts &cuts = in.cuts;
  double elements = keptOf(in, kind);
  for (size_t i = 0; i < kind.products.size(); i += 2) {
    const Product &p = kind.products[i];
    const Cut &cut = p.isPicked ? cuts.routed : cuts.plain;
    elements += cut.gathered(p.rows) * cut.gathered(p.columns);
  }
  for (const Scores &s : kind.scores)
    elements += cuts.plain.gathered(s.queries);
  return Bytes(in.valueBytes() * elements);
}

/// Activations of one layer that wait for its backward, for one micro-batch, of `kept` that goes on
/// and `whole` that the backward reads.
Bytes savedOf(const LayerInput &in, const KindWork &kind, Bytes kept, Bytes whole) {
  switch (in.layout.recompute) {
  case Recompute::All:
    return kept;
  case Recompute::Some:
    return someOf(in, kind);
  case Recompute::EverySecond:
    return (whole + kept) / 2;
  case Recompute::EveryThird:
    return (2 * whole + kept) / 3;
  case Recompute::Passes:
    return bytesOf(in, kind, kind.dear);
  case Recompute::None:
  case Recompute::Scores:
    return whole;
  }
  return whole;
}

/// What the backward of a layer holds beside values: gradients of the largest piece's result and
/// input, of scores three tensors.
Bytes gradientsOf(const LayerInput &in, const KindWork &kind) {
  const Cuts &cuts = in.cuts;
  double largest = 0;
  for (const Product &p : kind.products) {
    const Cut &cut = p.isPicked ? cuts.routed : cuts.plain;
    const double rows = cut.gathered(p.rows);
    largest = std::max(largest,
                       in.valueBytes() * rows * (cut.gathered(p.columns) + cut.gathered(p.summed)));
  }
  if (in.host.attention == "unfused")
    for (const Scores &s : kind.scores)
      largest = std::max(largest, kScoreGradients * cuts.plain.gathered(s.queries) /
                                      static_cast<double>(s.queries.back().size) *
                                      static_cast<double>(in.layout.sequenceLength));
  return Bytes(largest);
}

/// Logits, while the loss is made of them.
Bytes statisticOf(const LayerInput &in, const KindWork &kind) {
  const Cut &cut = in.cuts.plain;
  double most = 0;
  for (const Pass &pass : kind.passes)
    if (pass.kind == PassKind::Statistic)
      most = std::max(most, cut.gathered(pass.reads.front().extents));
  return in.host.statisticKept * most;
}

/// Elements of what `kind` takes from the first layer (tied embeddings), on a rank.
double tiedOf(const LayerInput &in, const KindWork &first, const KindWork &kind) {
  const Cut &cut = in.cuts.plain;
  double elements = 0;
  for (const Weight &w : kind.weights)
    if (llvm::any_of(first.weights, [&](const Weight &o) { return o.symbol == w.symbol; }))
      elements += cut.gathered(w.extents);
  return elements;
}

/// Elements of the largest parameter of a layer on a rank.
double largestWeightOf(const LayerInput &in, const KindWork &kind) {
  const Cuts &cuts = in.cuts;
  double largest = 0;
  for (const Weight &w : kind.weights)
    largest = std::max(largest, (w.isPicked ? cuts.routed : cuts.plain).gathered(w.extents));
  return largest;
}

/// Bytes of state of a parameter that a rank has whole, and of one that it shares.
struct StateBytes {
  double plainShared = 1, expertsShared = 1;
  /// `reduced`: of those that are shared.
  Bytes weight, gradient, optimizer, reduced;
  bool sharesWeights = false, sharesGradients = false, sharesOptimizer = false;

  StateBytes(const Device &device, const HostProfile &host, const Layout &layout) {
    const auto ways = [&](Group group) {
      const int64_t shared = layout.sharingGroup;
      return static_cast<double>(shared ? std::min(shared, group.ranks) : group.ranks);
    };
    plainShared = ways(Places(layout, device.link.domain).replicas());
    expertsShared = ways(Places(layout, device.link.domain).expertReplicas());
    weight = weightBytes(host, layout);
    gradient = host.gradient;
    optimizer = (host.keepsNarrowWeights ? layout.optimizerBytes() : Bytes(8)) + host.ownedGradient;
    if (layout.sharing == Sharing::Optimizer)
      reduced = host.reducedGradient;
    sharesWeights = layout.sharing == Sharing::Parameters;
    sharesGradients = layout.sharing >= Sharing::Gradients;
    sharesOptimizer = layout.sharing != Sharing::None;
  }

  void add(const RankLoad &load, MemoryParts &out) const {
    const double all = load.plain + load.experts;
    const double owned = load.plain / plainShared + load.experts / expertsShared;
    out.weights = weight * (sharesWeights ? owned : all);
    out.gradients = gradient * (sharesGradients ? owned : all);
    out.optimizer = optimizer * (sharesOptimizer ? owned : all) +
                    reduced * ((plainShared > 1 ? load.plain / plainShared : 0) +
                               (expertsShared > 1 ? load.experts / expertsShared : 0));
  }
};

/// Adds `count` layers of the kind of `layer`, which follow each other.
void addLayers(const StepInput &in, int64_t layer, int64_t count, RankLoad &load) {
  const LayerMemory &memory = in.memoryOf(layer);
  const WeightCount &weights = in.weightsOf(layer);
  const auto times = static_cast<double>(count);
  load.plain += times * weights.plain;
  load.experts += times * weights.experts;
  load.largestLayer = std::max(load.largestLayer, weights.plain + weights.experts);
  load.largestWeight = std::max(load.largestWeight, memory.largestWeight);
  if (layer == 0) {
    load.hasFirst = true;
    // A mask of dropout has a byte for each element.
    load.saved += in.host.dropoutMasks > 0 ? memory.handed / in.layout.valueBytes().value : Bytes();
  } else if (layer + 1 < in.layers()) {
    load.saved += times * memory.saved;
    load.working = std::max(load.working, memory.working);
    load.innerWeight = std::max(load.innerWeight, memory.largestWeight);
    load.innerPlain = std::max(load.innerPlain, weights.plain);
    load.innerExperts = std::max(load.innerExperts, weights.experts);
  } else {
    load.plain -= load.hasFirst ? memory.tied : 0;
    load.working = std::max(load.working,
                            in.host.packs ? packedStatistic(in, memory).working : memory.statistic);
  }
}

} // namespace

std::vector<LayerMemory> layerMemory(const ModelWork &work, const HostProfile &host,
                                     const Layout &layout) {
  const KindWork &first = work.kinds[work.layers.front()];
  std::vector<LayerMemory> memory;
  for (const KindWork &kind : work.kinds) {
    const LayerInput in{host, layout, cutsOf(kind, layout)};
    if (host.packs) {
      memory.push_back(packedLayer(kind, host, layout));
    } else {
      const Bytes kept(in.valueBytes() * keptOf(in, kind)), whole = wholeOf(in, kind);
      const Bytes saved = savedOf(in, kind, kept, whole);
      memory.push_back({saved, above(whole, saved) + gradientsOf(in, kind), kept,
                        statisticOf(in, kind), Bytes()});
    }
    memory.back().largestWeight = largestWeightOf(in, kind);
    if (&kind == &work.kinds[work.layers.back()])
      memory.back().tied = tiedOf(in, first, kind);
  }
  return memory;
}

RankLoad loadOfLayer(const ModelWork &work, const Device &device, const HostProfile &host,
                     const Layout &layout, const LayerPrices &prices, int64_t layer) {
  RankLoad load;
  addLayers({work, device, host, layout, prices}, layer, 1, load);
  return load;
}

RankLoad loadOfRank(const ModelWork &work, const Device &device, const HostProfile &host,
                    const Layout &layout, const LayerPrices &prices,
                    const std::vector<int64_t> &stageBegins, int64_t rank) {
  const StepInput in{work, device, host, layout, prices};
  const auto stages = static_cast<int64_t>(stageBegins.size()) - 1;
  RankLoad load;
  Bytes slot;
  for (int64_t s = rank; s < stages; s += layout.pipeline) {
    const Bytes before = load.saved;
    forEachRun(work, stageBegins[s], stageBegins[s + 1],
               [&](int64_t layer, int64_t count) { addLayers(in, layer, count, load); });
    if (host.packs)
      slot = std::max(slot, load.saved - before + packedStage(in, stageBegins, s));
    // Ranks that have the same keep a part each, as they send it.
    if (host.keepsOutputs && s + 1 < stages)
      load.saved += in.memoryOf(stageBegins[s + 1] - 1).handed /
                    static_cast<double>(layout.sequence ? 1 : layout.tensor);
  }
  // One of a rank's places for a stage is as good as another.
  if (host.packs && stages > 1)
    load.saved = slot * static_cast<double>(layout.stagesPerRank);
  if (host.packs)
    packEnds(in, rank == 0, stages, load);
  return load;
}

MemoryParts memoryOfRank(const Device &device, const HostProfile &host, const Layout &layout,
                         const RankLoad &load, int64_t inFlight) {
  MemoryParts parts;
  StateBytes(device, host, layout).add(load, parts);
  parts.activations =
      load.saved * (static_cast<double>(inFlight) / static_cast<double>(layout.stagesPerRank));
  const Bytes working =
      host.packs ? packedBeside(device, host, layout, load, load.working) : load.working;
  parts.temporary = working + host.addedGradient * load.largestWeight + host.buckets;
  // Two gathered layers, and one whose gradients are summed.
  if (!host.packs && layout.sharing == Sharing::Parameters)
    parts.temporary += Bytes(load.largestLayer * (2 * layout.weightBytes().value + 4));
  return parts;
}

std::vector<MemoryParts> memoryOfRanks(const Device &device, const HostProfile &host,
                                       const Layout &layout, const std::vector<RankLoad> &loads,
                                       const std::vector<int64_t> &inFlight) {
  std::vector<MemoryParts> ranks;
  for (auto [load, held] : llvm::zip(loads, inFlight)) {
    ranks.push_back(memoryOfRank(device, host, layout, load, held));
    ranks.back().rank = static_cast<int64_t>(ranks.size()) - 1;
  }
  return ranks;
}

} // namespace cleave::cost
