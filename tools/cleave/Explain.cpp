//===- Explain.cpp - cleave explain -------------------------------------------===//
//
// Why a plan of `cleave plan` is as it is: the request that is written in it is searched
// again, and what was asked for beside it is compared part by part.
//
//===----------------------------------------------------------------------===//

#include "Driver.h"
#include "PlanReport.h"

#include "cleave/Pipelines/Phases.h"
#include "cleave/Pipelines/Register.h"
#include "cleave/Planner/PricePlan.h"

#include <fmt/format.h>

#include <chrono>

namespace cleave::tool {

/// A plan whose batch or ranks were edited is not one of the task that it was found for.
static rt::Status checkSizes(const std::string &file, plan::SolutionOp solution,
                             const PlanRequest &asked) {
  auto batch = plan::entry<plan::BatchOp>(solution);
  int64_t ranks = 1;
  for (auto axis : solution.getOps<plan::AxisOp>())
    for (int64_t size : axis.getSizes())
      ranks *= size;
  const std::tuple<const char *, int64_t, int64_t> sizes[] = {
      {"global_batch", batch.getGlobal(), asked.globalBatch},
      {"sequence_length", batch.getSequence(), asked.sequence},
      {"ranks", ranks, asked.ranks}};
  for (auto [key, says, found] : sizes)
    if (says != found)
      return rt::userError("plan.conflict", fmt::format("\"{}\" is {} in the plan, which was found "
                                                        "for {}",
                                                        key, says, found))
          .at({file, 0, 0})
          .withGiven(fmt::format("{}={}, plan.request: {}={}", key, says, key, found))
          .withRule("explain searches what plan.request asks for; an edited plan keeps its batch, "
                    "sequence length and ranks")
          .suggest("cleave plan MODEL --cluster C -o " + file);
  return rt::Status::success();
}

namespace {
/// What a plan says by now.
struct Said {
  Choice choice;
  std::vector<int64_t> stageBegins;
  std::string keptOtherwise;
};
} // namespace

/// The task that the plan in `file` was found for.
static rt::StatusOr<std::unique_ptr<PlanTask>> taskOf(const std::string &file, Said &said) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  CLEAVE_RT_ASSIGN_OR_RETURN(auto plan, readPlan(context, file));
  plan::SolutionOp solution = solutionOf(*plan);
  said.choice = choiceOf(solution);
  said.stageBegins = stageBeginsOf(solution);
  const Words words = wordsOf(solution);
  if (words.empty())
    return rt::userError("plan.no_request", "the plan does not say what it was found for")
        .at({file, 0, 0})
        .withRule("explain reads plans that were searched for: those of `cleave plan -o`, and of "
                  "`cleave compile --emit=plan` without --pin")
        .suggest("cleave plan MODEL --cluster C -o " + file);
  CommandLine line("plan", "", {"MODEL"});
  addTaskOptions(line);
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  CLEAVE_RT_ASSIGN_OR_RETURN(std::unique_ptr<PlanTask> task, PlanTask::read(line));
  CLEAVE_RT_RETURN_IF_ERROR(checkSizes(file, solution, task->request.plan));
  CLEAVE_RT_RETURN_IF_ERROR(task->check(file));
  said.keptOtherwise = cleave::keptOtherwise(solution, *task->module);
  return task;
}

/// What was chosen in each field, and the best without it.
static std::vector<Decision> decisionsOf(const SearchProblem &asked, const PricedChoice &chosen) {
  std::vector<Decision> decisions;
  for (const ChoiceField &field : choiceFields()) {
    Decision &d = decisions.emplace_back();
    d.field = field.name;
    d.value = field.text(chosen.choice);
    d.isNeutral = d.value == field.neutral;
    if (field.name == "order" && !hasPlaces(asked))
      continue;
    SearchProblem problem = asked;
    problem.bans.push_back({d.field, d.value});
    if (const SearchResult found = search(problem); !found.best.empty())
      d.other = found.best.front();
    else if (const auto smallest = smallestChoice(problem))
      d.needs = smallest->bytes;
  }
  return decisions;
}

