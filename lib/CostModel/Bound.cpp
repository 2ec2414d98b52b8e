//===- Bound.cpp - What a step takes at least --------------------------------===//

#include "cleave/CostModel/Bound.h"
#include "cleave/CostModel/Kernels.h"
#include "lib/CostModel/Step.h"
#include "llvm/ADT/SmallVector.h"
#include <numeric>

namespace cleave::cost {

/// With the update of `owned` elements, and what is the same for all steps.
static Seconds withEnds(const StepInput &in, Seconds busy, double owned) {
  const Seconds update = updateTime(in.device, in.host.update * owned);
  return (busy + update + in.host.step) * (1 + slowestOfMany(in.layout));
}

Seconds stepBound(const ModelWork &work, const HostProfile &host, const Layout &layout,
                  const LayerPrices &prices, double microBatches) {
  Seconds all, longest;
  forEachRun(work, 0, static_cast<int64_t>(work.layers.size()), [&](int64_t first, int64_t count) {
    const LayerTimes &times = prices.times[work.layers[first]];
    const Seconds layer = times.forward + times.back();
    all += static_cast<double>(count) * layer;
    longest = std::max(longest, layer);
  });
  const auto ranks = static_cast<double>(layout.pipeline);
  return (microBatches * std::max(all / ranks, longest) + host.step) * (1 + slowestOfMany(layout));
}

namespace {

/// What layers of a kind add to their rank.
struct KindShare {
  Seconds forward, backward, exchanged;
  double owned = 0;
};

} // namespace

static llvm::SmallVector<KindShare, 8> sharesOf(const StepInput &in, bool sharing) {
  llvm::SmallVector<KindShare, 8> shares(in.work.kinds.size());
  for (size_t kind = 0; kind < shares.size(); ++kind) {
    KindShare &share = shares[kind];
    const LayerTimes &times = in.prices.times[kind];
    share.forward = times.forward;
    share.backward = times.back();
    if (!sharing)
      continue;
    const WeightCount &weights = in.prices.weights[kind];
    const LayerSpan span = spanOf(in, times, weights);
    share.forward = span.forward;
    share.backward = span.backward;
    share.owned = ownedOf(in, weights);
    // Those that a step has once.
    if (!exchangesEachTime(in.layout)) {
      const DataExchange x = dataExchangeOf(in, weights);
      share.exchanged = x.reduce + x.gather;
    } else if (gathersOnce(in)) {
      share.exchanged = gatherOnceOf(in, weights);
    }
  }
  return shares;
}

Seconds stepBound(const ModelWork &work, const Device &device, const HostProfile &host,
                  const Layout &layout, const LayerPrices &prices,
                  const std::vector<int64_t> &stageBegins, bool sharing) {
  const StepInput in{work, device, host, layout, prices};
  const llvm::SmallVector<KindShare, 8> shares = sharesOf(in, sharing);
  const auto [transfer, sent] = sendsOf(in);
  const auto stages = static_cast<int64_t>(stageBegins.size()) - 1;
  const int64_t ranks = layout.pipeline;
  const auto micros = static_cast<double>(layout.microBatches());
  // Where gradients of weights are apart, they may fill up the way back.
  const bool fillsUp = layout.schedule.starts_with("zb");
  // Of all stages of a rank, and of its first one.
  llvm::SmallVector<KindShare, 32> ofRank(ranks), first(ranks);
  for (int64_t s = 0; s < stages; ++s) {
    KindShare sum;
    forEachRun(work, stageBegins[s], stageBegins[s + 1], [&](int64_t first, int64_t count) {
      const KindShare &layer = shares[work.layers[first]];
      const auto times = static_cast<double>(count);
      sum.forward += times * layer.forward;
      sum.backward += times * layer.backward;
      sum.exchanged += times * layer.exchanged;
      sum.owned += times * layer.owned;
    });
    if (s < ranks)
      first[s] = sum;
    KindShare &all = ofRank[s % ranks];
    all.forward += sum.forward;
    all.backward += sum.backward;
    all.exchanged += sum.exchanged;
    all.owned += sum.owned;
  }
  Seconds before, bound, exchanged;
  double owned = 0;
  const Seconds sends = 2 * static_cast<double>(stages / ranks) * sent;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const KindShare &all = ofRank[rank];
    bound = std::max(bound, before + micros * (all.forward + all.backward + sends));
    before += first[rank].forward + (fillsUp ? Seconds() : first[rank].backward);
    before += (fillsUp ? 1 : 2) * (sent + transfer);
    exchanged = std::max(exchanged, all.exchanged);
    owned = std::max(owned, all.owned);
  }
  // What is hidden still slows down what it is hidden by.
  bound += (host.overlapsData ? kSlowedBeside : 1) * exchanged;
  return withEnds(in, bound, owned);
}

} // namespace cleave::cost
