//===- ShimHarness.h - run emitted CUDA text on the CPU ---------*- C++ -*-===//
//
// Emits the kernels of a module, compiles the text with the SIMT shim into a
// library and runs single kernels of it, with outputs full of NaN and guard words
// behind every buffer. Results are compared with the float64 reference.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ShimLibrary.h"
#include "cleave/Target/CUDA/EmitText.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cleave::test {

/// Everything a kernel module's text needs to be parsed.
std::unique_ptr<mlir::MLIRContext> kernelContext();

class ShimModule {
public:
  using Change = std::function<std::string(std::string)>;
  /// Emits and builds; `change` may spoil the text first. A test failure and !ok()
  /// if that is not possible.
  explicit ShimModule(mlir::ModuleOp kernels, const Change &change = nullptr);

  bool ok() const { return library.ok(); }
  const cuda::Text &text() const { return emitted; }

  /// What is wrong with a run of `kernel` on random arguments against the reference;
  /// empty if nothing.
  std::string check(mlir::func::FuncOp kernel, unsigned seed) const;

private:
  cuda::Text emitted;
  ShimLibrary library;
};

} // namespace cleave::test
