//===- MapLaunches.cpp - a program's kernels on a GPU ----------------------===//

#include "cleave/Target/CUDA/MapLaunches.h"
#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace cleave::cuda {

FailureOr<Text> mapLaunches(ModuleOp module) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  for (func::FuncOp kernel : module.getOps<func::FuncOp>())
    builder.clone(*kernel);
  FailureOr<Text> text = emitCuda(*kernels);
  if (failed(text))
    return failure();
  llvm::StringMap<const Launch *> grids;
  for (const Launch &launch : text->launches)
    grids[launch.kernel] = &launch;
  module.walk([&](exec::LaunchOp op) {
    const auto it = grids.find(op.getKernel());
    if (it == grids.end())
      return;
    op.setExtent(it->second->blocks);
    op.setGrain(1);
    op.setThreads(it->second->threads);
  });
  return text;
}

} // namespace cleave::cuda
