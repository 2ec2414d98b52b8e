//===- BuildImage.cpp - From exec to an image ------------------------------===//

#include "cleave/Target/Image/Image.h"
#include "cleave/Target/Image/Traffic.h"
#include "dialects/Pipe/Pipe.h"
#include "lib/Target/Image/WriteProgram.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
namespace cleave {

/// What is no matter of commands: the batch, and what is carried along for the log
/// and for exports.
static void describe(rt::Program &p, const ImageSettings &settings) {
  p.modelName = settings.modelName;
  p.profile = settings.profile.machine;
  p.device = settings.device;
  p.configText = settings.configText;
  p.recipe = settings.recipe;
  p.plan = settings.plan;
  for (const std::string &name : settings.dataAxes)
    for (auto [i, axis] : llvm::enumerate(p.mesh.axes))
      if (axis.name == name)
        p.batch.dataAxes.push_back(static_cast<int32_t>(i));
  p.batch.globalBatch = settings.globalBatch;
  p.batch.microBatch = settings.microBatch;
  p.batch.microBatches =
      settings.globalBatch / (settings.microBatch * p.mesh.sizeOf(p.batch.dataAxes));
  p.batch.sequence = settings.sequence;
  p.batch.vocabulary = settings.vocabulary;
  p.batch.zigzag = settings.zigzag;
  int64_t total = 0;
  for (const rt::Segment &segment : p.segments)
    total += segment.bytes * segment.copies;
  p.prediction.bytesPerRank = total;
  p.prediction.stepSeconds = settings.stepSeconds;
}

rt::StatusOr<CompiledImage> buildImage(ModuleOp module, const ImageSettings &settings) {
  CompiledImage image;
  std::optional<pipe::Table> table;
  for (auto schedule : module.getOps<pipe::ScheduleOp>())
    table = schedule.getTable();
  for (auto program : module.getOps<exec::ProgramOp>()) {
    image.image.programs.push_back(image::writeProgram(program, table ? &*table : nullptr));
    describe(image.image.programs.back(), settings);
  }
  setTraffic(image.image.programs, module);
  if (rt::Status valid = rt::validate(image.image); !valid.ok())
    return valid;
  image.kernels = ModuleOp::create(module.getLoc());
  for (auto kernel : llvm::make_early_inc_range(module.getOps<FunctionOpInterface>()))
    kernel->moveBefore(image.kernels->getBody(), image.kernels->getBody()->end());
  return image;
}

OwningOpRef<ModuleOp> withKernelsDeclared(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = ModuleOp::create(module.getLoc());
  (*copy)->setAttrs(module->getAttrs());
  OpBuilder b = OpBuilder::atBlockEnd(copy->getBody());
  for (Operation &op : *module.getBody()) {
    auto kernel = dyn_cast<FunctionOpInterface>(op);
    if (!kernel) {
      b.clone(op);
      continue;
    }
    Operation *declared = b.insert(op.cloneWithoutRegions());
    SymbolTable::setSymbolVisibility(declared, SymbolTable::Visibility::Private);
  }
  return copy;
}

} // namespace cleave
