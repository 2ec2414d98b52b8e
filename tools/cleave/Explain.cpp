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

#include <fmt/format.h>

#include <chrono>

namespace cleave::tool {

/// The task that the plan in `file` was found for, and what it says by now.
static rt::StatusOr<std::unique_ptr<PlanTask>> taskOf(const std::string &file, Choice &choice,
                                                      std::vector<int64_t> &begins) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  CLEAVE_RT_ASSIGN_OR_RETURN(auto plan, readPlan(context, file));
  plan::SolutionOp solution = solutionOf(*plan);
  choice = choiceOf(solution);
  if (auto pipeline = plan::entry<plan::PipelineOp>(solution)) {
    begins = {0};
    for (auto stage : pipeline.getOps<plan::StageOp>()) {
      int64_t size = 0;
      for (int64_t count : stage.getCounts())
        size += count;
      begins.push_back(begins.back() + size);
    }
  }
  const Words words = wordsOf(solution);
  if (words.empty())
    return rt::userError("plan.no_request", "the plan does not say what it was found for")
        .at({file, 0, 0})
        .withRule("explain reads plans that `cleave plan -o` wrote")
        .suggest("cleave plan MODEL --cluster C -o " + file);
  CommandLine line("plan", "", {"MODEL"});
  addTaskOptions(line);
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  return PlanTask::read(line);
}

/// One line for each field: what was chosen, and the best without it.
static rt::StatusOr<std::string> decisionsText(const PlanTask &task, const PricedChoice &chosen) {
  std::string text = "\neach decision, and the best plan without it\n";
  for (const ChoiceField &field : choiceFields()) {
    const std::string value = field.text(chosen.choice);
    SearchProblem problem = task.problem();
    const bool isNeutral = value == field.neutral;
    problem.bans.push_back({std::string(field.name), value});
    const SearchResult found = search(problem);
    if (found.best.empty()) {
      const auto smallest = smallestChoice(problem);
      text += fmt::format(
          "{:<12} {:<12} {}\n", field.name, value,
          smallest    ? fmt::format("any other needs at least {:.2f} GB", smallest->bytes / 1e9)
          : isNeutral ? "there is no other"
                      : "no other value keeps the rules");
      continue;
    }
    const PricedChoice &other = found.best.front();
    text += fmt::format("{:<12} {:<12} {:>+8.2f} %  {}\n", field.name, value,
                        100 * (other.seconds() / chosen.seconds() - 1), textOf(other.choice));
  }
  return text;
}

static void writeJson(const PlanReport &report) {
  rt::JsonWriter out(2);
  writePlanJson(out, report);
  std::fputs((out.take() + "\n").c_str(), stdout);
}

/// How the plan at hand, which may have been edited, is priced beside the one that is found.
static std::string handText(const SearchProblem &problem, const PlanReport &report,
                            const Choice &choice, const std::vector<int64_t> &begins) {
  if (auto broken = brokenRule(problem, choice))
    return fmt::format("the plan is none that the search knows: {}\n", *broken);
  PricedChoice hand = price(problem, choice);
  if (!begins.empty()) {
    cost::Layout layout = layoutOf(problem, choice);
    layout.stageBegins = begins;
    cost::HostProfile host = problem.host;
    host.overlapsData &= choice.overlap;
    hand.prediction = cost::predict(problem.work, problem.device, host, layout);
  }
  return choice == report.best().choice
             ? fmt::format("the plan is the best one: {:.4g} s a step\n", hand.seconds())
             : "the best plan, and the one at hand\n" + choicesText({&report.best(), &hand});
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
  Choice choice;
  std::vector<int64_t> begins;
  CLEAVE_RT_ASSIGN_OR_RETURN(std::unique_ptr<PlanTask> task, taskOf(file, choice, begins));
  const auto start = std::chrono::steady_clock::now();
  const SearchProblem problem = task->problem();
  const SearchResult found = search(problem, options);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (found.best.empty())
    return infeasibleError(*task->module, problem);
  PlanReport report{*task, found, countChoices(problem), spent.count(), {}};
  if (line.has("why-not")) {
    CLEAVE_RT_ASSIGN_OR_RETURN(report.compared, compareWith(*task, line.text("why-not")));
  }
  if (line.json()) {
    writeJson(report);
    return rt::Status::success();
  }
  std::fputs(handText(problem, report, choice, begins).c_str(), stdout);
  if (!report.compared.empty()) {
    std::fputs(comparedText(report).c_str(), stdout);
    return rt::Status::success();
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string decisions, decisionsText(*task, report.best()));
  std::fputs((planText(report) + decisions).c_str(), stdout);
  return rt::Status::success();
}

} // namespace cleave::tool
