//===- LowerToExecPass.cpp - The lowering alone, for cleave-opt ------------===//

#include "cleave/Target/Image/Image.h"
#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DECL_LOWERTOEXECPASS
#define GEN_PASS_DEF_LOWERTOEXECPASS
#define GEN_PASS_REGISTRATION
#include "lib/Target/Image/ImagePasses.h.inc"

namespace {
struct LowerToExec : impl::LowerToExecPassBase<LowerToExec> {
  using LowerToExecPassBase::LowerToExecPassBase;

  void runOnOperation() override {
    FailureOr<cpu::Profile> chosen = cpu::Profile::byName(profile);
    if (failed(chosen)) {
      getOperation().emitError("unknown instruction-set profile '") << profile << "'";
      return signalPassFailure();
    }
    if (failed(lowerToExec(getOperation(), *chosen)))
      signalPassFailure();
  }
};
} // namespace

void registerImagePasses() { registerLowerToExecPass(); }

} // namespace cleave
