//===- OpCase.h - One operator with shapes, ready to be run ----------------===//
//
// The tests of operators are written against the interfaces, as passes are: a
// case names an operator, its types and attributes; the harness builds a
// function around it and runs it in float64.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Interpreter/Interpreter.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace cleave::test {

/// Types are written as dimensions, `"batch=2 sequence=3"`; the empty string is
/// a scalar. A first word says what an operand may hold: `int:LO:HI` (an i32
/// tensor, bounds included), `positive`, `bf16`; without it, floats in [-1.5, 1.5).
struct OpCase {
  std::string op;
  std::vector<std::string> operands, results;
  /// As in IR, `{eps = 1.0e-5 : f64}`.
  std::string attributes = "{}";
};

/// How GoogleTest shows a case.
void PrintTo(const OpCase &c, std::ostream *os);

/// For GoogleTest: `nn_contract_3`, unique by the position in its list.
std::string caseName(const OpCase &c, size_t index);

/// Every operator of the nn dialect that can be interpreted, over odd shapes.
const std::vector<OpCase> &allCases();

/// A context with the dialects that the harness builds with.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// `@f`: the operator on the function's arguments, its results returned.
struct Program {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  mlir::Operation *op = nullptr;
};

/// Builds and verifies; a case that does not verify yields a null `op`.
Program buildProgram(mlir::MLIRContext &context, const OpCase &c);

/// A function `@name` of the given arguments in `module`, its body open.
mlir::func::FuncOp openFunction(mlir::ModuleOp module, llvm::StringRef name,
                                mlir::TypeRange arguments);
/// Ends the body with a return of `values` and sets the signature.
void closeFunction(mlir::func::FuncOp function, mlir::ValueRange values);

/// Values for the operands, the same for the same seed.
std::vector<HostTensor> randomOperands(const OpCase &c, unsigned seed);
/// A tensor of floats in [-1.5, 1.5).
HostTensor randomTensor(llvm::ArrayRef<int64_t> shape, unsigned seed);

/// Runs on one rank; an empty list (and a test failure) if it cannot.
std::vector<HostTensor> run(mlir::func::FuncOp function, const std::vector<HostTensor> &arguments);

/// Builds the case and runs it on `operands`.
std::vector<HostTensor> runCase(const OpCase &c, const std::vector<HostTensor> &operands);

/// Fails the test unless all elements agree to `tolerance`, relative to 1 + |want|.
void expectClose(const HostTensor &got, const HostTensor &want, double tolerance,
                 const std::string &what);

} // namespace cleave::test
