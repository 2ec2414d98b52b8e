//===- Programs.cpp - What ranks run, as a whole ---------------------------===//

#include "lib/Target/Image/Programs.h"
#include "dialects/Dist/Dist.h"
#include "lib/Target/Image/Precondition.h"

using namespace mlir;
namespace cleave::image {

func::FuncOp functionOf(ModuleOp module, exec::EntryKind kind, int64_t stage) {
  std::string name = stringifyEntryKind(kind).str();
  if (stage >= 0)
    name += "." + std::to_string(stage);
  return module.lookupSymbol<func::FuncOp>(name);
}

exec::ProgramOp createProgram(ModuleOp module) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto mesh = *module.getOps<dist::MeshOp>().begin();
  auto program = exec::ProgramOp::create(b, module.getLoc(), mesh.getSymName(),
                                         module->getAttrOfType<IntegerAttr>("pipe.index"),
                                         module->getAttrOfType<ArrayAttr>("pipe.axes"));
  b.createBlock(&program.getBody());
  auto add = [&](exec::EntryKind kind, IntegerAttr stage = {}) {
    auto entry = exec::EntryOp::create(b, module.getLoc(), kind, stage);
    entry.getBody().emplaceBlock();
  };
  add(exec::EntryKind::Begin);
  add(exec::EntryKind::Count);
  if (functionOf(module, exec::EntryKind::Survey, -1))
    add(exec::EntryKind::Survey);
  add(exec::EntryKind::Prepare);
  if (!program.getPart())
    add(exec::EntryKind::Microbatch);
  if (functionOf(module, exec::EntryKind::Last, -1))
    add(exec::EntryKind::Last);
  for (int64_t stage : stagesOf(module))
    for (auto kind : {exec::EntryKind::Survey, exec::EntryKind::Forward, exec::EntryKind::Backward,
                      exec::EntryKind::Weights, exec::EntryKind::Last, exec::EntryKind::Evaluate})
      if (functionOf(module, kind, stage))
        add(kind, b.getI64IntegerAttr(stage));
  add(exec::EntryKind::Update);
  add(exec::EntryKind::Evaluate);
  return program;
}

void addKernels(ModuleOp kernels, ModuleOp module) {
  SymbolTable there(module);
  llvm::DenseMap<StringAttr, StringAttr> renamed;
  for (Operation &kernel : llvm::make_early_inc_range(*kernels.getBody())) {
    StringAttr name = SymbolTable::getSymbolName(&kernel);
    kernel.remove();
    there.insert(&kernel); // under another name where it must
    if (StringAttr own = SymbolTable::getSymbolName(&kernel); own != name)
      renamed[name] = own;
  }
  module.walk([&](exec::LaunchOp launch) {
    if (auto it = renamed.find(launch.getKernelAttr().getAttr()); it != renamed.end())
      launch.setKernelAttr(FlatSymbolRefAttr::get(it->second));
  });
}

} // namespace cleave::image
