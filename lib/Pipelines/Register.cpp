//===- Register.cpp - Everything Cleave knows, for tools -------------------===//

#include "cleave/Pipelines/Register.h"

#include "cleave/Interpreter/Passes.h"
#include "cleave/Planner/Passes.h"
#include "cleave/Target/CPU/KernelCompiler.h"
#include "cleave/Target/Image/Image.h"
#include "cleave/Transforms/ApplyPlan/Passes.h"
#include "cleave/Transforms/Autodiff/Passes.h"
#include "cleave/Transforms/Blocks/Blocks.h"
#include "cleave/Transforms/Fusion/Fusion.h"
#include "cleave/Transforms/Overlap/Overlap.h"
#include "cleave/Transforms/Pipeline/Pipeline.h"
#include "cleave/Transforms/Precision/Precision.h"
#include "cleave/Transforms/Sharding/Sharding.h"
#include "cleave/Transforms/Sizes/Sizes.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "dialects/Pipe/Pipe.h"
#include "dialects/Plan/Plan.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"

void cleave::registerAllDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<nn::NNDialect, dist::DistDialect, plan::PlanDialect, pipe::PipeDialect,
                  exec::ExecDialect>();
}

void cleave::registerAllPasses() {
  mlir::registerAllPasses();
  registerInterpreterPasses();
  registerApplyPlanPasses();
  registerAutodiffPasses();
  registerFusionPasses();
  registerPipelinePasses();
  registerPlannerPasses();
  registerPrecisionPasses();
  registerShardingPasses();
  registerBlocksPasses();
  registerOverlapPasses();
  registerSizesPasses();
  cpu::registerKernelPasses();
  registerImagePasses();
}
