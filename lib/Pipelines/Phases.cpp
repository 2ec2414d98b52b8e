//===- Phases.cpp - The phases of a compilation, one function each ---------===//

#include "cleave/Pipelines/Phases.h"
#include "cleave/Support/Diagnostics.h"
#include "cleave/Support/Nesting.h"
#include "cleave/Target/Image/Image.h"
#include "cleave/Transforms/Autodiff/Passes.h"
#include "cleave/Transforms/Blocks/Blocks.h"
#include "cleave/Transforms/Overlap/Overlap.h"
#include "cleave/Transforms/Pipeline/Pipeline.h"
#include "cleave/Transforms/Precision/Precision.h"
#include "cleave/Transforms/Sharding/Sharding.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/Base/Files.h"

using namespace mlir;
namespace cleave {

/// The programs of a module: one for each place in a pipeline, else the module.
static SmallVector<ModuleOp> programsOf(ModuleOp module) {
  SmallVector<ModuleOp> parts(module.getOps<ModuleOp>());
  return parts.empty() ? SmallVector<ModuleOp>{module} : parts;
}

/// Runs `add`'s passes on every program, with the verifier after each.
static rt::Status runPasses(ModuleOp module, function_ref<void(OpPassManager &)> add) {
  return withDiagnostics(*module.getContext(), [&] {
    PassManager manager(module.getContext());
    const bool hasParts = !module.getOps<ModuleOp>().empty();
    add(hasParts ? manager.nest<ModuleOp>() : manager);
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

rt::StatusOr<OwningOpRef<ModuleOp>> readPlan(MLIRContext &context, const std::string &file) {
  context.loadDialect<plan::PlanDialect>();
  auto text = rt::readWholeFile(file);
  if (!text.ok())
    return text.status();
  OwningOpRef<ModuleOp> plan;
  const auto refuse = [&](const char *kind, std::string message, const char *rule) {
    return rt::userError(kind, std::move(message))
        .withGiven(file)
        .withRule(rule)
        .suggest("`cleave compile … --emit=plan` writes one");
  };
  constexpr const char *one = "a plan is an MLIR file with one plan.solution";
  if (const auto deep = findDeepNesting(*text, file))
    return rt::Error(refuse("plan.unreadable", "brackets are nested too deeply",
                            "no more than 512 brackets are open at a time"))
        .at(*deep);
  const ParserConfig asWritten(&context, /*verifyAfterParse=*/false);
  rt::Status read = withDiagnostics(context, [&] {
    plan = parseSourceString<ModuleOp>(*text, asWritten, file);
    return success(bool(plan));
  });
  if (!read.ok())
    return rt::Error(refuse("plan.unreadable", read.error().message, one)).at(read.error().where);
  int64_t solutions = 0;
  (*plan)->walk([&](plan::SolutionOp) { ++solutions; });
  if (solutions != 1 || !solutionOf(*plan))
    return refuse("plan.unreadable",
                  solutions ? "the file holds " + std::to_string(solutions) + " plan.solution"
                            : "the file holds no plan.solution",
                  one);
  rt::Status verified = withDiagnostics(context, [&] { return verify(*plan); });
  if (!verified.ok())
    return rt::Error(refuse("plan.invalid", verified.error().message,
                            "each entry of a plan is well formed, and there once"))
        .at(verified.error().where);
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

rt::StatusOr<OwningOpRef<ModuleOp>> pipePhase(ModuleOp plan) {
  MLIRContext &context = *plan.getContext();
  context.loadDialect<pipe::PipeDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(plan.getLoc());
  rt::Status written = withDiagnostics(context, [&] {
    OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
    return success(succeeded(writeSchedule(b, solutionOf(plan))) && succeeded(verify(*module)));
  });
  if (!written.ok())
    return written;
  return module;
}

rt::Status applyPhase(ModuleOp module, ModuleOp plan, const OptimizerSettings &optimizer) {
  plan::SolutionOp solution = solutionOf(plan);
  return withDiagnostics(*module.getContext(), [&]() -> LogicalResult {
    if (plan::entry<plan::PipelineOp>(solution)) {
      module.getContext()->loadDialect<pipe::PipeDialect>();
      OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
      if (failed(writeSchedule(b, solution)) || failed(cutStages(module, solution)))
        return failure();
    }
    for (ModuleOp program : programsOf(module)) {
      insertCasts(program, solution);
      if (failed(applyPlan(program, solution, optimizer)))
        return failure();
    }
    return verify(module);
  });
}

rt::Status distPhase(ModuleOp module) {
  return runPasses(module, [](OpPassManager &pm) {
    pm.addPass(createPropagateShardingsPass());
    pm.addPass(createInsertReshardsPass());
    pm.addPass(createNarrowMovesPass());
    pm.addPass(createPartitionPass());
    pm.addPass(createRunInBlocksPass());
    pm.addPass(createCSEPass());
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createDecideOverlapPass()); // of exchanges that are all still needed
  });
}

rt::Status execPhase(ModuleOp module, const cpu::Profile &profile) {
  rt::Status placed = runPasses(module, [](OpPassManager &pm) {
    pm.addPass(createWriteOutLayersPass()); // so that there is a next layer to run beside
    pm.addPass(createPlaceExchangesPass());
  });
  if (!placed.ok())
    return placed;
  return withDiagnostics(*module.getContext(), [&] {
    return success(succeeded(lowerToExec(module, profile)) && succeeded(verify(module)));
  });
}

} // namespace cleave
