//===- Interfaces.td - What an operator says about itself ------------------===//
//
// Everything that a pass may want to know of an operator. Passes are written
// against these and never name an operator.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_INTERFACES
#define CLEAVE_INTERFACES

include "mlir/IR/OpBase.td"

def ShardingRuleInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    How the operator may be split over ranks: its factors, which of them can be
    cut, and how to build the one-rank form once they are.
  }];
  let methods = [
    InterfaceMethod<"The factors of this operator; see ShardingRule.h.",
      "::cleave::ShardingRule", "getShardingRule">,
    InterfaceMethod<[{
        Builds this operator on one rank's blocks. `operands` are the local
        operands, `resultTypes` the local result types. The default clones the
        operator; override it where a rank must know its position or where a
        result is completed by an exchange.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildLocal",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::mlir::TypeRange":$resultTypes, "::cleave::LocalContext &":$context),
      "", [{
        ::mlir::OperationState state($_op->getLoc(), $_op->getName().getStringRef(), operands,
                                     resultTypes, $_op->getAttrs());
        ::mlir::Operation *local = builder.create(state);
        return ::llvm::SmallVector<::mlir::Value>(local->getResults());
      }]>,
  ];
}

def DifferentiableInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    Reverse-mode derivative. Gradients are built from operators that are
    operators like all others.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the gradient of every operand for which `wanted` is set, given
        the gradients of the results (a null Value: that result has none; at
        least one is there). Returns one Value for each operand, null where it
        was not wanted or is zero.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGradients,
           "::llvm::ArrayRef<bool>":$wanted)>,
  ];
}

def InterpretableInterface : OpInterface<"InterpretableOpInterface"> {
  let cppNamespace = "::cleave";
  let description = "The operator's meaning, in float64, one rank at a time.";
  let methods = [
    InterfaceMethod<[{
        Computes the results from the operands. `results` come with the shapes
        of the static result types and hold NaN.
      }],
      "::llvm::LogicalResult", "interpret",
      (ins "::llvm::ArrayRef<const ::cleave::HostTensor *>":$operands,
           "::llvm::MutableArrayRef<::cleave::HostTensor>":$results)>,
  ];
}

def CollectiveInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    An exchange between ranks: its meaning needs the operands of all of them.
  }];
  let methods = [
    InterfaceMethod<[{
        Computes the results of every rank from the operands of every rank. The
        results come with the shapes of the static result types.
      }],
      "::llvm::LogicalResult", "interpretRanks",
      (ins "::llvm::ArrayRef<::llvm::SmallVector<const ::cleave::HostTensor *>>":$operands,
           "::llvm::MutableArrayRef<::llvm::SmallVector<::cleave::HostTensor>>":$results)>,
  ];
}

#endif
