//===- PlanTask.h - What is searched for a plan -------------------------------===//
//
// A request with all that the search needs to know. Shared by `plan` and `explain`; `compile`,
// which has a module of its own, asks `choosePlan`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "StepModel.h"
#include "cleave/Pipelines/LayOut.h"

#include "mlir/IR/MLIRContext.h"

#include <memory>

namespace cleave::tool {

class PlanTask {
public:
  /// Reads MODEL and what the options of `addTaskOptions` name. Errors: those of `compile`,
  /// `device.*`, `host.*`, `cluster.*`.
  static rt::StatusOr<std::unique_ptr<PlanTask>> read(const CommandLine &line);

  SearchProblem problem() const;
  /// The best of `problem`; on clusters that this version emits programs for with the memory that
  /// these allocate, and none that does not fit.
  SearchResult find(SearchProblem &problem, const SearchOptions &options = {},
                    SearchObserver *observer = nullptr);
  /// Whether the plan of a file, which may have been edited, can be carried out; errors are those
  /// of `compile --plan`.
  rt::Status check(const std::string &planFile);
  /// What a rank allocates under the plan of a file; nothing on other clusters.
  std::optional<LaidOutMemory> layOut(const std::string &planFile);
  /// The problem with the pins of `text` beside the request's own, which they replace.
  rt::StatusOr<SearchProblem> problemWith(const std::string &text) const;

  /// The plan of a choice, checked against the model, with the request written into it.
  rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> planOf(const PricedChoice &found);
  /// Takes the first `nodes` nodes of the cluster alone.
  void takeNodes(int64_t nodes);

  /// MODEL and the options, so that reading them again is the same task.
  Words words;
  CompileRequest request;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  StepModel step;
  std::vector<Ban> bans;
  /// Exact, and those of which a token sees (without experts all).
  double parameters = 0, activeParameters = 0;

private:
  PlanTask();
  rt::Status takeCluster(const CommandLine &line);
  rt::Status readModel(const CommandLine &line);
  rt::Status differentiate();
  /// Null where this version emits no programs.
  ExecLayouter *layouterOf();
  bool isDifferentiated = false;
  std::optional<ExecLayouter> layouter;
};

/// Pins what `request` leaves open to what the search finds for `module`, whose model is `step`.
/// `module` is in grad. Errors: as of `plan`.
rt::StatusOr<PricedChoice> choosePlan(CompileRequest &request, const StepModel &step,
                                      mlir::ModuleOp module);

/// Declares cluster, recipe, pins and what is left out of the search.
void addTaskOptions(CommandLine &line);
/// MODEL and those of the options of `addTaskOptions` that `line` has.
Words taskWords(const CommandLine &line, const std::string &modelPath);
/// The words of a task that are kept in a plan; none if it has none.
Words wordsOf(plan::SolutionOp solution);
void keepWords(plan::SolutionOp solution, const Words &words);

/// The time limit of a search, in seconds. Error: `usage.bad_value`.
rt::StatusOr<double> readSeconds(const CommandLine &line, const std::string &option);
rt::StatusOr<int64_t> readCount(const CommandLine &line, const std::string &option, int64_t absent);

} // namespace cleave::tool
