//===- SearchSpace.cpp - Which layouts there are -----------------------------===//

#include "lib/Planner/SearchSpace.h"
#include "cleave/Schedule/Schedule.h"
#include "dialects/NN/NN.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>
#include <set>

using namespace mlir;
namespace cleave {

ModelLimits limitsOf(ModuleOp model) {
  ModelLimits limits;
  const HeadSizes heads = headSizes(model);
  limits.keyHeads = heads.keyHeads;
  limits.groups = heads.groups;
  limits.experts = countExperts(model);
  auto add = [](std::vector<int64_t> &to, int64_t size) {
    if (!llvm::is_contained(to, size))
      to.push_back(size);
  };
  for (auto parameter : model.getOps<nn::ParameterOp>()) {
    auto type = parameter.getTensorType();
    if (int d = nn::findDim(type, "ffn"); d >= 0)
      add(limits.tensorSizes, type.getDimSize(d));
    if (int d = nn::findDim(type, "vocab"); d >= 0)
      add(limits.vocabularySizes, type.getDimSize(d));
  }
  model.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (int d = nn::isNamedTensor(type) ? nn::findDim(type, "choice") : -1; d >= 0)
        limits.choices = std::max(limits.choices, cast<RankedTensorType>(type).getDimSize(d));
  });
  return limits;
}

static std::vector<int64_t> divisorsOf(int64_t n) {
  std::vector<int64_t> divisors = {1};
  // What there is so far, times each power of the prime that `n` has.
  auto take = [&](int64_t prime) {
    const size_t before = divisors.size();
    for (int64_t power = 1; n % prime == 0; n /= prime) {
      power *= prime;
      for (size_t i = 0; i < before; ++i)
        divisors.push_back(divisors[i] * power);
    }
  };
  for (int64_t p = 2; p <= n / p; ++p)
    if (n % p == 0)
      take(p);
  if (n > 1)
    take(n);
  llvm::sort(divisors);
  return divisors;
}

/// Those of `values` that the pin leaves; the pinned one alone where it is none of them, so that
/// whoever checks the choice says why.
template <typename T, typename U>
static std::vector<T> pinned(std::vector<T> values, const std::optional<U> &pin) {
  if (pin)
    return {static_cast<T>(*pin)};
  return values;
}

static HeadSizes headsOf(const ModelLimits &limits) { return {limits.keyHeads, limits.groups}; }
Degrees degreesOf(const Choice &c) { return {c.dp, c.cp, c.tp, c.microBatch}; }

static bool leavesNoneEmpty(const std::vector<int64_t> &sizes, int64_t ways) {
  return llvm::all_of(sizes,
                      [&](int64_t size) { return (size + ways - 1) / ways * (ways - 1) < size; });
}

bool dealsExpertsOverTensor(const Choice &choice) {
  const auto spread = spreadExperts(choice.ep, degreesOf(choice));
  return spread && spread->tensor > 1;
}

