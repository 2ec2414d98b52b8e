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

Group StepInput::plainGroup() const {
  return {layout.data * layout.context, std::max<int64_t>(1, device.link.domain / layout.tensor)};
}

Group StepInput::expertGroup() const {
  const int64_t ranks = layout.data * layout.context * layout.tensor;
  return {std::max<int64_t>(1, ranks / layout.expert),
          std::max<int64_t>(1, device.link.domain / layout.expert)};
}

static DataExchange exchangeWeights(const StepInput &in, Group group, double elements) {
  if (group.ranks <= 1 || elements <= 0)
    return {};
  const Device &device = in.device;
  const Bytes gradients = in.host.gradientExchange * elements;
  const Bytes parameters = in.layout.gathered * elements;
  if (in.layout.sharing == Sharing::None)
    return {exchangeTime(device, Exchange::AllReduce, group, gradients), {}};
  const int64_t shared = in.layout.sharingGroup;
  if (shared == 0 || shared >= group.ranks)
    return {exchangeTime(device, Exchange::ReduceScatter, group, gradients),
            exchangeTime(device, Exchange::AllGather, group, parameters)};
  // Shared in groups; what a rank keeps is summed over the groups.
  const Group inner{shared, std::min(shared, group.perDomain)};
  const Group outer{group.ranks / shared, std::max<int64_t>(1, group.perDomain / shared)};
  const double part = static_cast<double>(shared);
  Seconds between = exchangeTime(device, Exchange::AllReduce, outer, gradients / part);
  return {exchangeTime(device, Exchange::ReduceScatter, inner, gradients) + between,
          exchangeTime(device, Exchange::AllGather, inner, parameters)};
}

DataExchange dataExchangeOf(const StepInput &in, const WeightCount &weights) {
  const DataExchange plain = exchangeWeights(in, in.plainGroup(), weights.plain);
  const DataExchange experts = exchangeWeights(in, in.expertGroup(), weights.experts);
  return {plain.reduce + experts.reduce, plain.gather + experts.gather};
}

/// Elements of `weights` whose update a rank does.
static double ownedOf(const StepInput &in, const WeightCount &weights) {
  if (in.layout.sharing == Sharing::None)
    return weights.plain + weights.experts;
  const auto ways = [&](Group group) {
    const int64_t shared = in.layout.sharingGroup;
    return static_cast<double>(shared ? std::min(shared, group.ranks) : group.ranks);
  };
  return weights.plain / ways(in.plainGroup()) + weights.experts / ways(in.expertGroup());
}

void addSharedParameters(const StepInput &in, Prediction &out) {
  const auto beside = [](Seconds compute, Seconds exchange) {
    return std::max(compute, exchange) + kSlowedBeside * std::min(compute, exchange);
  };
  Seconds all, alone;
  double owned = 0;
  for (int64_t i = 0; i < in.layers(); ++i) {
    const LayerTimes &t = in.timesOf(i);
    const WeightCount &w = in.weightsOf(i);
    const double elements = w.plain + w.experts;
    const DataExchange x = dataExchangeOf(in, w);
    const Seconds forward = t.forward + streamTime(in.device, kGatherCopies * elements);
    const Seconds back =
        t.back() + streamTime(in.device, (kGatherCopies + kReduceCopies) * elements);
    const bool again = in.layout.sharing == Sharing::Parameters;
    all += beside(forward, x.gather);
    all += beside(back, (again ? x.gather : Seconds()) + x.reduce);
    alone += t.forward + t.back();
    owned += ownedOf(in, w);
    out.layers += t.forwardParts;
    out.layers += t.backwardParts;
    out.recompute += t.recompute;
  }
  const auto times = static_cast<double>(in.layout.microBatches());
  out.step = times * all;
  out.data = times * (all - alone);
  out.recompute = times * out.recompute;
  out.update = streamTime(in.device, in.host.update * owned);
  out.layers = out.layers * times;
  out.host = times * alone - out.layers.sum() - out.recompute;
}

