//===- Memory.cpp - The fullest rank of a step -----------------------------===//

#include "lib/CostModel/Step.h"

namespace cleave::cost {

/// A bf16 copy of the weights, and fp32 master weights with two moments.
static constexpr Bytes kWeight{2}, kOptimizer{12};
/// Scores that are kept: of the softmax, of its dropout, and the mask.
static constexpr double kScoreBytes = 5;

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

/// Every second product's result, what attention makes and what comes in.
Bytes someOf(const StepInput &in, const KindWork &kind) {
  const Cuts cuts = cutsOf(kind, in.layout);
  double elements = keptOf(in, kind);
  for (const Product &p : kind.products) {
    const Cut &cut = p.isPicked ? cuts.routed : cuts.plain;
    elements += cut.gathered(p.rows) * cut.gathered(p.columns) / 2;
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

/// What a layer that is computed again has made when its backward begins.
Bytes againOf(const StepInput &in, const KindWork &kind) {
  return above(wholeOf(in, kind), savedOf(in, kind));
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

void addState(const StepInput &in, int64_t layer, MemoryParts &out) {
  const WeightCount &w = in.weightsOf(layer);
  const auto ways = [&](Group group) {
    const int64_t shared = in.layout.sharingGroup;
    return static_cast<double>(shared ? std::min(shared, group.ranks) : group.ranks);
  };
  const double all = w.plain + w.experts;
  const double owned = w.plain / ways(in.plainGroup()) + w.experts / ways(in.expertGroup());
  const Sharing sharing = in.layout.sharing;
  out.weights += kWeight * (sharing == Sharing::Parameters ? owned : all);
  out.gradients += in.host.gradient * (sharing >= Sharing::Gradients ? owned : all);
  out.optimizer += kOptimizer * (sharing == Sharing::None ? all : owned);
}

MemoryParts allLayers(const StepInput &in) {
  MemoryParts out;
  double most = 0;
  Bytes again;
  for (int64_t i = 0; i < in.layers(); ++i) {
    addState(in, i, out);
    most = std::max(most, in.weightsOf(i).plain + in.weightsOf(i).experts);
    if (i > 0 && i + 1 < in.layers()) {
      const KindWork &kind = in.work.kinds[in.kindOf(i)];
      out.activations += savedOf(in, kind);
      again = std::max(again, againOf(in, kind));
    }
  }
  // Two gathered layers, and one whose gradients are summed.
  if (in.layout.sharing == Sharing::Parameters)
    out.temporary += Bytes(most * (2 * kWeight.value + 4));
  out.temporary += std::max(again, logitsOf(in));
  return out;
}

} // namespace

MemoryParts memoryOf(const StepInput &in, const StagePlan &plan) {
  if (plan.begins.empty() || in.layout.pipeline == 1)
    return allLayers(in);
  MemoryParts fullest;
  const int64_t ranks = in.layout.pipeline;
  const auto stages = static_cast<int64_t>(plan.begins.size()) - 1;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    MemoryParts here;
    here.rank = rank;
    Bytes saved, again;
    for (int64_t s = rank; s < stages; s += ranks)
      for (int64_t i = plan.begins[s]; i < plan.begins[s + 1]; ++i) {
        addState(in, i, here);
        if (i > 0 && i + 1 < in.layers()) {
          const KindWork &kind = in.work.kinds[in.kindOf(i)];
          saved += savedOf(in, kind);
          again = std::max(again, againOf(in, kind));
        }
      }
    const auto perRank = static_cast<double>(in.layout.stagesPerRank);
    here.activations = saved * (static_cast<double>(plan.times.inFlight[rank]) / perRank);
    const bool isLast = rank == (stages - 1) % ranks;
    here.temporary += std::max(again, isLast ? logitsOf(in) : Bytes());
    if (fullest.sum() < here.sum())
      fullest = here;
  }
  return fullest;
}

} // namespace cleave::cost
