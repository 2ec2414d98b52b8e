//===- Plan.cpp - cleave plan -------------------------------------------------===//
//
// Searches for the best layout of a model on a cluster, says what it takes and why, and
// writes it as a plan for `cleave compile --plan`.
//
//===----------------------------------------------------------------------===//

#include "Driver.h"
#include "Output.h"
#include "PlanReport.h"

#include "cleave/Pipelines/Phases.h"
#include "runtime/Base/Files.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <unistd.h>

namespace cleave::tool {

namespace {

/// Tells a person at a terminal how far the search is.
class ProgressLine : public SearchObserver {
public:
  void onProgress(const SearchCounts &counts, double best, double bound) override {
    if (!isTerminal)
      return;
    isShown = true;
    tell("\r\033[Kplan: {} layouts bounded, {} predicted, best {:.4g} s, none below {:.4g} s",
         counts.bounded, counts.predicted, best, bound);
  }
  void clear() const {
    if (isShown)
      tell("\r\033[K");
  }

private:
  const bool isTerminal = isatty(STDERR_FILENO) != 0;
  bool isShown = false;
};

} // namespace

/// What --objective minimizes: the time of a step, or the devices' time for it.
static rt::StatusOr<bool> isForCost(const CommandLine &line) {
  const std::string objective = line.text("objective");
  if (objective == "time" || objective == "cost")
    return objective == "cost";
  return rt::userError("usage.bad_value", "there is no such objective")
      .withGiven("--objective " + objective)
      .withRule("--objective is time (of a step) or cost (a step's time × devices)")
      .suggest("--objective time");
}

/// The search on the number of nodes, of those that divide the cluster's, whose step costs the
/// least; of equal ones the largest. Where their number `isGiven` there is no other: then the
/// cheapest step is the fastest. `tried`: all of these numbers.
static SearchResult searchCheapest(PlanTask &task, const SearchOptions &options, bool isGiven,
                                   std::vector<int64_t> &tried) {
  const int64_t all = task.request.cluster->nodes;
  if (isGiven) {
    tried = {all};
    SearchProblem problem = task.problem();
    return task.find(problem, options);
  }
  const auto start = std::chrono::steady_clock::now();
  bool complete = true;
  // One limit for all of them.
  const auto limited = [&](SearchOptions one) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (one.timeLimit > 0)
      one.timeLimit = std::max(one.timeLimit - spent.count(), 1e-3);
    return one;
  };
  int64_t chosen = all;
  double cost = std::numeric_limits<double>::infinity();
  for (int64_t nodes = all; nodes >= 1; --nodes) {
    if (all % nodes != 0)
      continue;
    tried.push_back(nodes);
    task.takeNodes(nodes);
    SearchProblem problem = task.problem();
    const auto times = static_cast<double>(nodes);
    const SearchResult found =
        task.find(problem, limited({1, false, options.timeLimit, cost / times}));
    complete &= found.complete;
    if (found.best.empty() || found.best.front().seconds() * times >= cost)
      continue;
    cost = found.best.front().seconds() * times;
    chosen = nodes;
  }
  task.takeNodes(chosen);
  SearchProblem problem = task.problem();
  SearchResult cheapest = task.find(problem, limited(options));
  cheapest.complete &= complete;
  if (chosen == all)
    return cheapest;
  task.words.insert(task.words.end(), {"--nodes", std::to_string(chosen)});
  return cheapest;
}

static rt::Status writePlan(mlir::ModuleOp plan, const std::string &path) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  plan.print(stream);
  stream << "\n";
  return rt::writeFileAtomically(path, text);
}