/// How long after the pipeline's end the exchanges of `rank`'s gradients end, and how long
/// those of its parameters hold it up at the start.
static Seconds exposedOn(const StepInput &in, const StagePlan &plan, int64_t rank) {
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
      const DataExchange x = dataExchangeOf(in, in.weightsOf(i));
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

StagePlan addPipeline(const StepInput &in, Prediction &out) {
  const Layout &layout = in.layout;
  const int64_t stages = layout.pipeline * layout.stagesPerRank;
  std::vector<Seconds> costs;
  for (int64_t i = 0; i < in.layers(); ++i)
    costs.push_back(in.timesOf(i).forward + in.timesOf(i).back());
  StagePlan plan;
  plan.begins = stages > 1 ? dealLayers(costs, stages, in.host.balancesStages)
                           : std::vector<int64_t>{0, in.layers()};
  std::vector<StageTime> times(stages);
  for (int64_t s = 0; s < stages; ++s)
    for (int64_t i = plan.begins[s]; i < plan.begins[s + 1]; ++i) {
      const LayerTimes &t = in.timesOf(i);
      times[s].forward += t.forward;
      times[s].backward += t.back();
      times[s].weightGradients += t.weightGradients;
    }
  Seconds transfer, sent;
  if (stages > 1) {
    const KindWork &block = in.work.kinds[in.kindOf(in.layers() / 2)];
    // Ranks that hold the same activations send a part each, and gather it inside.
    const double elements =
        cutsOf(block, layout).plain.gathered(block.output) / static_cast<double>(layout.tensor);
    const bool near = layout.devices <= in.device.link.domain;
    transfer = sendTime(in.device, near, Bytes(elements * 2));
    sent = transfer * (in.host.overlapsSends ? kSendSeen : 1);
  }
  plan.times =
      playPipeline(layout.schedule, layout.pipeline, times, layout.microBatches(), transfer, sent);
  const auto &busy = plan.times.busy;
  const auto busiest = std::max_element(busy.begin(), busy.end()) - busy.begin();
  double owned = 0;
  for (int64_t rank = 0; rank < layout.pipeline; ++rank) {
    double mine = 0;
    for (int64_t s = rank; s < stages; s += layout.pipeline)
      for (int64_t i = plan.begins[s]; i < plan.begins[s + 1]; ++i)
        mine += ownedOf(in, in.weightsOf(i));
    owned = std::max(owned, mine);
    out.data = std::max(out.data, exposedOn(in, plan, rank));
  }
  const auto micros = static_cast<double>(layout.microBatches());
  for (int64_t s = busiest; s < stages; s += layout.pipeline)
    for (int64_t i = plan.begins[s]; i < plan.begins[s + 1]; ++i) {
      out.layers += in.timesOf(i).forwardParts * micros;
      out.layers += in.timesOf(i).backwardParts * micros;
      out.recompute += in.timesOf(i).recompute * micros;
    }
  out.bubble = plan.times.makespan - busy[busiest];
  out.host = above(busy[busiest], out.layers.sum() + out.recompute);
  out.update = streamTime(in.device, in.host.update * owned);
  out.step = plan.times.makespan + out.data;
  return plan;
}

Prediction predict(const ModelWork &work, const Device &device, const HostProfile &host,
                   const Layout &layout) {
  StepInput in{work, device, host, layout, {}, {}};
  bool hasExperts = false;
  for (const KindWork &kind : work.kinds) {
    in.times.push_back(layerTimes(kind, device, host, layout));
    in.weights.push_back(weightsOf(kind, layout));
    hasExperts |= in.weights.back().experts > 0;
  }
  // Embedding and head are not computed again.
  for (int64_t edge : {int64_t(0), in.layers() - 1})
    in.times[in.kindOf(edge)].recompute = {};
  Prediction out;
  StagePlan plan;
  const bool shares = layout.sharing == Sharing::Parameters || layout.sharing == Sharing::Gradients;
  if (shares)
    addSharedParameters(in, out);
  else
    plan = addPipeline(in, out);
  out.fixed = host.step;
  out.step += out.update + out.fixed;
  const double domains = static_cast<double>(layout.devices) / kNode;
  const double slowest = domains > 1 ? kSlowestOfMany * std::log2(domains) : 0;
  out.fixed += out.step * slowest;
  out.step = out.step * (1 + slowest);
  out.memory = memoryOf(in, plan);
  out.errorBar = hasExperts ? kExpertError : kDenseError;
  return out;
}

} // namespace cleave::cost
