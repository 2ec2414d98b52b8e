//===- Bound.cpp - What a step takes at least --------------------------------===//

#include "cleave/CostModel/Bound.h"
#include "cleave/CostModel/Kernels.h"
#include "lib/CostModel/Step.h"
#include "llvm/ADT/SmallVector.h"
#include <limits>

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

std::vector<StateExchange> stateExchangesOf(const ModelWork &work, const Device &device,
                                            const HostProfile &host, const Layout &layout,
                                            const LayerPrices &prices) {
  const StepInput in{work, device, host, layout, prices};
  std::vector<StateExchange> exchanges;
  for (const WeightCount &weights : prices.weights) {
    StateExchange &x = exchanges.emplace_back();
    const DataExchange once = dataExchangeOf(in, weights);
    x.reduce = once.reduce;
    x.gather = once.gather;
    x.owned = ownedOf(in, weights);
    if (gathersOnce(in))
      x.atEnd = gatherOnceOf(in, weights);
    else if (!exchangesEachTime(layout))
      x.atEnd = once.reduce + once.gather;
  }
  return exchanges;
}

std::vector<LayerShare> layerSharesOf(const ModelWork &work, const Device &device,
                                      const HostProfile &host, const Layout &layout,
                                      const LayerPrices &prices,
                                      const std::vector<StateExchange> &exchanges) {
  const StepInput in{work, device, host, layout, prices};
  // What is hidden still slows down what it is hidden by.
  const bool isOnce = !exchangesEachTime(layout), hides = isOnce && host.overlapsData;
  const double seen = hides ? kSlowedBeside : 1, besides = hides ? 1 - kSlowedBeside : 0;
  std::vector<LayerShare> shares;
  for (size_t kind = 0; kind < exchanges.size(); ++kind) {
    const StateExchange &x = exchanges[kind];
    const LayerSpan span =
        spanOf(in, prices.times[kind], prices.weights[kind], {x.reduce, x.gather});
    shares.push_back({span.forward, span.backward, seen * x.atEnd, besides * x.reduce,
                      besides * x.gather, x.owned});
  }
  return shares;
}

void StateExchange::takeLeast(const StateExchange &o) {
  reduce = std::min(reduce, o.reduce);
  gather = std::min(gather, o.gather);
  atEnd = std::min(atEnd, o.atEnd);
  owned = std::min(owned, o.owned);
}

void LayerShare::takeLeast(const LayerShare &o) {
  forward = std::min(forward, o.forward);
  backward = std::min(backward, o.backward);
  exchanged = std::min(exchanged, o.exchanged);
  lastReduce = std::min(lastReduce, o.lastReduce);
  firstGather = std::min(firstGather, o.firstGather);
  owned = std::min(owned, o.owned);
}

LayerShare &LayerShare::add(const LayerShare &o, double times) {
  forward += times * o.forward;
  backward += times * o.backward;
  exchanged += times * o.exchanged;
  lastReduce += times * o.lastReduce;
  firstGather += times * o.firstGather;
  owned += times * o.owned;
  return *this;
}

namespace {

/// Layers between the first and the last one: how many, and what each of them takes at least.
struct InnerLayers {
  int64_t count = 0;
  Seconds forward{std::numeric_limits<double>::infinity()}, both = forward;

  void add(const LayerShare &layer, int64_t more) {
    count += more;
    forward = std::min(forward, layer.forward);
    both = std::min(both, layer.forward + layer.backward);
  }
};

} // namespace