int64_t groupOfNode(const SearchProblem &problem, const Choice &choice) {
  const int64_t ranks = choice.dp * choice.cp;
  const cost::Places places(layoutOf(problem, choice), problem.ranksOfNode);
  for (int64_t group = std::min(ranks - 1, problem.ranksOfNode); group > 1; --group)
    if (ranks % group == 0 && group % choice.cp == 0 && places.sharing(group).perDomain == group)
      return group;
  return 0;
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

static std::optional<std::string> brokenMesh(const SearchProblem &p, const Choice &c) {
  // Not by their product, which may leave 64 bits.
  const int64_t ranks = p.request.ranks;
  if (ranks % c.pp != 0 || ranks / c.pp % c.cp != 0 || ranks / c.pp / c.cp % c.tp != 0 ||
      ranks / c.pp / c.cp / c.tp != c.dp)
    return "dp × cp × tp × pp = ranks";
  if (!headsDivide(headsOf(p.limits), c.tp))
    return "tp divides the key heads, or what is left of it divides the queries of a key head";
  if (!leavesNoneEmpty(p.limits.tensorSizes, c.tp))
    return "each tensor rank has a part of every layer";
  if (c.pp > static_cast<int64_t>(p.work.layers.size()))
    return "pp × vp is at most the number of layers";
  const int64_t pieces = c.cp > 1 ? 2 * c.cp : 1;
  if (pieces > p.request.sequence)
    return "each context rank has tokens of both ends of a sequence";
  if (p.request.globalBatch % c.dp != 0)
    return "dp divides global_batch";
  return std::nullopt;
}

static std::optional<std::string> brokenExperts(const SearchProblem &p, const Choice &c) {
  if (c.ep > 1 && p.limits.experts == 0)
    return "ep is for models whose layers have experts";
  if (!spreadExperts(c.ep, degreesOf(c)) || (c.ep > 1 && p.limits.experts % c.ep != 0))
    return "ep divides the number of experts, and is a divisor of dp, times one of cp, or that "
           "times tp";
  return std::nullopt;
}

static std::optional<std::string> brokenFamily(const SearchProblem &p, const Choice &c) {
  if (c.sequence && c.tp > 1 && 2 * c.cp * c.tp > p.request.sequence)
    return "each tensor rank has tokens of a sequence";
  if (c.vocabulary && !leavesNoneEmpty(p.limits.vocabularySizes, c.tp))
    return "each tensor rank has a part of the vocabulary";
  return brokenExperts(p, c);
}

static std::optional<std::string> brokenMicroBatch(const SearchProblem &p, const Choice &c) {
  if (p.request.globalBatch / c.dp % c.microBatch != 0)
    return "dp × micro_batch divides global_batch";
  if (p.request.globalBatch > int64_t(1) << 40)
    return "a step has at most 2^40 sequences";
  const int64_t micros = p.request.globalBatch / c.dp / c.microBatch;
  if (!PipelineShape{c.pp, c.pp, micros}.canBeWritten())
    return "stages × micro-batches are at most 2^20";
  constexpr int64_t mostTokens = std::numeric_limits<int32_t>::max();
  const int64_t rows = p.limits.choices * spreadExperts(c.ep, degreesOf(c))->data;
  if (c.microBatch > mostTokens / rows / p.request.sequence)
    return "a micro-batch has at most 2^31 - 1 tokens";
  return std::nullopt;
}

static std::optional<std::string> brokenPipeline(const SearchProblem &p, const Choice &c) {
  if (c.pp == 1)
    return c.vp == 1 && c.schedule == "1f1b"
               ? std::nullopt
               : std::optional<std::string>("vp and schedule are of a pipeline");
  const auto layers = static_cast<int64_t>(p.work.layers.size());
  if (c.vp > layers / c.pp)
    return "pp × vp is at most the number of layers";
  const Schedule *schedule = findSchedule(llvm::StringRef(c.schedule));
  if (!schedule || !schedule->takes(c.vp))
    return "interleaved takes vp of at least 2, the other schedules vp=1";
  const int64_t micros = p.request.globalBatch / c.dp / c.microBatch;
  if (!PipelineShape{c.pp, c.pp * c.vp, micros}.canBeWritten())
    return "stages × micro-batches are at most 2^20";
  return std::nullopt;
}

static std::optional<std::string> brokenSharing(const Choice &c) {
  if (!c.zeroGroup)
    return std::nullopt;
  if (c.zero == 0)
    return "zero_group goes with zero of 1 to 3";
  if (c.ep > 1)
    return "zero_group and ep do not go together";
  if (c.dp * c.cp % c.zeroGroup != 0 || c.zeroGroup % c.cp != 0)
    return "zero_group is a multiple of cp that divides dp × cp";
  return std::nullopt;
}

std::optional<std::string> brokenRule(const SearchProblem &problem, const Choice &choice) {
  for (auto rule : {brokenMesh, brokenFamily, brokenMicroBatch, brokenPipeline})
    if (auto broken = rule(problem, choice))
      return broken;
  return brokenSharing(choice);
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

SearchSpace::SearchSpace(const SearchProblem &problem)
    : problem(problem), pins(problem.request.pins) {
  // By itself, 1f1b is the same idea for any number of stages.
  if (pins.schedule == "1f1b" && pins.vp.value_or(1) > 1)
    pins.schedule = "interleaved";
  for (const Ban &ban : problem.bans)
    (ban.field == "order"                                                         ? ofOrders
     : ban.field == "zero" || ban.field == "zero_group" || ban.field == "overlap" ? late
                                                                                  : early)
        .push_back(ban);
  // Also where nothing is won by it.
  if (llvm::any_of(problem.bans,
                   [](const Ban &ban) { return ban.field == "overlap" && ban.value == "0"; }) &&
      !pins.overlap)
    pins.overlap = true;
  // Buckets are of exchanges beside the computation.
  if (pins.bucketMegabytes && !pins.overlap)
    pins.overlap = true;
}

void SearchSpace::meshes(Visit visit) const {
  const int64_t ranks = problem.request.ranks;
  for (int64_t pp : pinned(divisorsOf(ranks), pins.pp)) {
    if (pp > static_cast<int64_t>(problem.work.layers.size()) || ranks % pp != 0)
      continue;
    for (int64_t cp : pinned(divisorsOf(ranks / pp), pins.cp)) {
      if (ranks / pp % cp != 0)
        continue;
      for (int64_t tp : pinned(divisorsOf(ranks / pp / cp), pins.tp)) {
        Choice c;
        c.pp = pp;
        c.cp = cp;
        c.tp = tp;
        c.dp = pins.dp.value_or(std::max<int64_t>(1, ranks / pp / cp / tp));
        if (!brokenMesh(problem, c))
          visit(c);
      }
    }
  }
}

bool hasPlaces(const SearchProblem &problem) {
  return problem.request.ranks > std::min(problem.device.link.domain, problem.ranksOfNode);
}

std::vector<int64_t> SearchSpace::linksOf(const Choice &mesh) const {
  const cost::Places places(layoutOf(problem, mesh), problem.device.link.domain);
  const auto all = places.all();
  std::vector<int64_t> links(all.begin(), all.end());
  if (mesh.ep > 1)
    return links;
  for (int64_t group : {groupOfNode(problem, mesh), pins.zeroGroup.value_or(0)}) {
    links.push_back(group);
    if (group)
      links.insert(links.end(),
                   {places.sharing(group).perDomain, places.acrossSharing(group).perDomain});
  }
  return links;
}

std::vector<cost::AxisOrder> SearchSpace::orders(const Choice &mesh) const {
  const bool isOneDomain = !hasPlaces(problem);
  std::vector<cost::AxisOrder> found;
  std::set<std::vector<int64_t>> known;
  Pins onlyOrder;
  onlyOrder.order = pins.order;
  Choice c = mesh;
  for (const cost::AxisOrder &order : cost::AxisOrder::all()) {
    c.order = order;
    if (order != order.leastFor(mesh.axisSizes()) || !satisfies(c, onlyOrder) ||
        isBanned(c, ofOrders) ||
        !(problem.orders.empty() || llvm::is_contained(problem.orders, order)))
      continue;
    if (!known.insert(isOneDomain ? std::vector<int64_t>() : linksOf(c)).second)
      continue;
    found.push_back(order);
    if (isOneDomain)
      break;
  }
  return found;
}

void SearchSpace::placedMeshes(Visit visit) const {
  std::vector<int64_t> experts = {1};
  if (problem.limits.experts)
    experts = divisorsOf(problem.limits.experts);
  meshes([&](const Choice &mesh) {
    Choice c = mesh;
    for (int64_t ep : pinned(experts, pins.experts)) {
      c.ep = ep;
      if (brokenExperts(problem, c))
        continue;
      for (const cost::AxisOrder &order : orders(c)) {
        c.order = order;
        visit(c);
      }
    }
  });
}

void SearchSpace::families(Visit visit) const {
  placedMeshes([&](const Choice &mesh) {
    const std::vector<bool> both = {false, true}, off = {false}, on = {true};
    const std::vector<Recompute> ways = {Recompute::None, Recompute::Selective, Recompute::Full};
    const bool cuts = mesh.tp > 1;
    Choice c = mesh;
    for (bool sequence : pinned(cuts ? both : off, pins.sequence))
      for (bool vocabulary : pinned(cuts ? both : on, pins.vocabulary))
        for (Recompute recompute : pinned(ways, pins.recompute)) {
          c.sequence = sequence;
          c.vocabulary = vocabulary;
          c.recompute = recompute;
          if (!brokenFamily(problem, c))
            visit(c);
        }
  });
}

void SearchSpace::groups(const Choice &family, Visit visit) const {
  Choice c = family;
  for (int64_t micro :
       pinned(divisorsOf(problem.request.globalBatch / family.dp), pins.microBatch)) {
    c.microBatch = micro;
    if (!brokenMicroBatch(problem, c))
      visit(c);
  }
}

void SearchSpace::pipelines(const Choice &group, Visit visit) const {
  Choice c = group;
  auto offer = [&] {
    if (!brokenPipeline(problem, c) && !isBanned(c, early))
      visit(c);
  };
  if (c.pp == 1) {
    // Choices outlive the pins: the name stays the neutral one, which is the only one here.
    c.vp = pins.vp.value_or(1);
    if (!pins.schedule || *pins.schedule == c.schedule)
      offer();
    return;
  }
  const int64_t most = static_cast<int64_t>(problem.work.layers.size()) / c.pp;
  for (const Schedule &schedule : allSchedules()) {
    if (pins.schedule && *pins.schedule != schedule.name)
      continue;
    c.schedule = std::string_view(schedule.name.data(), schedule.name.size());
    for (c.vp = schedule.severalStages ? 2 : 1; c.vp <= (schedule.severalStages ? most : 1); ++c.vp)
      if (!pins.vp || *pins.vp == c.vp)
        offer();
  }
}

void SearchSpace::sharings(const Choice &pipeline, Visit visit) const {
  sharings(pipeline, /*withBanned=*/false, visit);
}

void SearchSpace::waysToShare(const Choice &group, Visit visit) const {
  sharings(group, /*withBanned=*/true, [&](const Choice &c) {
    if (!isBanned(c, late))
      visit(c);
  });
}

void SearchSpace::sharings(const Choice &pipeline, bool withBanned, Visit visit) const {
  Choice c = pipeline;
  const bool shares = c.dp * c.cp > 1;
  const std::vector<int64_t> stages =
      shares ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0};
  std::vector<bool> overlaps = {false};
  if (shares && problem.host.overlapsData)
    overlaps.push_back(true);
  const int64_t ofNode = groupOfNode(problem, c);
  for (int64_t zero : pinned(stages, pins.zero)) {
    std::vector<int64_t> groups = {0};
    if (ofNode && zero)
      groups.push_back(ofNode);
    for (int64_t group : pinned(groups, pins.zeroGroup))
      for (bool overlap : pinned(overlaps, pins.overlap)) {
        c.zero = zero;
        c.zeroGroup = group;
        c.overlap = overlap;
        if (!brokenSharing(c) && (withBanned || isAllowed(c)))
          visit(c);
      }
  }
}

void SearchSpace::all(Visit visit) const {
  families([&](const Choice &family) {
    groups(family, [&](const Choice &group) {
      pipelines(group, [&](const Choice &pipeline) { sharings(pipeline, visit); });
    });
  });
}

int64_t SearchSpace::count() const {
  int64_t sum = 0;
  if (!problem.bans.empty()) {
    all([&](const Choice &) { ++sum; });
    return sum;
  }
  families([&](const Choice &family) { sum += sizeOf(family).layouts(); });
  return sum;
}

SearchSpace::FamilySize SearchSpace::sizeOf(const Choice &family) const {
  // Who shares state does not depend on the pipeline, neither on what is cut or computed again
  // inside of a mesh, and no pipeline on the order of axes. Bans may tell all of them apart.
  Choice mesh = family;
  if (problem.bans.empty()) {
    mesh.sequence = mesh.vocabulary = false;
    mesh.recompute = Recompute::None;
  }
  if (lastMesh == mesh)
    return lastSize;
  Choice last = lastMesh;
  last.order = mesh.order;
  if (last != mesh || !problem.bans.empty()) {
    lastSize.pipelines = 0;
    groups(family, [&](const Choice &group) {
      pipelines(group, [&](const Choice &) { ++lastSize.pipelines; });
    });
  }
  lastSize.sharings = 0;
  sharings(family, /*withBanned=*/true, [&](const Choice &) { ++lastSize.sharings; });
  lastMesh = mesh;
  return lastSize;
}

Choice SearchSpace::at(const Choice &family, const FamilySize &size, int64_t number) const {
  Choice found;
  int64_t pipeline = number / size.sharings, sharing = number % size.sharings;
  groups(family, [&](const Choice &group) {
    pipelines(group, [&](const Choice &c) {
      if (pipeline-- == 0)
        sharings(c, /*withBanned=*/true, [&](const Choice &whole) {
          if (sharing-- == 0)
            found = whole;
        });
    });
  });
  return found;
}

void forEachChoice(const SearchProblem &problem, const std::function<void(const Choice &)> &visit) {
  SearchSpace(problem).all(visit);
}

int64_t countChoices(const SearchProblem &problem) { return SearchSpace(problem).count(); }

} // namespace cleave
