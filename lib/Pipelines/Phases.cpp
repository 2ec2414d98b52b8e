//===- Phases.cpp - The phases of a compilation, one function each ---------===//

#include "cleave/Pipelines/Phases.h"
#include "cleave/Transforms/Autodiff/Passes.h"
#include "cleave/Transforms/Sharding/Sharding.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/Base/Files.h"

using namespace mlir;
namespace cleave {

static rt::Where whereOf(Location loc) {
  if (auto at = loc->findInstanceOf<FileLineColLoc>())
    return {at.getFilename().str(), int(at.getLine()), int(at.getColumn())};
  return {};
}

/// "plan.unknown_axis: the plan has…" → kind and text; anything else is ours.
static rt::Error toError(Diagnostic &diagnostic) {
  std::string text = diagnostic.str();
  size_t colon = text.find(": ");
  bool kind = colon != std::string::npos && text.find('.') < colon &&
              text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.") == colon;
  rt::Error error =
      kind ? rt::userError(text.substr(0, colon), text.substr(colon + 2)) : rt::internalError(text);
  error.where = whereOf(diagnostic.getLocation());
  for (Diagnostic &note : diagnostic.getNotes())
    error.notes.push_back({whereOf(note.getLocation()), note.str()});
  return error;
}

rt::Status withDiagnostics(MLIRContext &context, function_ref<LogicalResult()> work) {
  std::optional<rt::Error> first;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    if (!first)
      first = toError(diagnostic);
    return success();
  });
  if (succeeded(work()))
    return rt::Status::success();
  return first ? *first : rt::internalError("a phase failed without saying why");
}

/// Runs `add`'s passes with the verifier after each.
static rt::Status runPasses(ModuleOp module, function_ref<void(OpPassManager &)> add) {
  return withDiagnostics(*module.getContext(), [&] {
    PassManager manager(module.getContext());
    add(manager);
    return manager.run(module);
  });
}

rt::Status differentiatePhase(ModuleOp module) {
  return runPasses(module, [](OpPassManager &pm) {
    pm.addPass(createDifferentiateKindsPass());
    pm.addPass(createCSEPass());           // gradients ask for the same values again
    pm.addPass(createCanonicalizerPass()); // drops gradients that nobody reads
  });
}

plan::SolutionOp solutionOf(ModuleOp plan) {
  auto all = plan.getOps<plan::SolutionOp>();
  return all.empty() ? plan::SolutionOp() : *all.begin();
}

static rt::StatusOr<OwningOpRef<ModuleOp>> readPlan(MLIRContext &context, const std::string &file) {
  context.loadDialect<plan::PlanDialect>();
  OwningOpRef<ModuleOp> plan;
  rt::Status read = withDiagnostics(context, [&] {
    plan = parseSourceFile<ModuleOp>(file, &context);
    return success(bool(plan));
  });
  if (!read.ok()) {
    rt::Error error = read.error();
    return rt::Error(rt::userError("plan.unreadable", error.message))
        .at(error.where)
        .withGiven(file)
        .withRule("a plan is an MLIR file with one plan.solution; `cleave compile … --emit=plan` "
                  "writes one");
  }
  if (!solutionOf(*plan))
    return rt::userError("plan.unreadable", "the file holds no plan.solution")
        .withGiven(file)
        .withRule("a plan is an MLIR file with one plan.solution");
  return plan;
}

rt::StatusOr<OwningOpRef<ModuleOp>> planPhase(ModuleOp model, const PlanRequest &request,
                                              const std::string &planFile) {
  auto plan =
      planFile.empty() ? planFromPins(model, request) : readPlan(*model.getContext(), planFile);
  if (!plan.ok())
    return plan.status();
  rt::Status checked = withDiagnostics(
      *model.getContext(), [&] { return checkPlan(solutionOf(**plan), model, request.ranks); });
  if (!checked.ok())
    return checked;
  return plan;
}

rt::Status applyPhase(ModuleOp module, ModuleOp plan, const OptimizerSettings &optimizer) {
  rt::Status applied = withDiagnostics(*module.getContext(), [&] {
    return success(succeeded(applyPlan(module, solutionOf(plan), optimizer)) &&
                   succeeded(verify(module)));
  });
  return applied;
}

rt::Status distPhase(ModuleOp module) {
  return runPasses(module, [](OpPassManager &pm) {
    pm.addPass(createPropagateShardingsPass());
    pm.addPass(createInsertReshardsPass());
    pm.addPass(createPartitionPass());
    pm.addPass(createCSEPass());
    pm.addPass(createCanonicalizerPass());
  });
}

} // namespace cleave
