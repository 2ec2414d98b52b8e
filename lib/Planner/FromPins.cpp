//===- FromPins.cpp - A plan for a request ---------------------------------===//

#include "cleave/Analysis/Dear.h"
#include "dialects/NN/NN.h"
#include "lib/Planner/Chunks.h"
#include "lib/Planner/Policy.h"
#include "lib/Planner/Precision.h"
#include "lib/Planner/Stages.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
namespace cleave {

/// The divisors of `n` that fit, as a list for a message. Of a number beyond 10^12
/// some in the middle are left out, so that a large one takes no time.
static std::string divisors(int64_t n, function_ref<bool(int64_t)> fits) {
  SmallVector<int64_t> small, large;
  for (int64_t d = 1; d <= 1'000'000 && d <= n / d; ++d)
    if (n % d == 0) {
      small.push_back(d);
      if (d != n / d)
        large.push_back(n / d);
    }
  small.append(large.rbegin(), large.rend());
  SmallVector<std::string> list;
  for (int64_t d : small)
    if (fits(d))
      list.push_back(std::to_string(d));
  return join(list, ", ");
}

/// Where the pins are meant, the cluster is what has to change: the smallest that has them all.
/// Of other clusters than local ones nodes are whole.
static rt::Error suggestCluster(const PlanRequest &request, rt::Error error) {
  const Pins &pins = request.pins;
  if (!StringRef(request.cluster).starts_with("local:"))
    return error;
  int64_t ranks = 1;
  for (const std::optional<int64_t> &degree : {pins.dp, pins.cp, pins.tp, pins.pp})
    if (llvm::MulOverflow(ranks, degree.value_or(1), ranks) || ranks > 1000000)
      return error;
  error.suggestions.push_back("--cluster local:" + std::to_string(ranks));
  return error;
}

/// `ranks` without those of the pipeline and of the sequence are dealt out to data and
/// tensor parallelism.
static rt::Status settleTensor(const PlanRequest &request, int64_t pp, HeadSizes heads,
                               Degrees &degrees) {
  const Pins &pins = request.pins;
  const int64_t cp = degrees.cp = pins.cp.value_or(1);
  const int64_t stage = std::max<int64_t>(request.ranks / pp, 1);
  const int64_t ranks = std::max<int64_t>(stage / cp, 1);
  degrees.tp = pins.tp.value_or(pins.dp ? std::max<int64_t>(ranks / *pins.dp, 1) : 1);
  degrees.dp = pins.dp.value_or(std::max<int64_t>(ranks / degrees.tp, 1));
  if (request.ranks % pp != 0)
    return suggestCluster(
        request,
        rt::userError("plan.ranks_mismatch", "pp does not divide the number of ranks")
            .withGiven("pp=" + std::to_string(pp) + ", ranks=" + std::to_string(request.ranks))
            .withRule("dp × tp × pp = ranks")
            .suggest("pp one of " + divisors(request.ranks, [](int64_t) { return true; })));
  if (stage % cp != 0)
    return suggestCluster(
        request,
        rt::userError("plan.ranks_mismatch", "cp does not divide the number of ranks")
            .withGiven("cp=" + std::to_string(cp) + ", ranks=" + std::to_string(request.ranks) +
                       (pp > 1 ? ", pp=" + std::to_string(pp) : ""))
            .withRule(pp > 1 ? "dp × cp × tp × pp = ranks" : "dp × cp × tp = ranks")
            .suggest("cp one of " + divisors(stage, [](int64_t) { return true; })));
  // Not by their product, which may leave 64 bits.
  if (ranks % degrees.dp != 0 || ranks / degrees.dp != degrees.tp) {
    const std::string product =
        std::string(cp > 1 ? "dp × cp × tp" : "dp × tp") + (pp > 1 ? " × pp" : "");
    return suggestCluster(
        request, rt::userError("plan.ranks_mismatch", product + " is not the number of ranks")
                     .withGiven((pins.dp ? "dp=" + std::to_string(degrees.dp) + ", " : "") +
                                (pins.tp ? "tp=" + std::to_string(degrees.tp) + ", " : "") +
                                (cp > 1 ? "cp=" + std::to_string(cp) + ", " : "") +
                                (pp > 1 ? "pp=" + std::to_string(pp) + ", " : "") +
                                "ranks=" + std::to_string(request.ranks))
                     .withRule(product + " = ranks")
                     .suggest("tp one of " +
                              divisors(ranks, [&](int64_t t) { return headsDivide(heads, t); }) +
                              ", dp left out"));
  }
  if (!headsDivide(heads, degrees.tp)) {
    int64_t all = heads.keyHeads * heads.groups;
    // Without a cluster pins say how many ranks there are, and each degree that fits can be had.
    const bool isFree = request.cluster.empty();
    const std::string degreesThatFit = divisors(isFree ? all : ranks, [&](int64_t t) {
      return headsDivide(heads, t) && (t > 1 || !isFree);
    });
    return rt::userError("plan.heads_indivisible", "the attention heads cannot be split " +
                                                       std::to_string(degrees.tp) + " ways")
        .withGiven((pins.tp ? "" : "dp=" + std::to_string(degrees.dp) + " leaves ") + "tp=" +
                   std::to_string(degrees.tp) + ", num_attention_heads=" + std::to_string(all) +
                   ", num_key_value_heads=" + std::to_string(heads.keyHeads))
        .withRule(
            "tp divides the key heads, or what is left of it divides the queries of a key head")
        .suggest("tp one of " + degreesThatFit + (isFree ? "" : ", dp left out"));
  }
  return rt::Status::success();
}

/// Experts are dealt out over ranks that are there.
static rt::Status settleExperts(const PlanRequest &request, ModuleOp model,
                                const Degrees &degrees) {
  const int64_t ep = request.pins.experts.value_or(1), experts = countExperts(model);
  if (ep > 1 && experts == 0)
    return rt::userError("plan.no_experts", "the model has no experts to deal out")
        .withGiven("ep=" + std::to_string(ep))
        .withRule("ep is for models whose layers have experts")
        .suggest("ep=1");
  const int64_t ranks = degrees.dp * degrees.cp * degrees.tp;
  auto isShare = [&](int64_t n) { return n > 0 && experts % n == 0; };
  auto fits = [&](int64_t n) {
    return (isShare(n) || n == 1) && spreadExperts(n, degrees).has_value();
  };
  if (fits(ep))
    return rt::Status::success();
  const bool tooMany = ep > ranks, context = degrees.cp > 1;
  const std::string given = "ep=" + std::to_string(ep) + ", dp=" + std::to_string(degrees.dp) +
                            (context ? ", cp=" + std::to_string(degrees.cp) : "") +
                            ", tp=" + std::to_string(degrees.tp) +
                            ", experts=" + std::to_string(experts);
  rt::Error error =
      rt::userError(tooMany ? "plan.ep_gt_ranks" : "plan.experts_indivisible",
                    "the experts cannot be dealt out over " + std::to_string(ep) + " ranks")
          .withGiven(given)
          .withRule(tooMany ? std::string("ep is at most ") + (context ? "dp × cp × tp" : "dp × tp")
                            : "ep divides the number of experts (" + divisors(experts, isShare) +
                                  "), and is a divisor of dp" +
                                  (context ? ", times one of cp" : "") + ", or that times tp");
  error.suggestions.push_back("ep one of " + divisors(ranks, fits));
  return error;
}

/// The multiples of `unit` on both sides of `batch`.
static void suggestBatches(rt::Error &error, int64_t batch, int64_t unit) {
  const int64_t below = batch / unit * unit;
  int64_t above;
  if (below > 0)
    error.suggestions.push_back("global_batch=" + std::to_string(below));
  if (!llvm::AddOverflow(below, unit, above))
    error.suggestions.push_back("global_batch=" + std::to_string(above));
}

/// The largest micro-batch that leaves each rank of a pipeline four to go through, so
/// that at most a fifth of the time is bubble; about as many where none divides.
static int64_t microOfPipeline(int64_t share, int64_t pp) {
  for (int64_t count = 4 * pp; count <= 16 * pp && count <= share; ++count)
    if (share % count == 0)
      return share / count;
  return 1;
}

static rt::Status settleBatch(const PlanRequest &request, int64_t pp, Degrees &degrees) {
  const int64_t batch = request.globalBatch, share = std::max<int64_t>(batch / degrees.dp, 1);
  degrees.micro = request.pins.microBatch.value_or(pp > 1 ? microOfPipeline(share, pp) : share);
  const bool dealt = batch % degrees.dp == 0;
  if (dealt && share % degrees.micro == 0)
    return rt::Status::success();
  std::string given =
      "global_batch=" + std::to_string(batch) + ", dp=" + std::to_string(degrees.dp);
  if (!request.pins.microBatch) {
    rt::Error error =
        rt::userError("plan.batch_indivisible", "the global batch cannot be dealt out evenly")
            .withGiven(given)
            .withRule("dp divides global_batch");
    suggestBatches(error, batch, degrees.dp);
    return error;
  }
  rt::Error error =
      rt::userError("plan.batch_indivisible", "the micro-batch does not fit the global batch")
          .withGiven(given + ", micro_batch=" + std::to_string(degrees.micro))
          .withRule("dp × micro_batch divides global_batch");
  if (dealt)
    error.suggestions.push_back("micro_batch one of " +
                                divisors(share, [](int64_t) { return true; }));
  int64_t unit;
  if (!llvm::MulOverflow(degrees.dp, degrees.micro, unit))
    suggestBatches(error, batch, unit);
  return error;
}

static DictionaryAttr toDictionary(OpBuilder &b, const Assignment &assignment) {
  SmallVector<NamedAttribute> entries;
  for (const auto &[name, axes] : assignment) {
    SmallVector<StringRef> refs(axes.begin(), axes.end());
    entries.push_back(b.getNamedAttr(name, b.getStrArrayAttr(refs)));
  }
  return b.getDictionaryAttr(entries);
}

/// The placement that an operator's assignment gives to one of its operands.
static Assignment ofOperand(const Assignment &assignment, Type operand) {
  Assignment out;
  for (StringAttr n : nn::dimNames(operand))
    if (auto it = assignment.find(n.getValue()); it != assignment.end())
      out[n.getValue()] = it->second;
  return out;
}

/// Writes an assignment for each path of each kind, and a placement for each
/// parameter: the one its first user asks for.
static void writeKinds(OpBuilder &b, Location loc, ModuleOp model, const Policy &policy) {
  llvm::MapVector<StringAttr, std::pair<Assignment, RankedTensorType>> parameters;
  SmallVector<std::tuple<StringRef, StringAttr, Assignment>> assigns;
  for (auto kind : model.getOps<func::FuncOp>()) {
    if (!kind->hasAttr("nn.kind"))
      continue;
    llvm::SmallSetVector<StringAttr, 16> seen;
    for (Operation &op : kind.getBody().getOps()) {
      auto path = op.getAttrOfType<StringAttr>("nn.path");
      auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
      if (!path || !sharded)
        continue;
      Assignment assignment = policy.assign(sharded.getShardingRule());
      for (Value operand : op.getOperands())
        if (auto argument = dyn_cast<BlockArgument>(operand))
          if (auto name =
                  kind.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.parameter"))
            parameters.insert({name,
                               {ofOperand(assignment, operand.getType()),
                                cast<RankedTensorType>(operand.getType())}});
      if (seen.insert(path))
        assigns.push_back({kind.getName(), path, assignment});
    }
  }
  for (auto &[name, entry] : parameters) {
    auto &[placement, type] = entry;
    auto stored = toDictionary(b, placement);
    if (policy.zero == 0 && placement.empty())
      continue;
    auto further = toDictionary(b, policy.zero ? policy.overTokens(placement, type) : placement);
    plan::ParameterOp::create(b, loc, name, policy.zero == 3 ? further : stored,
                              policy.zero == 2 ? further : DictionaryAttr(),
                              policy.zero == 1 || policy.zero == 2 ? further : DictionaryAttr());
  }
  for (auto &[kind, path, assignment] : assigns)
    plan::AssignOp::create(b, loc, b.getStringAttr(kind), path, toDictionary(b, assignment));
}

/// Kinds that are called for several layers keep what they are given, and their dear results where
/// `keepsSome`.
static void writeRecompute(OpBuilder &b, Location loc, ModuleOp model, bool keepsSome) {
  llvm::SmallSetVector<StringRef, 4> kinds;
  model.walk([&](func::CallOp call) {
    if (call->getParentOfType<RepeatOpInterface>())
      kinds.insert(call.getCallee());
  });
  for (StringRef kind : kinds) {
    SmallVector<StringRef> kept;
    if (keepsSome)
      kept = dearPaths(model.lookupSymbol<func::FuncOp>(kind));
    plan::RecomputeOp::create(b, loc, kind, b.getStrArrayAttr(kept));
  }
}

/// Whether exchanges that nobody asked to be beside the computation are so: where they wait for a
/// network, and come with every micro-batch or there is but one. Between threads of a machine
/// whose cores all compute there is little to win, nor in sums that come once for several
/// micro-batches (docs/Rationale/Overlap.md has the figures).
static bool isOverlapWorth(const PlanRequest &request, const Degrees &degrees, int64_t pp) {
  return crossesNodes(degrees, pp, request.pins.order.value_or(cost::AxisOrder()),
                      request.ranksPerNode) &&
         (request.pins.zero.value_or(0) >= 2 || request.globalBatch / degrees.dp == degrees.micro);
}

/// Exchanges beside the computation, and how large a message of them may be.
static rt::Status writeOverlap(OpBuilder &b, Location loc, const PlanRequest &request,
                               const Degrees &degrees, int64_t pp) {
  const auto megabytes = request.pins.bucketMegabytes;
  if (!request.pins.overlap.value_or(isOverlapWorth(request, degrees, pp))) {
    if (!megabytes)
      return rt::Status::success();
    return rt::userError("plan.bad_pin",
                         "a size of buckets is given, and nothing is put in buckets")
        .withGiven("bucket=" + std::to_string(*megabytes))
        .withRule("bucket, in MiB, goes with overlap=1")
        .suggest("overlap=1,bucket=" + std::to_string(*megabytes));
  }
  constexpr int64_t most = 1 << 20;
  if (megabytes && *megabytes > most)
    return rt::userError("plan.bad_pin", "a bucket is larger than any message can be")
        .withGiven("bucket=" + std::to_string(*megabytes))
        .withRule("bucket is 1 to " + std::to_string(most) + " MiB")
        .suggest("bucket=25");
  plan::OverlapOp::create(b, loc,
                          megabytes ? b.getI64IntegerAttr(*megabytes << 20) : IntegerAttr());
  return rt::Status::success();
}

/// The axes from the outside in, each with its parts. Those of data and tensor are always there.
static void writeAxes(OpBuilder &b, Location loc, const Policy &policy, const Degrees &degrees,
                      int64_t pipeline, std::optional<cost::AxisOrder> order) {
  using enum cost::MeshAxis;
  const cost::AxisOrder least =
      order.value_or(cost::AxisOrder()).leastFor({degrees.tp, degrees.cp, degrees.dp, pipeline});
  for (cost::MeshAxis axis : llvm::reverse(least.axes))
    if (axis == Tensor)
      plan::AxisOp::create(b, loc, "tensor", ArrayRef<int64_t>(policy.tensorParts));
    else if (axis == Data)
      plan::AxisOp::create(b, loc, "data", ArrayRef<int64_t>(policy.dataParts));
    else if (axis == Context && policy.context)
      plan::AxisOp::create(b, loc, "context", ArrayRef<int64_t>(policy.contextParts));
    else if (axis == Pipeline && pipeline > 1)
      plan::AxisOp::create(b, loc, kPipelineAxis, ArrayRef<int64_t>{pipeline});
}

static rt::Status checkSizes(const PlanRequest &request) {
  if (request.ranks < 1)
    return rt::userError("plan.ranks_mismatch", "a plan needs at least one rank")
        .withGiven("ranks=" + std::to_string(request.ranks))
        .withRule("dp × tp = ranks");
  if (request.globalBatch < 1 || request.sequence < 1)
    return rt::userError("plan.batch_indivisible", "sizes must be at least 1")
        .withGiven("global_batch=" + std::to_string(request.globalBatch) +
                   ", sequence_length=" + std::to_string(request.sequence))
        .withRule("a step has at least one sequence of one token");
  return rt::Status::success();
}

rt::StatusOr<OwningOpRef<ModuleOp>> planFromPins(ModuleOp model, const PlanRequest &request) {
  if (rt::Status s = checkSizes(request); !s.ok())
    return s;
  HeadSizes heads = headSizes(model);
  Degrees degrees;
  auto pipeline = settlePipeline(request.pins, request.ranks, model);
  if (!pipeline.ok())
    return pipeline.status();
  if (rt::Status s = settleTensor(request, pipeline->ranks, heads, degrees); !s.ok())
    return s;
  if (rt::Status s = settleBatch(request, pipeline->ranks, degrees); !s.ok())
    return s;
  if (rt::Status s = settleExperts(request, model, degrees); !s.ok())
    return s;
  if (rt::Status s = checkStatePins(degrees, request.pins); !s.ok())
    return s;
  Policy policy = makePolicy(heads, degrees, request.pins);

  MLIRContext *context = model.getContext();
  context->loadDialect<plan::PlanDialect>();
  OpBuilder b(context);
  Location loc = b.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  b.setInsertionPointToStart(module->getBody());
  auto solution = plan::SolutionOp::create(
      b, loc, plan::kVersion,
      request.cluster.empty() ? StringAttr() : b.getStringAttr(request.cluster));
  b.setInsertionPointToStart(&solution.getBody().emplaceBlock());
  plan::BatchOp::create(b, loc, request.globalBatch, degrees.micro, request.sequence,
                        policy.context ? b.getStrArrayAttr({"context"}) : ArrayAttr());
  writeAxes(b, loc, policy, degrees, pipeline->ranks, request.pins.order);
  Assignment layout;
  if (policy.data)
    layout["batch"] = {"data"};
  if (policy.context)
    layout["sequence"] = {"context"};
  if (policy.tensor && policy.sequence)
    layout["sequence"].push_back("tensor");
  plan::LayoutOp::create(b, loc, toDictionary(b, layout));
  if (pipeline->isPipeline())
    writePipeline(b, loc, model, *pipeline, request.stageSizes);
  writeKinds(b, loc, model, policy);
  if (rt::Status s = writeOverlap(b, loc, request, degrees, pipeline->ranks); !s.ok())
    return s;
  if (const Recompute again = request.pins.recompute.value_or(Recompute::None);
      again != Recompute::None)
    writeRecompute(b, loc, model, again == Recompute::Selective);
  if (rt::Status s = writePrecision(b, loc, model, request); !s.ok())
    return s;
  writeChunks(solution, model);
  return module;
}

} // namespace cleave
