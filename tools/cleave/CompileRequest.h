//===- CompileRequest.h - What the user asks of cleave compile -------------===//
//
// Options, recipe, cluster and model of a compilation, read and checked before
// any phase runs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Planner/Cluster.h"
#include "cleave/Planner/Planner.h"
#include "cleave/Target/CPU/KernelCompiler.h"
#include "cleave/Transforms/ApplyPlan/ApplyPlan.h"
#include "runtime/Train/Recipe.h"

namespace cleave::tool {

struct CompileRequest {
  std::string modelPath, planFile, emit, output, dumpFolder;
  /// All files that are read, of which none may be written.
  std::vector<std::string> inputs;
  /// Absent for a model that is an .mlir file.
  std::optional<frontend::ModelDescription> model;
  rt::Recipe recipe;
  std::optional<Cluster> cluster;
  PlanRequest plan;
  cpu::Profile profile = cpu::Profile::avx2();
  /// Whether products are those of a GPU's libraries; with false, kernels of ours.
  bool gpuLibraries = true;
  /// cpu or cuda.
  std::string target = "cpu";
  /// For which kernels of a GPU are compiled ahead, as "sm_90".
  std::vector<std::string> architectures;
  bool allowOverBudget = false;
  /// Nothing is pinned and no plan is given; `--plan best` is asked for.
  bool isOpen = false, asksForSearch = false;
  /// What pins leave open is searched, for one of these reasons; for the first one only on devices
  /// whose speed is known.
  bool searches = false;
  /// MODEL and the options that a search depends on, for the plan that it finds.
  Words words;
  /// Standard output holds one JSON document.
  bool json = false;
};

/// Declares the options that say what is asked for: cluster, recipe, pins.
void addRequestOptions(CommandLine &line);
/// The same, and a plan in place of pins.
void addPlanOptions(CommandLine &line);

/// Declares the options of `compile`, those of `addPlanOptions` among them; `phases` lists what
/// `--emit` knows.
void addCompileOptions(CommandLine &line, const std::string &phases);

/// What `--profile` names; "host": the best one that this machine has. Error: `usage.option`.
rt::StatusOr<cpu::Profile> readProfile(const std::string &name);

/// Reads MODEL and what the options of `addPlanOptions` name into `request`, all but the
/// sizes of the plan.
rt::Status readPlanOptions(const CommandLine &line, CompileRequest &request);

/// The sizes of the plan: the recipe's, or what is taken where it is silent. Ranks are those
/// of the cluster, else as they are. Errors: `recipe.sequence_too_long`.
rt::Status fillPlanRequest(CompileRequest &request);

/// Reads everything that the parsed options name. Errors as formats.md says:
/// `recipe.*`, `cluster.*`, `plan.*`, `config.*`.
rt::StatusOr<CompileRequest> readCompileRequest(const CommandLine &line);

/// What the recipe says of a step (its batch, its types) must be what the file of `--plan`,
/// read as `solution`, says. Errors: `plan.conflict`.
rt::Status comparePlan(const CompileRequest &request, plan::SolutionOp solution);

/// bf16 where some line of the plan asks for it.
rt::Precision precisionOf(plan::SolutionOp solution);

/// The optimizer's settings of a recipe.
OptimizerSettings optimizerOf(const rt::Recipe &recipe);

/// The folder of presets, beside the folder of this program or in the source tree.
std::string shareFolder();
/// The folder of the runtime's libraries.
std::string librariesFolder();

} // namespace cleave::tool
