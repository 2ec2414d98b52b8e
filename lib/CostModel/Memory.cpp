//===- Memory.cpp - The fullest rank of a step -----------------------------===//

#include "lib/CostModel/Step.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::cost {

/// A bf16 copy of the weights, and fp32 master weights with two moments.
static constexpr Bytes kWeight{2}, kOptimizer{12};
/// Scores that are kept: of the softmax, of its dropout, and the mask.
static constexpr double kScoreBytes = 5;
/// Gradients of the scores behind dropout, behind the softmax and before it.
static constexpr double kScoreGradients = 6;

namespace {

/// What goes from one layer to the next, on a rank.
double keptOf(const StepInput &in, const KindWork &kind) {
  const Cut cut = cutsOf(kind, in.layout).plain;
  return in.layout.sequence ? cut.elements(kind.output) : cut.gathered(kind.output);
}

/// All that the backward of one layer reads, for one micro-batch.
Bytes wholeOf(const StepInput &in, const KindWork &kind) {
  const Cuts cuts = cutsOf(kind, in.layout);
  auto elements = [&](const Extents &extents) {
    return isRouted(kind, extents) ? cuts.routed.gathered(extents) : cuts.plain.elements(extents);
  };
  double bytes = in.host.dropoutMasks * keptOf(in, kind);
  for (const Saved &saved : kind.saved)
    if (!saved.isInner || !in.host.fusesElementwise)
      bytes += elements(saved.extents) * (saved.isFactor ? in.layout.width / 8. : 2);
  if (in.host.attention == "unfused" && in.layout.recompute != Recompute::Scores)
    for (const Scores &s : kind.scores)
      bytes += kScoreBytes * cuts.plain.gathered(s.queries) /
               static_cast<double>(s.queries.back().size) *
               static_cast<double>(in.layout.sequenceLength);
  return Bytes(bytes);
}

/// The first, third, … product's result in the order of the layer, what attention makes and what
/// comes in (torchtitan's "op").
Bytes someOf(const StepInput &in, const KindWork &kind) {
  const Cuts cuts = cutsOf(kind, in.layout);
  double elements = keptOf(in, kind);
  for (size_t i = 0; i < kind.products.size(); i += 2) {
    const Product &p = kind.products[i];
    const Cut &cut = p.isPicked ? cuts.routed : cuts.plain;
    elements += cut.gathered(p.rows) * cut.gathered(p.columns);
  }
  for (const Scores &s : kind.scores)
    elements += cuts.plain.gathered(s.queries);
  return Bytes(2 * elements);
}

/// Activations of one layer that wait for its backward, for one micro-batch.
Bytes savedOf(const StepInput &in, const KindWork &kind) {
  const Bytes kept(2 * keptOf(in, kind)), whole = wholeOf(in, kind);
  switch (in.layout.recompute) {
  case Recompute::All:
    return kept;
  case Recompute::Some:
    return someOf(in, kind);
  case Recompute::EverySecond:
    return (whole + kept) / 2;
  case Recompute::EveryThird:
    return (2 * whole + kept) / 3;
  case Recompute::None:
  case Recompute::Scores:
    return whole;
  }
  return whole;
}

/// What the backward of a layer holds beside what was saved: values that are computed again, and
/// gradients of the largest piece's result and input, of scores three tensors.
Bytes workingOf(const StepInput &in, const KindWork &kind) {
  const Cuts cuts = cutsOf(kind, in.layout);
  double largest = 0;
  for (const Product &p : kind.products) {
    const Cut &cut = p.isPicked ? cuts.routed : cuts.plain;
    const double rows = cut.gathered(p.rows);
    largest = std::max(largest, 2 * rows * (cut.gathered(p.columns) + cut.gathered(p.summed)));
  }
  if (in.host.attention == "unfused")
    for (const Scores &s : kind.scores)
      largest = std::max(largest, kScoreGradients * cuts.plain.gathered(s.queries) /
                                      static_cast<double>(s.queries.back().size) *
                                      static_cast<double>(in.layout.sequenceLength));
  return above(wholeOf(in, kind), savedOf(in, kind)) + Bytes(largest);
}

/// Logits of the last layer, while it runs.
Bytes logitsOf(const StepInput &in) {
  const KindWork &head = in.work.kinds[in.kindOf(in.layers() - 1)];
  const Cut cut = cutsOf(head, in.layout).plain;
  double most = 0;
  for (const Pass &pass : head.passes)
    if (pass.kind == PassKind::Statistic)
      most = std::max(most, cut.gathered(pass.reads.front().extents));
  return in.host.statisticKept * most;
}

/// Elements of what the last layer takes from the first (tied embeddings), on a rank.
double tiedOf(const StepInput &in) {
  const KindWork &first = in.work.kinds[in.kindOf(0)];
  const KindWork &last = in.work.kinds[in.kindOf(in.layers() - 1)];
  const Cut cut = cutsOf(last, in.layout).plain;
  double elements = 0;
  for (const Weight &w : last.weights)
    if (llvm::any_of(first.weights, [&](const Weight &o) { return o.symbol == w.symbol; }))
      elements += cut.gathered(w.extents);
  return elements;
}

/// `tied`: elements of the layer that the rank has already.
void addState(const StepInput &in, int64_t layer, double tied, MemoryParts &out) {
  WeightCount w = in.weightsOf(layer);
  w.plain -= tied;
  const auto ways = [&](Group group) {
    const int64_t shared = in.layout.sharingGroup;
    return static_cast<double>(shared ? std::min(shared, group.ranks) : group.ranks);
  };
  const double all = w.plain + w.experts;
  const double owned = w.plain / ways(in.plainGroup()) + w.experts / ways(in.expertGroup());
  const Sharing sharing = in.layout.sharing;
  out.weights += kWeight * (sharing == Sharing::Parameters ? owned : all);
  out.gradients += in.host.gradient * (sharing >= Sharing::Gradients ? owned : all);
  out.optimizer += (kOptimizer + in.host.ownedGradient) * (sharing == Sharing::None ? all : owned);
}

/// Elements of the largest parameter of a layer on a rank.
double largestWeightOf(const StepInput &in, const KindWork &kind) {
  const Cuts cuts = cutsOf(kind, in.layout);
  double largest = 0;
  for (const Weight &w : kind.weights)
    largest = std::max(largest, (w.isPicked ? cuts.routed : cuts.plain).gathered(w.extents));
  return largest;
}

/// Adds up the layers of a rank.
struct RankMemory {
  const StepInput &in;
  MemoryParts parts;
  /// Of one micro-batch in flight.
  Bytes saved;
  Bytes working;
  double largestLayer = 0, largestWeight = 0;
  bool hasFirst = false;

