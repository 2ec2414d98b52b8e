//===- PlanTask.cpp - What is searched for a plan -----------------------------===//

#include "PlanTask.h"
#include "ModelInput.h"
#include "Output.h"
#include "PlanReport.h"

#include "cleave/Pipelines/Phases.h"
#include "cleave/Pipelines/Register.h"
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
static constexpr const char *kAllowOverBudget = "allow-over-budget";

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
  line.add()("nodes", "of the cluster's nodes only so many", cxxopts::value<std::string>(), "N");
  line.add()(kAllowOverBudget, "search as if devices had any memory");
}

Words taskWords(const CommandLine &line, const std::string &modelPath) {
  Words words = {modelPath};
  for (const char *option : kOptions)
    if (line.has(option)) {
      words.push_back(fmt::format("--{}", option));
      words.push_back(line.text(option));
    }
  if (line.has("set"))
    for (const std::string &setting : line.list("set")) {
      words.push_back("--set");
      words.push_back(setting);
    }
  if (line.has(kAllowOverBudget))
    words.push_back(fmt::format("--{}", kAllowOverBudget));
  return words;
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
  cpu::registerKernelDialects(registry);
  context.appendDialectRegistry(registry);
}

rt::Status PlanTask::readModel(const CommandLine &line) {
  if (request.model) {
    module = frontend::importModel(*request.model, context);
  } else {
    CLEAVE_RT_ASSIGN_OR_RETURN(module, loadModel(request.modelPath, context));
  }
  const std::string software = line.has("host") ? line.text("host") : "";
  CLEAVE_RT_ASSIGN_OR_RETURN(step, StepModel::of(request, *module, software));
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

rt::Status PlanTask::takeCluster(const CommandLine &line) {
  CLEAVE_RT_ASSIGN_OR_RETURN(request.cluster, clusterOf(request));
  const Cluster &cluster = *request.cluster;
  CLEAVE_RT_ASSIGN_OR_RETURN(const int64_t nodes, readCount(line, "nodes", cluster.nodes));
  if (nodes > cluster.nodes)
    return rt::userError("usage.bad_value", "the cluster has fewer nodes")
        .withGiven(fmt::format("--nodes {}, nodes={}", nodes, cluster.nodes))
        .withRule("--nodes is at most the number of nodes")
        .suggest(fmt::format("--nodes {}", cluster.nodes));
  takeNodes(nodes);
  assumePrecision(request);
  return rt::Status::success();
}

rt::StatusOr<std::unique_ptr<PlanTask>> PlanTask::read(const CommandLine &line) {
  std::unique_ptr<PlanTask> task(new PlanTask());
  CLEAVE_RT_RETURN_IF_ERROR(readPlanOptions(line, task->request));
  task->words = taskWords(line, task->request.modelPath);
  task->request.allowOverBudget = line.has(kAllowOverBudget);
  CLEAVE_RT_RETURN_IF_ERROR(task->takeCluster(line));
  CLEAVE_RT_RETURN_IF_ERROR(fillPlanRequest(task->request));
  CLEAVE_RT_ASSIGN_OR_RETURN(task->bans, parseBans(line.has("forbid") ? line.text("forbid") : ""));
  CLEAVE_RT_RETURN_IF_ERROR(task->readModel(line));
  return task;
}

SearchProblem PlanTask::problem() const {
  SearchProblem problem = step.problemOf(request);
  problem.bans = bans;
  return problem;
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
  take(pins.order, more.order);
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

rt::Status PlanTask::differentiate() {
  if (isDifferentiated)
    return rt::Status::success();
  isDifferentiated = true;
  return differentiatePhase(*module);
}

ExecLayouter *PlanTask::layouterOf() {
  if (!isOurs(*request.cluster) || step.host.name != softwareOf(*request.cluster))
    return nullptr;
  if (!layouter) {
    const auto profile = readProfile("host");
    if (!profile.ok() || !differentiate().ok())
      return nullptr;
    layouter.emplace(*module, request.plan, optimizerOf(request.recipe), *profile);
  }
  return &*layouter;
}

SearchResult PlanTask::find(SearchProblem &problem, const SearchOptions &options,
                            SearchObserver *observer) {
  ExecLayouter *target = layouterOf();
  return target ? searchLaidOut(problem, *target, options, observer)
                : search(problem, options, observer);
}

rt::Status PlanTask::check(const std::string &planFile) {
  // Pieces of the last kind are those of its joint graph.
  CLEAVE_RT_RETURN_IF_ERROR(differentiate());
  return planPhase(*module, request.plan, planFile).status();
}

std::optional<LaidOutMemory> PlanTask::layOut(const std::string &planFile) {
  ExecLayouter *target = layouterOf();
  if (!target)
    return std::nullopt;
  const auto plan = planPhase(*module, request.plan, planFile);
  return plan.ok() ? target->layOut(**plan) : std::nullopt;
}

rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> PlanTask::planOf(const PricedChoice &found) {
  // Pieces of the last kind are those of its joint graph.
  CLEAVE_RT_RETURN_IF_ERROR(differentiate());
  PlanRequest asked = request.plan;
  fixChoice(asked, found);
  CLEAVE_RT_ASSIGN_OR_RETURN(auto plan, planPhase(*module, asked));
  keepWords(solutionOf(*plan), words);
  return plan;
}

rt::StatusOr<PricedChoice> choosePlan(CompileRequest &request, const StepModel &step,
                                      mlir::ModuleOp module) {
  SearchProblem problem = step.problemOf(request);
  ExecLayouter layouter(module, request.plan, optimizerOf(request.recipe), request.profile);
  CLEAVE_RT_ASSIGN_OR_RETURN(const Cluster cluster, clusterOf(request));
  const SearchResult found = isOurs(cluster) ? searchLaidOut(problem, layouter) : search(problem);
  if (found.best.empty())
    return infeasibleError(module, problem, cluster);
  fixChoice(request.plan, found.best.front());
  return found.best.front();
}

void keepWords(plan::SolutionOp solution, const Words &words) {
  mlir::Builder b(solution.getContext());
  llvm::SmallVector<llvm::StringRef> list(words.begin(), words.end());
  solution->setAttr(kRequest, b.getStrArrayAttr(list));
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