/// Below the time in which the ranks of a pipeline are busy or wait for those before, for any
/// schedule and stages: some rank has ⌈n / P⌉ of n layers. Either one has more; or at least
/// j = n - P(⌈n / P⌉ - 1) ranks have as many, and the last of these waits for the first stages of
/// the others: for all of their layers where they have one stage each, and else at least for one
/// layer of each stage but the model's first. Gradients of weights that are apart may fill up the
/// way back, where ranks have one stage.
static Seconds busyOfCounts(const Layout &layout, const InnerLayers &layers, const InnerLayers &all,
                            int64_t mostStages) {
  if (layers.count == 0)
    return {};
  const int64_t ranks = layout.pipeline, most = (layers.count + ranks - 1) / ranks;
  const auto micros = static_cast<double>(layout.microBatches());
  const auto others = static_cast<double>(layers.count - ranks * (most - 1) - 1);
  Seconds waits = others * static_cast<double>(most) * layers.forward;
  if (mostStages >= 2 * ranks)
    waits = std::min(waits, std::max(0., others - 1) * all.both);
  const Seconds busy = micros * static_cast<double>(most) * layers.both;
  return std::min(busy + waits, busy + micros * layers.both);
}

Seconds stepBound(const ModelWork &work, const Device &device, const HostProfile &host,
                  const Layout &layout, const LayerPrices &prices,
                  const std::vector<LayerShare> &shares) {
  const StepInput in{work, device, host, layout, prices};
  const int64_t layers = in.layers();
  LayerShare all;
  Seconds longest;
  InnerLayers inner;
  llvm::SmallVector<InnerLayers, 8> ofKind(shares.size());
  forEachRun(work, 0, layers, [&](int64_t first, int64_t count) {
    const LayerShare &layer = shares[work.layers[first]];
    all.add(layer, static_cast<double>(count));
    longest = std::max(longest, layer.forward + layer.backward);
    if (first == 0 || first + count == layers)
      return;
    inner.add(layer, count);
    ofKind[work.layers[first]].add(layer, count);
  });
  // The fullest rank has no less of anything than an average one.
  const auto ranks = static_cast<double>(layout.pipeline);
  const auto micros = static_cast<double>(layout.microBatches());
  Seconds busy = micros * std::max((all.forward + all.backward) / ranks, longest);
  if (layout.pipeline > 1) {
    busy = std::max(busy, busyOfCounts(layout, inner, inner, layers));
    for (const InnerLayers &kind : ofKind)
      busy = std::max(busy, busyOfCounts(layout, kind, inner, layers));
  }
  return withEnds(in, busy + micros * 2 * sendsOf(in).sent + all.exchanged / ranks,
                  all.owned / ranks);
}

bool fillsUpWaits(std::string_view schedule) { return schedule.starts_with("zb"); }

namespace {

/// A stage of a pipeline: what its layers add up to, with what it loses by sends.
struct Stage {
  LayerShare sum;
  double layers = 0;
};

/// A rank's stages together.
struct Rank {
  LayerShare sum;
  /// What is seen of gathering parameters before the first forward.
  Seconds late;
  /// When the last backward starts to end, of the stage whose last backward is the first to do so.
  Seconds ending;
};

/// A pipeline of given stages.
class StagedBound {
public:
  StagedBound(const StepInput &in, llvm::ArrayRef<LayerShare> shares,
              llvm::ArrayRef<int64_t> begins)
      : sends(sendsOf(in)), micros(in.layout.microBatches()),
        fillsUp(fillsUpWaits(in.layout.schedule)), ranks(in.layout.pipeline) {
    stages.reserve(begins.size());
    for (size_t s = 0; s + 1 < begins.size(); ++s)
      addStage(in, shares, begins[s], begins[s + 1]);
  }

  /// The pipeline and the exchanges of state that are seen.
  Seconds run() {
    Seconds busy = goThroughLast();
    if (stages.size() > ranks.size())
      busy = std::max(busy, goThroughFirst());
    return busy + exchanged(busy);
  }

