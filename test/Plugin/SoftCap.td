//===- SoftCap.td - Operators that Cleave does not know ---------------------===//
//
// What operators need that live outside the tree: this file and SoftCap.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef EXT_SOFTCAP
#define EXT_SOFTCAP
include "mlir/Interfaces/InferTypeOpInterface.td"
include "dialects/NN/NNBase.td"

def Ext_Dialect : Dialect {
  let name = "ext";
  let cppNamespace = "::ext";
  let summary = "Operators of a plugin";
  let dependentDialects = ["::cleave::nn::NNDialect"];
}

def Ext_SoftCapOp : Op<Ext_Dialect, "softcap", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<ShardingRuleInterface>,
    DeclareOpInterfaceMethods<InterpretableInterface>, NN_Differentiable]> {
  let summary = "cap · tanh(x / cap): values that cannot leave (−cap, cap)";
  let arguments = (ins NN_Tensor:$input, F64Attr:$cap);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Ext_ScaleSumOp : Op<Ext_Dialect, "scale_sum", [Pure,
    DeclareOpInterfaceMethods<ShardingRuleInterface>,
    DeclareOpInterfaceMethods<InterpretableInterface>, NN_Differentiable]> {
  let summary = "scale · Σ x over the dimensions that the result lacks";
  let arguments = (ins NN_Tensor:$input, F64Attr:$scale);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $result)";
  let hasVerifier = 1;
}

def Ext_RowMaxOp : Op<Ext_Dialect, "row_max", [Pure,
    DeclareOpInterfaceMethods<ShardingRuleInterface>,
    DeclareOpInterfaceMethods<InterpretableInterface>]> {
  let summary = "Largest element along the last dimension";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $result)";
}

#endif