  void add(int64_t layer) {
    const KindWork &kind = in.work.kinds[in.kindOf(layer)];
    const bool isLast = layer + 1 == in.layers();
    addState(in, layer, isLast && hasFirst ? tiedOf(in) : 0, parts);
    hasFirst |= layer == 0;
    largestLayer = std::max(largestLayer, in.weightsOf(layer).plain + in.weightsOf(layer).experts);
    largestWeight = std::max(largestWeight, largestWeightOf(in, kind));
    if (layer == 0) {
      saved += Bytes(in.host.dropoutMasks > 0 ? keptOf(in, kind) : 0);
    } else if (!isLast) {
      saved += savedOf(in, kind);
      working = std::max(working, workingOf(in, kind));
    } else {
      working = std::max(working, logitsOf(in));
    }
  }

  MemoryParts finish(double inFlight) {
    parts.activations = saved * inFlight;
    parts.temporary = working + in.host.addedGradient * largestWeight + in.host.buckets;
    // Two gathered layers, and one whose gradients are summed.
    if (in.layout.sharing == Sharing::Parameters)
      parts.temporary += Bytes(largestLayer * (2 * kWeight.value + 4));
    return parts;
  }
};

} // namespace

MemoryParts memoryOf(const StepInput &in, const StagePlan &plan) {
  if (plan.begins.empty() || in.layout.pipeline == 1) {
    RankMemory all{in, {}, {}, {}};
    for (int64_t i = 0; i < in.layers(); ++i)
      all.add(i);
    return all.finish(1);
  }
  MemoryParts fullest;
  const int64_t ranks = in.layout.pipeline;
  const auto stages = static_cast<int64_t>(plan.begins.size()) - 1;
  const auto perRank = static_cast<double>(in.layout.stagesPerRank);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    RankMemory memory{in, {}, {}, {}};
    memory.parts.rank = rank;
    for (int64_t s = rank; s < stages; s += ranks) {
      for (int64_t i = plan.begins[s]; i < plan.begins[s + 1]; ++i)
        memory.add(i);
      const int64_t last = plan.begins[s + 1] - 1;
      // Ranks that have the same keep a part each, as they send it.
      if (in.host.keepsOutputs && s + 1 < stages)
        memory.saved += Bytes(2 * keptOf(in, in.work.kinds[in.kindOf(last)]) /
                              static_cast<double>(in.layout.sequence ? 1 : in.layout.tensor));
    }
    const MemoryParts here =
        memory.finish(static_cast<double>(plan.times.inFlight[rank]) / perRank);
    if (fullest.sum() < here.sum())
      fullest = here;
  }
  return fullest;
}

} // namespace cleave::cost
