//===- Step.cpp - Layers, pipeline, exchanges and update make a step --------===//

#include "lib/CostModel/Step.h"
#include "cleave/CostModel/Kernels.h"

namespace cleave::cost {

/// A step is longer by this for each doubling of the domains: the
/// slowest of many.
static constexpr double kSlowestOfMany = 0.01;
/// Error bars (90th percentile of published rows; docs/CostModel.md).
static constexpr double kDenseError = 0.22, kExpertError = 0.35;
/// Copies around the exchanges of shared parameters, for each element.
static constexpr Bytes kGatherCopies{4}, kReduceCopies{10};
/// Devices of a host, between which nothing is slowed by others.
static constexpr double kNode = 8;
/// The part of a send that others see, where it is overlapped.
static constexpr double kSendSeen = 0.25;

double slowestOfMany(const Layout &layout) {
  const double domains = static_cast<double>(layout.devices) / kNode;
  return domains > 1 ? kSlowestOfMany * std::log2(domains) : 0;
}

namespace {

/// Replicas, and where these share state in groups one of them and those that have the same part.
struct Replicas {
  Group all;
  std::optional<std::pair<Group, Group>> groups;
};

} // namespace

static Replicas replicasOf(const StepInput &in) {
  const Places places = in.places();
  const int64_t shared = in.layout.sharingGroup;
  Replicas replicas{places.replicas(), std::nullopt};
  if (shared != 0 && shared < replicas.all.ranks)
    replicas.groups = {places.sharing(shared), places.acrossSharing(shared)};
  return replicas;
}

/// Groups that share state are those of neighbours.
static Replicas expertReplicasOf(const StepInput &in) {
  const int64_t shared = in.layout.sharingGroup;
  Replicas replicas{in.places().expertReplicas(), std::nullopt};
  const Group &all = replicas.all;
  if (shared != 0 && shared < all.ranks)
    replicas.groups = {Group{shared, std::min(shared, all.perDomain)},
                       Group{all.ranks / shared, std::max<int64_t>(1, all.perDomain / shared)}};
  return replicas;
}

static DataExchange exchangeOnce(const StepInput &in, const Replicas &replicas, double elements) {
  const Group group = replicas.all;
  if (group.ranks <= 1 || elements <= 0)
    return {};
  const Device &device = in.device;
  const Bytes gradients = in.host.gradientExchange * elements;
  const Bytes parameters = in.layout.gathered * elements;
  if (in.layout.sharing == Sharing::None)
    return {exchangeTime(device, Exchange::AllReduce, group, gradients), {}};
  if (!replicas.groups)
    return {exchangeTime(device, Exchange::ReduceScatter, group, gradients),
            exchangeTime(device, Exchange::AllGather, group, parameters)};
  // Shared in groups; what a rank keeps is summed over the groups.
  const auto [inner, outer] = *replicas.groups;
  const double part = static_cast<double>(inner.ranks);
  Seconds between = exchangeTime(device, Exchange::AllReduce, outer, gradients / part);
  return {exchangeTime(device, Exchange::ReduceScatter, inner, gradients) + between,
          exchangeTime(device, Exchange::AllGather, inner, parameters)};
}

/// As one message, or as one for each tensor: then all but one add what a message without anything
/// in it takes.
static DataExchange exchangeWeights(const StepInput &in, const Replicas &replicas, double elements,
                                    double tensors) {
  DataExchange all = exchangeOnce(in, replicas, elements);
  if (!in.host.exchangesTensors || tensors <= 1 || elements <= 0)
    return all;
  const DataExchange one = exchangeOnce(in, replicas, 1);
  return {all.reduce + (tensors - 1) * one.reduce, all.gather + (tensors - 1) * one.gather};
}

DataExchange dataExchangeOf(const StepInput &in, const WeightCount &weights) {
  const DataExchange plain = exchangeWeights(in, replicasOf(in), weights.plain, weights.tensors);
  const DataExchange experts =
      exchangeWeights(in, expertReplicasOf(in), weights.experts, weights.expertTensors);
  return {plain.reduce + experts.reduce, plain.gather + experts.gather};
}

Seconds gatherOnceOf(const StepInput &in, const WeightCount &weights) {
  return dataExchangeOf(in, weights).gather +
         streamTime(in.device, kGatherCopies * (weights.plain + weights.experts));
}

double ownedOf(const StepInput &in, const WeightCount &weights) {
  if (in.layout.sharing == Sharing::None)
    return weights.plain + weights.experts;
  const auto ways = [&](Group group) {
    const int64_t shared = in.layout.sharingGroup;
    return static_cast<double>(shared ? std::min(shared, group.ranks) : group.ranks);
  };
  return weights.plain / ways(in.places().replicas()) +
         weights.experts / ways(in.places().expertReplicas());
}

bool exchangesEachTime(const Layout &layout) {
  return layout.sharing == Sharing::Parameters || layout.sharing == Sharing::Gradients;
}

bool gathersOnce(const StepInput &in) {
  return in.layout.sharing == Sharing::Gradients && in.host.gathersOnce;
}

LayerSpan spanOf(const StepInput &in, const LayerTimes &t, const WeightCount &w, DataExchange x) {
  if (!exchangesEachTime(in.layout))
    return {t.forward, t.back()};
  const auto beside = [&](Seconds compute, Seconds exchange) {
    if (!in.host.overlapsData)
      return compute + exchange;
    return std::max(compute, exchange) + kSlowedBeside * std::min(compute, exchange);
  };
  const double elements = w.plain + w.experts;
  Bytes gatherCopies = kGatherCopies;
  if (gathersOnce(in))
    x.gather = {}, gatherCopies = {};
  const Seconds forward = t.forward + streamTime(in.device, gatherCopies * elements);
  const Seconds back = t.back() + streamTime(in.device, (gatherCopies + kReduceCopies) * elements);
  const bool again = in.layout.sharing == Sharing::Parameters;
  return {beside(forward, x.gather), beside(back, (again ? x.gather : Seconds()) + x.reduce)};
}

namespace {

/// Exchanges and shares of state of a layer, by kind.
struct KindState {
  DataExchange exchange;
  Seconds gatherOnce;
  double owned = 0;
};

} // namespace

static std::vector<KindState> statesOf(const StepInput &in) {
  std::vector<KindState> states;
  for (const WeightCount &weights : in.prices.weights)
    states.push_back({dataExchangeOf(in, weights),
                      gathersOnce(in) ? gatherOnceOf(in, weights) : Seconds(),
                      ownedOf(in, weights)});
  return states;
}

/// How long after the pipeline's end the exchanges of `rank`'s gradients end, and how long
/// those of its parameters hold it up at the start.
static Seconds exposedOn(const StepInput &in, const std::vector<KindState> &states,
                         const StagePlan &plan, int64_t rank) {
  const int64_t ranks = in.layout.pipeline;
  const auto stages = static_cast<int64_t>(plan.begins.size()) - 1;
  std::vector<std::pair<Seconds, int64_t>> byEnd, byStart;
  for (int64_t s = rank; s < stages; s += ranks) {
    byEnd.push_back({plan.times.lastBackwardEnd[s], s});
    byStart.push_back({plan.times.firstForwardEnd[s], s});
  }
  std::sort(byEnd.begin(), byEnd.end());
  std::sort(byStart.begin(), byStart.end());
  auto exchange = [&](int64_t s) {
    DataExchange sum;
    for (int64_t i = plan.begins[s]; i < plan.begins[s + 1]; ++i) {
      const DataExchange &x = states[in.kindOf(i)].exchange;
      sum.reduce += x.reduce;
      sum.gather += x.gather;
    }
    return sum;
  };
  auto buckets = [&](int64_t s) {
    return static_cast<double>(plan.begins[s + 1] - plan.begins[s]);
  };
  Seconds total, stream, late;
  for (auto [end, s] : byEnd) {
    const DataExchange x = exchange(s);
    total += x.reduce + x.gather;
    if (!in.host.overlapsData)
      continue;
    // A layer's gradients go while the layers before it are still in their backward.
    const Seconds first =
        plan.times.lastBackwardStart[s] + (end - plan.times.lastBackwardStart[s]) / buckets(s);
    stream = std::max(std::max(stream, first) + x.reduce, end + x.reduce / buckets(s));
  }
  if (!in.host.overlapsData)
    return total;
  Seconds gathered;
  for (auto [end, s] : byStart) {
    const DataExchange x = exchange(s);
    gathered += x.gather;
    late = std::max(late, gathered - end * ((buckets(s) - 1) / buckets(s)));
    late = std::max(late, x.gather / buckets(s));
  }
  const Seconds exposed = above(stream, plan.times.makespan) + late;
  return exposed + kSlowedBeside * above(total, exposed);
}

Sends sendsOf(const StepInput &in) {
  const Layout &layout = in.layout;
  if (layout.pipeline * layout.stagesPerRank == 1)
    return {};
  const Seconds transfer = sendTime(in.device, in.places().pipelineIsNear(),
                                    Bytes(in.prices.sent * layout.valueBytes().value));
  return {transfer, transfer * (in.host.overlapsSends ? kSendSeen : 1)};
}

std::vector<LayerSpan> spansOf(const StepInput &in) {
  std::vector<LayerSpan> ofKind(in.work.kinds.size()), spans(in.layers());
  std::vector<bool> known(ofKind.size());
  for (int64_t i = 0; i < in.layers(); ++i) {
    const int kind = in.kindOf(i);
    if (!known[kind])
      ofKind[kind] = spanOf(in, in.timesOf(i), in.weightsOf(i),
                            exchangesEachTime(in.layout) ? dataExchangeOf(in, in.weightsOf(i))
                                                         : DataExchange());
    known[kind] = true;
    spans[i] = ofKind[kind];
  }
  return spans;
}

static std::vector<Seconds> costsOf(const StepInput &in) {
  std::vector<Seconds> costs;
  for (int64_t i = 0; i < in.layers(); ++i)
    costs.push_back(in.timesOf(i).forward + in.timesOf(i).back());
  return costs;
}

StagePlan addPipeline(const StepInput &in, PlayBook &book, Prediction &out) {
  const Layout &layout = in.layout;
  const int64_t stages = layout.pipeline * layout.stagesPerRank;
  const std::vector<KindState> states = statesOf(in);
  const std::vector<LayerSpan> spans = spansOf(in);
  StagePlan plan;
  plan.begins = stages == 1 ? std::vector<int64_t>{0, in.layers()}
                : !layout.stageBegins.empty()
                    ? layout.stageBegins
                    : dealLayers(costsOf(in), stages, in.host.balancesStages);
  std::vector<StageTime> times(stages);
  for (int64_t s = 0; s < stages; ++s)
    for (int64_t i = plan.begins[s]; i < plan.begins[s + 1]; ++i) {
      times[s].forward += spans[i].forward;
      times[s].backward += spans[i].backward;
      times[s].weightGradients += in.timesOf(i).weightGradients;
    }
  const auto [transfer, sent] = sendsOf(in);
  plan.times = book.of(layout.schedule, {layout.pipeline, stages, layout.microBatches()})
                   .play(times, transfer, sent);
  const auto &busy = plan.times.busy;
  const auto busiest = std::max_element(busy.begin(), busy.end()) - busy.begin();
  double owned = 0;
  for (int64_t rank = 0; rank < layout.pipeline; ++rank) {
    double mine = 0;
    Seconds gathered;
    for (int64_t s = rank; s < stages; s += layout.pipeline)
      for (int64_t i = plan.begins[s]; i < plan.begins[s + 1]; ++i) {
        mine += states[in.kindOf(i)].owned;
        gathered += states[in.kindOf(i)].gatherOnce;
      }
    owned = std::max(owned, mine);
    out.data = std::max(out.data, gathered);
    if (!exchangesEachTime(layout))
      out.data = std::max(out.data, exposedOn(in, states, plan, rank));
  }
  out.step = plan.times.makespan + out.data;
  const auto micros = static_cast<double>(layout.microBatches());
  for (int64_t s = busiest; s < stages; s += layout.pipeline)
    for (int64_t i = plan.begins[s]; i < plan.begins[s + 1]; ++i) {
      const LayerTimes &t = in.timesOf(i);
      out.layers += t.forwardParts;
      out.layers += t.backwardParts;
      out.recompute += micros * t.recompute;
      if (exchangesEachTime(layout))
        out.data += micros * (spans[i].forward + spans[i].backward - t.forward - t.back());
    }
  out.layers = out.layers * micros;
  out.bubble = plan.times.makespan - busy[busiest];
  out.host = above(busy[busiest], out.layers.sum() + out.recompute +
                                      (exchangesEachTime(layout) ? out.data : Seconds()));
  out.update = updateTime(in.device, in.host.update * owned);
  return plan;
}

std::vector<int64_t> inFlightOf(const Layout &layout) {
  return inFlightOf(layout.schedule, layout.pipeline, layout.pipeline * layout.stagesPerRank,
                    layout.microBatches());
}

LayerPrices timeLayers(const ModelWork &work, const Device &device, const HostProfile &host,
                       const Layout &layout) {
  LayerPrices prices;
  const std::optional<Bytes> around = movedAround(work, device, host, layout);
  for (const KindWork &kind : work.kinds) {
    prices.times.push_back(layerTimes(kind, device, host, layout, around));
    prices.weights.push_back(weightsOf(kind, layout));
  }
  // Ranks that hold the same activations send a part each, and gather it inside.
  const KindWork &block = work.kinds[work.layers[work.layers.size() / 2]];
  prices.sent =
      cutsOf(block, layout).plain.gathered(block.output) / static_cast<double>(layout.tensor);
  return withRecompute(work, prices, layout.recompute);
}

LayerPrices withRecompute(const ModelWork &work, const LayerPrices &prices, Recompute value) {
  LayerPrices out{prices.times, prices.weights, {}, prices.sent};
  for (LayerTimes &times : out.times)
    times.recompute = times.again(value);
  // Embedding and head are not computed again.
  for (int edge : {work.layers.front(), work.layers.back()})
    out.times[edge].recompute = {};
  return out;
}

LayerPrices priceLayers(const ModelWork &work, const Device &device, const HostProfile &host,
                        const Layout &layout) {
  LayerPrices prices = timeLayers(work, device, host, layout);
  prices.memory = layerMemory(work, host, layout);
  return prices;
}

Prediction predict(const ModelWork &work, const Device &device, const HostProfile &host,
                   const Layout &layout) {
  PlayBook book;
  return predict(work, device, host, layout, priceLayers(work, device, host, layout), book);
}

Prediction predict(const ModelWork &work, const Device &device, const HostProfile &host,
                   const Layout &layout, const LayerPrices &prices, PlayBook &book) {
  const StepInput in{work, device, host, layout, prices};
  Prediction out;
  const StagePlan plan = addPipeline(in, book, out);
  out.fixed = host.step;
  out.step += out.update + out.fixed;
  const double slowest = slowestOfMany(layout);
  out.fixed += out.step * slowest;
  out.step = out.step * (1 + slowest);
  out.stageBegins = plan.begins;
  std::vector<RankLoad> loads;
  for (int64_t rank = 0; rank < layout.pipeline; ++rank)
    loads.push_back(loadOfRank(work, device, host, layout, prices, plan.begins, rank));
  out.memoryOfRanks = memoryOfRanks(device, host, layout, loads, plan.times.inFlight);
  out.memory = *std::max_element(
      out.memoryOfRanks.begin(), out.memoryOfRanks.end(),
      [](const MemoryParts &a, const MemoryParts &b) { return a.sum() < b.sum(); });
  const bool hasExperts = std::any_of(prices.weights.begin(), prices.weights.end(),
                                      [](const WeightCount &w) { return w.experts > 0; });
  out.errorBar = hasExperts ? kExpertError : kDenseError;
  return out;
}

} // namespace cleave::cost
