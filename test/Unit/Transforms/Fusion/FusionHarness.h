//===- FusionHarness.h - Run a function by its kernels ----------*- C++ -*-===//
//
// Decides, outlines and compiles a function's kernels and runs them one after
// another, as a program would, with the checks of KernelHarness.h (outputs full
// of NaN, guard words, random cuts). Results are compared with the float64
// interpreter on the function as it was.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Transforms/Fusion/Fusion.h"
#include "test/Unit/NN/OpCase.h"

namespace cleave::test {

/// A function given as MLIR text: the operators of `@f`.
struct Fused {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module, kernels;
  mlir::func::FuncOp function;
  llvm::SmallVector<KernelGroup> groups;

  /// Names of the operators of each group, "nn.add nn.rms_norm".
  std::vector<std::string> groupNames() const;
};

/// Parses, decides and outlines `@f`; a test failure and no groups if it cannot.
Fused fuse(const std::string &text);
/// The same for a function that is built already.
void fuse(Fused &fused);

/// Runs the kernels on `arguments`, this rank being at `coordinate` along every
/// axis. Returns the function's results.
std::vector<HostTensor> runKernels(Fused &fused, const std::vector<HostTensor> &arguments,
                                   int64_t coordinate = 0);

/// Elements rounded to f32, so that both sides start from the same numbers.
std::vector<HostTensor> asFloats(std::vector<HostTensor> tensors);

/// Fuses `text`, runs it both ways on random operands and compares. Integer
/// arguments are drawn from [0, `integers`).
Fused expectSameAsInterpreter(const std::string &text, double tolerance, int64_t integers = 8);

} // namespace cleave::test
