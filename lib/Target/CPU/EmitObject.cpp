//===- EmitObject.cpp - LLVM dialect to an ELF object ---------------------===//

#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;

namespace cleave::cpu {

static std::unique_ptr<llvm::TargetMachine> createMachine(const Profile &profile,
                                                          std::string &error) {
  // LLVM's own list of targets is global and not guarded: add to it once.
  static const bool registered = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  if (!registered)
    return nullptr;
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // A multiply and an add are only fused where the kernel says so: results must
  // not depend on which version of a loop an element falls into.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, profile.cpu, profile.features, options, llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopUnrolling = true;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

FailureOr<std::unique_ptr<llvm::MemoryBuffer>> compileObject(ModuleOp module,
                                                             const Profile &profile) {
  bool lowered = llvm::all_of(
      module.getOps(), [](Operation &op) { return isa<LLVM::LLVMDialect>(op.getDialect()); });
  if (!lowered && failed(lowerKernels(module, profile)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, context, "kernels");
  if (!code)
    return module.emitError("cannot be translated to LLVM IR");
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(profile, error);
  if (!machine)
    return module.emitError("no x86-64 code generator: ") << error;
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *code) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", profile.cpu);
    function.addFnAttr("target-features", profile.features);
    if (profile.lanes == 16)
      function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  optimize(*code, *machine);

  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return module.emitError("the x86-64 code generator cannot write objects");
  passes.run(*code);
  return std::unique_ptr<llvm::MemoryBuffer>(std::make_unique<llvm::SmallVectorMemoryBuffer>(
      std::move(bytes), "kernels.o", /*RequiresNullTerminator=*/false));
}

} // namespace cleave::cpu
