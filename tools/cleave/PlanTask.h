//===- PlanTask.h - What is searched for a plan -------------------------------===//
//
// A request with all that the search needs to know: the model's work, the devices of
// the cluster, the software that will run. Shared by `plan` and `explain`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "CompileRequest.h"
#include "cleave/Planner/Search.h"

#include "mlir/IR/MLIRContext.h"

#include <memory>

namespace cleave::tool {

class PlanTask {
public:
  /// Reads MODEL and what the options of `addTaskOptions` name. Errors: those of `compile`,
  /// `device.*`, `host.*`, `cluster.*`.
  static rt::StatusOr<std::unique_ptr<PlanTask>> read(const CommandLine &line);

  SearchProblem problem() const;
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
  cost::ModelWork work;
  cost::Device device;
  cost::HostProfile host;
  std::vector<Ban> bans;
  ModelLimits limits;
  /// Exact, and those of which a token sees (without experts all).
  double parameters = 0, activeParameters = 0;

private:
  PlanTask();
  rt::Status readModel();
  rt::Status readMachines(const CommandLine &line);
  bool isDifferentiated = false;
};

/// Pins what `request` leaves open to what the search finds for `module`, on the cluster's devices
/// and the software that this version emits. Says what it is. Errors: as of `plan`.
rt::Status choosePlan(CompileRequest &request, mlir::ModuleOp module);

/// Declares cluster, recipe, pins and what is left out of the search.
void addTaskOptions(CommandLine &line);
/// The words that `PlanTask::words` were when `solution` was written; none if it has none.
Words wordsOf(plan::SolutionOp solution);

/// The time limit of a search, in seconds. Error: `usage.bad_value`.
rt::StatusOr<double> readSeconds(const CommandLine &line, const std::string &option);
rt::StatusOr<int64_t> readCount(const CommandLine &line, const std::string &option, int64_t absent);

} // namespace cleave::tool