/// A line for each.
static std::string decisionsText(const PlanReport &report) {
  std::string text = "\neach decision, and the best plan without it\n";
  for (const Decision &d : report.decisions) {
    text += fmt::format("{:<12} {:<12} ", d.field, d.value);
    if (d.other)
      text +=
          fmt::format("{:>+8.2f} %  {}\n", 100 * (d.other->seconds() / report.best().seconds() - 1),
                      textOf(d.other->choice));
    else if (d.needs)
      text += fmt::format("any other needs at least {:.2f} GB\n", *d.needs / 1e9);
    else
      text += d.isNeutral ? "there is no other\n" : "no other value keeps the rules\n";
  }
  return text;
}

static void writeJson(const PlanReport &report) {
  rt::JsonWriter out(2);
  writePlanJson(out, report);
  std::fputs((out.take() + "\n").c_str(), stdout);
}

/// The plan at hand, which may have been edited, as it is priced; `best`: what the plan that is
/// found says.
static PlanAtHand atHandOf(const SearchProblem &problem, const Choice &best, const Said &said,
                           std::optional<LaidOutMemory> memory) {
  PlanAtHand hand;
  hand.broken = brokenRule(problem, said.choice);
  if (hand.broken)
    return hand;
  hand.priced = priceWithStages(problem, said.choice, said.stageBegins);
  hand.priced->laidOut = std::move(memory);
  hand.keptOtherwise = said.keptOtherwise;
  hand.isBest = said.choice == best && said.keptOtherwise.empty();
  return hand;
}

static std::string handText(const PlanReport &report) {
  const PlanAtHand &hand = *report.atHand;
  if (hand.broken)
    return fmt::format("the plan is none that the search knows: {}\n", *hand.broken);
  if (!hand.keptOtherwise.empty())
    return fmt::format(
               "note: the plan keeps other results of \"{}\" than recompute=selective does, "
               "and is priced as if it kept those\n",
               hand.keptOtherwise) +
           choicesText({&report.best(), &*hand.priced});
  return hand.isBest
             ? fmt::format("the plan is the best one: {:.4g} s a step\n", hand.priced->seconds())
             : "the best plan, and the one at hand\n" +
                   choicesText({&report.best(), &*hand.priced});
}

rt::Status runExplain(const Words &words) {
  CommandLine line("explain", "say why a plan is as it is, and what others would take", {"PLAN"});
  line.add()("why-not",
             "the best plan with these pins, what it costs and where; several sets: "
             "'tp=8,pp=2;zero=3'",
             cxxopts::value<std::string>(), "PINS");
  line.add()("top", "how many meshes to report, the best layout of each (5)",
             cxxopts::value<std::string>(), "N");
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string file, line.required("PLAN"));
  SearchOptions options;
  CLEAVE_RT_ASSIGN_OR_RETURN(const int64_t top, readCount(line, "top", 5));
  options.top = static_cast<size_t>(top);
  Said said;
  CLEAVE_RT_ASSIGN_OR_RETURN(std::unique_ptr<PlanTask> task, taskOf(file, said));
  const auto start = std::chrono::steady_clock::now();
  SearchProblem problem = task->problem();
  const SearchResult found = task->find(problem, options);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (found.best.empty())
    return infeasibleError(*task->module, problem, *task->request.cluster);
  PlanReport report{*task, found, countChoices(problem), spent.count(), {}};
  if (line.has("why-not")) {
    CLEAVE_RT_ASSIGN_OR_RETURN(report.compared, compareWith(*task, line.text("why-not")));
  }
  // As it is read from its plan: what decides nothing is not in one.
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto best, task->planOf(report.best()));
  report.atHand = atHandOf(problem, choiceOf(solutionOf(*best)), said, task->layOut(file));
  if (report.compared.empty())
    report.decisions = decisionsOf(problem, report.best());
  if (line.json()) {
    writeJson(report);
    return rt::Status::success();
  }
  const std::string why =
      report.compared.empty() ? planText(report) + decisionsText(report) : comparedText(report);
  std::fputs((handText(report) + why).c_str(), stdout);
  return rt::Status::success();
}

} // namespace cleave::tool