/// No layout that was laid out by then fits, nor does any by the formula.
static rt::Error timeIsUp(double limit, const SearchResult &found) {
  return rt::userError("plan.time_limit",
                       fmt::format("no layout that fits was found in time: {} were laid out and do "
                                   "not fit, and what was not fits by no formula",
                                   found.counts.putAside))
      .withGiven(fmt::format("--time-limit {}", limit))
      .withRule("a layout fits as the compiler lays it out, or by the cost model's formula where "
                "there is no time for that")
      .suggest(fmt::format("--time-limit {}, or none", std::ceil(10 * limit)))
      .suggest("more ranks");
}

/// What is left of the limit, for what is compared; 0: there is none.
static double restOf(const SearchOptions &options, std::chrono::duration<double> spent) {
  return options.timeLimit > 0 ? std::max(options.timeLimit - spent.count(), 1e-3) : 0;
}

static void addOptions(CommandLine &line) {
  addTaskOptions(line);
  auto text = [] { return cxxopts::value<std::string>(); };
  line.add()("objective", "what is as small as can be: time of a step, or cost: that × devices",
             text()->default_value("time"), "WHAT");
  line.add()("top", "how many meshes to report, the best layout of each (5)", text(), "N");
  line.add()("pareto", "also report what no other layout beats in both time and memory");
  line.add()("time-limit", "stop after so many seconds with the best so far", text(), "S");
  line.add()("compare", "the best with these pins beside it; several sets: 'tp=8,pp=2;zero=3'",
             text(), "PINS");
  line.add()("o,output", "the plan, for compile --plan", text(), "FILE");
}

rt::Status runPlan(const Words &words) {
  CommandLine line("plan", "find the best layout of a model on a cluster, and say why", {"MODEL"});
  addOptions(line);
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(const bool forCost, isForCost(line));
  SearchOptions options;
  CLEAVE_RT_ASSIGN_OR_RETURN(const int64_t top, readCount(line, "top", 5));
  options.top = static_cast<size_t>(top);
  options.pareto = line.has("pareto");
  CLEAVE_RT_ASSIGN_OR_RETURN(options.timeLimit, readSeconds(line, "time-limit"));
  CLEAVE_RT_ASSIGN_OR_RETURN(std::unique_ptr<PlanTask> task, PlanTask::read(line));
  const std::string output = line.has("output") ? line.text("output") : "";
  if (!output.empty())
    CLEAVE_RT_RETURN_IF_ERROR(checkOutput(output, task->request.inputs));

  const auto start = std::chrono::steady_clock::now();
  ProgressLine progress;
  SearchProblem problem = task->problem();
  std::vector<int64_t> tried;
  const SearchResult found = forCost ? searchCheapest(*task, options, line.has("nodes"), tried)
                                     : task->find(problem, options, &progress);
  progress.clear();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (found.best.empty() && found.isByFormulaAlone)
    return timeIsUp(options.timeLimit, found);
  if (found.best.empty())
    return infeasibleError(*task->module, forCost ? task->problem() : problem,
                           *task->request.cluster);
  PlanReport report{*task, found, countChoices(task->problem()), spent.count(), {}};
  report.nodesTried = std::move(tried);
  if (line.has("compare")) {
    CLEAVE_RT_ASSIGN_OR_RETURN(report.compared,
                               compareWith(*task, line.text("compare"), restOf(options, spent)));
  }
  if (found.isByFormulaAlone)
    tell("warning[plan.not_laid_out]: --time-limit {} was up before a layout that fits was laid "
         "out; "
         "that this one fits is the cost model's estimate\n",
         options.timeLimit);
  // Checked as `compile` does, pins that the search does not look at included.
  CLEAVE_RT_ASSIGN_OR_RETURN(auto plan, task->planOf(found.best.front()));
  if (!output.empty())
    CLEAVE_RT_RETURN_IF_ERROR(writePlan(*plan, output));
  if (line.json()) {
    rt::JsonWriter out(2);
    writePlanJson(out, report);
    std::fputs((out.take() + "\n").c_str(), stdout);
  } else {
    std::fputs(planText(report).c_str(), stdout);
  }
  return rt::Status::success();
}

} // namespace cleave::tool