  double owned() const {
    double most = 0;
    for (const Rank &rank : ranks)
      most = std::max(most, rank.sum.owned);
    return most;
  }

private:
  void addStage(const StepInput &in, llvm::ArrayRef<LayerShare> shares, int64_t begin,
                int64_t end) {
    Stage stage;
    forEachRun(in.work, begin, end, [&](int64_t first, int64_t count) {
      stage.sum.add(shares[in.kindOf(first)], static_cast<double>(count));
    });
    stage.sum.forward += sends.sent;
    stage.sum.backward += sends.sent;
    stage.layers = static_cast<double>(end - begin);
    Rank &rank = ranks[stages.size() % ranks.size()];
    rank.sum.add(stage.sum, 1);
    // A layer's parameters are there before its forward; those of later stages come meanwhile, but
    // not before a stage of one layer.
    rank.late = std::max(rank.late, end - begin == 1 ? rank.sum.firstGather
                                                     : stage.sum.firstGather / stage.layers);
    stages.push_back(stage);
  }

  /// Each rank waits for the stages before its first one, forward and back, and does all of its
  /// work in between.
  Seconds goThroughFirst() const {
    Seconds before, bound;
    for (size_t r = 0; r < ranks.size(); ++r) {
      const LayerShare &all = ranks[r].sum, &stage = stages[r].sum;
      bound = std::max(bound, before + static_cast<double>(micros) * (all.forward + all.backward));
      before += stage.forward + stage.backward + 2 * sends.transfer;
    }
    return bound;
  }

  /// Stages of a rank take turns, each with as many micro-batches as there are ranks. The first
  /// micro-batch goes through all stages up to a rank's last one. From there to the end of the last
  /// backward of that stage the rank does all that is left forward, and backward all but the other
  /// stages of the last turn. Then the last micro-batch goes back through the stages before, unless
  /// gradients of weights fill up that time.
  Seconds goThroughLast() {
    const auto count = static_cast<int64_t>(ranks.size());
    const int64_t turns = (micros + count - 1) / count;
    const auto all = static_cast<double>(micros),
               early = static_cast<double>(std::min(micros, count)),
               whole = static_cast<double>((turns - 1) * count);
    Seconds there, back, bound;
    for (size_t s = 0; s < stages.size(); ++s) {
      const LayerShare &stage = stages[s].sum;
      if (s + ranks.size() >= stages.size()) {
        Rank &rank = ranks[s % ranks.size()];
        const Seconds end = there + all * rank.sum.forward -
                            early * (rank.sum.forward - stage.forward) + whole * rank.sum.backward +
                            (all - whole) * stage.backward;
        rank.ending = end - stage.backward * (1 - 1 / stages[s].layers);
        bound = std::max(bound, fillsUp ? end : end + back);
      }
      there += stage.forward + sends.transfer;
      back += stage.backward + sends.transfer;
    }
    return bound;
  }

  /// What is seen of the exchanges of gradients and parameters, if all ranks are done after `busy`.
  Seconds exchanged(Seconds busy) const {
    Seconds most, last(std::numeric_limits<double>::infinity());
    for (size_t r = 0; r < ranks.size(); ++r) {
      const Rank &rank = ranks[r];
      const Seconds anyway = rank.sum.exchanged + rank.late;
      // Gradients go one layer after the other, from the end of the first backward on.
      most = std::max(
          most, anyway + above(rank.sum.lastReduce, (1 - kSlowedBeside) * (busy - rank.ending)));
      // Those of one layer go when all is done: of the first stage, or where gradients of weights
      // are apart of any.
      if (r == 0 || fillsUp)
        last = std::min(last, anyway + stages[r].sum.lastReduce / stages[r].layers);
    }
    return std::max(most, last);
  }

  const Sends sends;
  const int64_t micros;
  /// Gradients of weights are apart.
  const bool fillsUp;
  llvm::SmallVector<Stage, 32> stages;
  llvm::SmallVector<Rank, 16> ranks;
};

} // namespace

Seconds stepBound(const ModelWork &work, const Device &device, const HostProfile &host,
                  const Layout &layout, const LayerPrices &prices,
                  const std::vector<LayerShare> &shares, const std::vector<int64_t> &stageBegins) {
  const StepInput in{work, device, host, layout, prices};
  StagedBound staged(in, shares, stageBegins);
  return withEnds(in, staged.run(), staged.owned());
}

} // namespace cleave::cost
