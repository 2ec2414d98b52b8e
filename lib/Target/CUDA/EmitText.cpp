//===- EmitText.cpp - a module of kernels as one CUDA source --------------===//

#include "cleave/Target/CUDA/EmitText.h"
#include "KernelText.h"
#include "cleave/Target/Kernel/Contract.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave::cuda {

/// Names of model parts and operators in the location of a kernel's ops.
static void collectPaths(func::FuncOp func, llvm::SetVector<StringRef> &paths) {
  func->walk([&](Operation *op) {
    op->getLoc()->walk([&](Location loc) {
      if (auto name = dyn_cast<NameLoc>(loc))
        paths.insert(name.getName().strref());
      return WalkResult::advance();
    });
  });
}

static std::string teamText(const Kernel &kernel, const Geometry &geometry) {
  std::string rows = std::to_string(kernel.space) + " rows, ";
  switch (geometry.team) {
  case Team::Grid:
    return "elements, over the whole grid";
  case Team::Thread:
    return rows + "one for each thread";
  case Team::Column:
    return rows + "each shared by " + std::to_string(geometry.teamSize) +
           " threads, neighbours side by side";
  case Team::Warp:
    return rows + "one for each warp";
  case Team::Block:
    return rows + "one for each block";
  }
  return rows;
}

static std::string commentOf(const Kernel &kernel, const Geometry &geometry) {
  llvm::SetVector<StringRef> paths;
  collectPaths(kernel.func, paths);
  std::string comment;
  for (StringRef path : paths)
    comment += "// " + path.str() + "\n";
  return comment + "// " + teamText(kernel, geometry) + "\n// <<<" +
         std::to_string(geometry.blocks) + ", " + std::to_string(geometry.threads) + ">>>\n";
}

static LogicalResult appendKernel(func::FuncOp func, Text &result) {
  if (failed(normalizeKernel(func)))
    return failure();
  PlanSettings settings;
  settings.lanes = 32; // a warp
  settings.rowBytes = kSharedBytes;
  FailureOr<std::unique_ptr<Kernel>> kernel = Kernel::plan(func, settings);
  if (failed(kernel))
    return failure();
  KernelText text(**kernel);
  FailureOr<std::string> source = text.write();
  if (failed(source))
    return failure();
  const Geometry &geometry = text.launchGeometry();
  result.source += "\n" + commentOf(**kernel, geometry) + *source;
  result.launches.push_back({func.getName().str(), geometry.blocks, geometry.threads});
  return success();
}

/// A table for programs that are compiled together with the kernels.
static std::string launchTable(ArrayRef<Launch> launches) {
  if (launches.empty())
    return "";
  std::string text =
      "\n#ifndef __CUDACC_RTC__\nstruct KernelLaunch {\n  const char *kernel;\n"
      "  long long blocks;\n  int threads;\n};\n"
      "extern const KernelLaunch kernelLaunches[];\nconst KernelLaunch kernelLaunches[] = {\n";
  for (const Launch &launch : launches)
    text += "    {\"" + launch.kernel + "\", " + std::to_string(launch.blocks) + ", " +
            std::to_string(launch.threads) + "},\n";
  return text + "};\n#endif\n";
}

FailureOr<Text> emitCuda(ModuleOp kernels, const Text &own) {
  OwningOpRef<ModuleOp> module = kernels.clone();
  // What passes and the planner say becomes the note of one error.
  std::string reason;
  auto unsupported = [&](const Twine &what) {
    std::string text = "emit.cuda_unsupported: " + what.str();
    emitError(kernels.getLoc()) << text << (reason.empty() ? "" : ": ") << reason;
    return failure();
  };
  auto quietly = [&](function_ref<LogicalResult()> work) {
    ScopedDiagnosticHandler handler(kernels.getContext(), [&](Diagnostic &diagnostic) {
      if (reason.empty())
        reason = diagnostic.str();
      return success();
    });
    return work();
  };
  Text result;
  std::string others;
  for (func::FuncOp func : llvm::make_early_inc_range(module->getOps<func::FuncOp>()))
    if (!func->hasAttr(kOutputsAttr) || func.isDeclaration()) {
      others += "// " + func.getName().str() + ": not fused from operators, a kernel of its own\n";
      func.erase();
    }
  PassManager pm(kernels.getContext());
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());
  if (failed(quietly([&] { return pm.run(*module); })))
    return unsupported("the kernels cannot be simplified");
  for (func::FuncOp func : module->getOps<func::FuncOp>())
    if (failed(quietly([&] { return appendKernel(func, result); })))
      return unsupported("kernel '" + func.getName() + "' cannot be printed");
  result.launches.insert(result.launches.end(), own.launches.begin(), own.launches.end());
  result.source = "// Fused kernels. Buffers are dense, row-major and aligned to 16 bytes.\n\n" +
                  preludeText().str() + (others.empty() ? "" : "\n// Not here:\n" + others) +
                  result.source + own.source + launchTable(result.launches);
  return result;
}

FailureOr<std::string> emitCudaText(ModuleOp kernels) {
  FailureOr<Text> text = emitCuda(kernels);
  if (failed(text))
    return failure();
  return std::move(text->source);
}

} // namespace cleave::cuda
