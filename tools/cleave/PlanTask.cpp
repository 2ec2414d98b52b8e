//===- PlanTask.cpp - What is searched for a plan -----------------------------===//

#include "PlanTask.h"
#include "ModelInput.h"
#include "Output.h"
#include "PlanReport.h"

#include "cleave/Pipelines/Phases.h"
#include "cleave/Pipelines/Register.h"
#include "cleave/Planner/Machines.h"
#include "dialects/NN/NN.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace cleave::tool {

/// The attribute of a plan that holds its task's words.
static constexpr llvm::StringLiteral kRequest = "plan.request";
/// Options that say what is planned, in the order in which they are written.
static constexpr const char *kOptions[] = {"cluster",      "hardware", "recipe",      "seq-len",
                                           "global-batch", "tokens",   "micro-batch", "pin",
                                           "forbid",       "host",     "nodes"};

void addTaskOptions(CommandLine &line) {
  addRequestOptions(line);
  line.add()("forbid",
             "what a plan may not have: tp=8,zero=3, or a key alone for any but its "
             "neutral value",
             cxxopts::value<std::string>(), "PINS");
  line.add()("host",
             "the software that runs it, a file of share/hosts; left out: cleave-cpu for "
             "local ranks, else megatron",
             cxxopts::value<std::string>(), "NAME");
  line.add()("allow-over-budget", "search as if devices had any memory");
  line.add()("nodes", "of the cluster's nodes only so many", cxxopts::value<std::string>(), "N");
}

rt::StatusOr<double> readSeconds(const CommandLine &line, const std::string &option) {
  const std::string text = line.has(option) ? line.text(option) : "0";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value) &&
      value >= 0)
    return value;
  return rt::userError("usage.bad_value", fmt::format("--{} is no number of seconds", option))
      .withGiven(fmt::format("--{} {}", option, text))
      .withRule("a number of at least 0, which means no limit")
      .suggest(fmt::format("--{} 10", option));
}

rt::StatusOr<int64_t> readCount(const CommandLine &line, const std::string &option,
                                int64_t absent) {
  if (!line.has(option))
    return absent;
  const std::string text = line.text(option);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= 1000000)
    return value;
  return rt::userError("usage.bad_value", fmt::format("--{} is no count", option))
      .withGiven(fmt::format("--{} {}", option, text))
      .withRule("a whole number from 1 to 1000000")
      .suggest(fmt::format("--{} {}", option, absent));
}

PlanTask::PlanTask() {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
}

rt::Status PlanTask::readModel() {
  if (request.model) {
    module = frontend::importModel(*request.model, context);
  } else {
    CLEAVE_RT_ASSIGN_OR_RETURN(module, loadModel(request.modelPath, context));
  }
  auto found = cost::workOf(*module);
  if (!found || found->layers.empty())
    return rt::userError("model.ir_invalid", "the module has no layers that can be planned")
        .at({request.modelPath, 0, 0})
        .withRule("@forward calls the layers of an .mlir model in order")
        .suggest("`cleave compile CONFIG --emit=nn -o model.mlir` writes one");
  work = std::move(*found);
  limits = limitsOf(*module);
  for (auto parameter : module->getOps<nn::ParameterOp>())
    parameters += static_cast<double>(parameter.getTensorType().getNumElements()) *
                  static_cast<double>(parameter.getCount());
  activeParameters = parameters;
  if (request.model) {
    parameters = static_cast<double>(request.model->parameterCount());
    activeParameters = static_cast<double>(request.model->activeParameterCount());
  }
  return rt::Status::success();
}

rt::Status PlanTask::readMachines(const CommandLine &line) {
  if (!request.cluster) {
    CLEAVE_RT_ASSIGN_OR_RETURN(request.cluster, readCluster("local:1", shareFolder()));
  }
  const Cluster &cluster = *request.cluster;
  CLEAVE_RT_ASSIGN_OR_RETURN(const int64_t nodes, readCount(line, "nodes", cluster.nodes));
  if (nodes > cluster.nodes)
    return rt::userError("usage.bad_value", "the cluster has fewer nodes")
        .withGiven(fmt::format("--nodes {}, nodes={}", nodes, cluster.nodes))
        .withRule("--nodes is at most the number of nodes")
        .suggest(fmt::format("--nodes {}", cluster.nodes));
  takeNodes(nodes);
  CLEAVE_RT_ASSIGN_OR_RETURN(device, deviceOf(cluster, shareFolder()));
  const std::string software = line.has("host") ? line.text("host")
                               : cluster.local  ? "cleave-cpu"
                                                : "megatron";
  CLEAVE_RT_ASSIGN_OR_RETURN(host, cost::readHostProfile(shareFolder(), software));
  // Accelerators train in bf16 unless something else is asked for.
  if (!request.recipe.precision && !cluster.local)
    request.recipe.precision = rt::Precision::Bf16;
  return rt::Status::success();
}

rt::StatusOr<std::unique_ptr<PlanTask>> PlanTask::read(const CommandLine &line) {
  std::unique_ptr<PlanTask> task(new PlanTask());
  CLEAVE_RT_RETURN_IF_ERROR(readPlanOptions(line, task->request));
  task->words = {task->request.modelPath};
  for (const char *option : kOptions)
    if (line.has(option)) {
      task->words.push_back(fmt::format("--{}", option));
      task->words.push_back(line.text(option));
    }
  if (line.has("set"))
    for (const std::string &setting : line.list("set")) {
      task->words.push_back("--set");
      task->words.push_back(setting);
    }
  task->request.allowOverBudget = line.has("allow-over-budget");
  if (task->request.allowOverBudget)
    task->words.push_back("--allow-over-budget");
  CLEAVE_RT_RETURN_IF_ERROR(task->readMachines(line));
  CLEAVE_RT_RETURN_IF_ERROR(fillPlanRequest(task->request));
  CLEAVE_RT_ASSIGN_OR_RETURN(task->bans, parseBans(line.has("forbid") ? line.text("forbid") : ""));
  CLEAVE_RT_RETURN_IF_ERROR(task->readModel());
  return task;
}

SearchProblem PlanTask::problem() const {
  return {work,
          device,
          host,
          limits,
          request.plan,
          bans,
          request.allowOverBudget ? 0 : usableMemory(*request.cluster),
          request.cluster->devicesPerNode};
}

rt::StatusOr<SearchProblem> PlanTask::problemWith(const std::string &text) const {
  CLEAVE_RT_ASSIGN_OR_RETURN(const Pins more, parsePins(text));
  if (!more.narrow.empty())
    return rt::userError("plan.unsupported_pin", "precision is not compared")
        .withGiven(text)
        .withRule("what is compared has the precision of the request")
        .suggest("two plans of their own, one with --pin precision.PATH=…");
  SearchProblem problem = this->problem();
  Pins &pins = problem.request.pins;
  auto take = [](auto &to, const auto &from) {
    if (from)
      to = from;
  };
  take(pins.dp, more.dp);
  take(pins.tp, more.tp);
  take(pins.cp, more.cp);
  take(pins.pp, more.pp);
  take(pins.vp, more.vp);
  take(pins.schedule, more.schedule);
  take(pins.experts, more.experts);
  take(pins.zero, more.zero);
  take(pins.zeroGroup, more.zeroGroup);
  take(pins.sequence, more.sequence);
  take(pins.vocabulary, more.vocabulary);
  take(pins.recompute, more.recompute);
  take(pins.overlap, more.overlap);
  take(pins.microBatch, more.microBatch);
  take(pins.bucketMegabytes, more.bucketMegabytes);
  return problem;
}

void PlanTask::takeNodes(int64_t nodes) {
  Cluster &cluster = *request.cluster;
  const size_t colon = cluster.name.find(':');
  if (nodes != cluster.nodes && colon != std::string::npos && !cluster.local)
    cluster.name = fmt::format("{}:{}", cluster.name.substr(0, colon), nodes);
  cluster.nodes = nodes;
  request.plan.ranks = cluster.ranks();
  request.plan.cluster = cluster.name;
}

rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> PlanTask::planOf(const PricedChoice &found) {
  // Pieces of the last kind are those of its joint graph.
  if (!isDifferentiated)
    CLEAVE_RT_RETURN_IF_ERROR(differentiatePhase(*module));
  isDifferentiated = true;
  PlanRequest asked = request.plan;
  asked.pins = pinsOf(found.choice);
  asked.pins.narrow = request.plan.pins.narrow;
  asked.pins.bucketMegabytes = request.plan.pins.bucketMegabytes;
  asked.stageSizes = found.stageSizes();
  CLEAVE_RT_ASSIGN_OR_RETURN(auto plan, planPhase(*module, asked));
  mlir::Builder b(&context);
  llvm::SmallVector<llvm::StringRef> list(words.begin(), words.end());
  solutionOf(*plan)->setAttr(kRequest, b.getStrArrayAttr(list));
  return plan;
}

rt::Status choosePlan(CompileRequest &request, mlir::ModuleOp module) {
  const std::string share = shareFolder();
  Cluster cluster;
  if (request.cluster) {
    cluster = *request.cluster;
  } else {
    CLEAVE_RT_ASSIGN_OR_RETURN(cluster, readCluster("local:1", share));
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Device device, deviceOf(cluster, share));
  CLEAVE_RT_ASSIGN_OR_RETURN(
      const cost::HostProfile host,
      cost::readHostProfile(share, cluster.local ? "cleave-cpu" : "megatron"));
  const auto work = cost::workOf(module);
  if (!work || work->layers.empty())
    return rt::internalError("the model has no layers");
  const SearchProblem problem{*work,
                              device,
                              host,
                              limitsOf(module),
                              request.plan,
                              {},
                              request.allowOverBudget ? 0 : usableMemory(cluster),
                              cluster.devicesPerNode};
  const SearchResult found = search(problem);
  if (found.best.empty())
    return infeasibleError(module, problem, cluster);
  const PricedChoice &best = found.best.front();
  const Pins asked = request.plan.pins;
  request.plan.pins = pinsOf(best.choice);
  request.plan.pins.narrow = asked.narrow;
  request.plan.pins.bucketMegabytes = asked.bucketMegabytes;
  request.plan.stageSizes = best.stageSizes();
  tell("plan: {}, predicted {:.4g} s a step (±{:.0f} %)\n", textOf(best.choice), best.seconds(),
       100 * best.prediction.errorBar);
  return rt::Status::success();
}

Words wordsOf(plan::SolutionOp solution) {
  Words words;
  if (auto list = solution->getAttrOfType<mlir::ArrayAttr>(kRequest))
    for (mlir::Attribute word : list)
      if (auto text = llvm::dyn_cast<mlir::StringAttr>(word))
        words.push_back(text.str());
  return words;
}

} // namespace cleave::tool
