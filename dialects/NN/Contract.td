//===- Contract.td - Contractions, sums, stacks ----------------------------===//
#ifndef CLEAVE_NN_CONTRACT
#define CLEAVE_NN_CONTRACT
include "dialects/NN/NNBase.td"

def NN_ContractOp : NN_ComputeOp<"contract", [NN_Differentiable,
    DeclareOpInterfaceMethods<ContractionInterface>,
    DeclareOpInterfaceMethods<MixedPrecisionInterface>]> {
  let summary = "Sum of products over the dimensions that the result lacks";
  let description = [{
    Every linear layer and every gradient of one. A dimension of either operand
    that the result lacks is summed over and must be in both operands.

    ```mlir
    %y = nn.contract %x, %w : (tensor<?x?x64xf32, #nn.dims<batch, sequence, model>>,
                               tensor<128x64xf32, #nn.dims<ffn, model>>)
                           -> tensor<?x?x128xf32, #nn.dims<batch, sequence, ffn>>
    ```
  }];
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_SumOp : NN_ComputeOp<"sum", [NN_Differentiable, NN_Fusable<["buildStages"]>]> {
  let summary = "Sum over the dimensions that the result lacks";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_UnstackOp : NN_ComputeOp<"unstack", [NN_Differentiable, NN_Fusable<[]>]> {
  let summary = "The slices of a tensor along one dimension";
  let description = [{
    Splits `input` along `dim`, which may be neither the name of a cut
    dimension nor be left in the results: result i is the slice at index i.
  }];
  let arguments = (ins NN_Tensor:$input, StrAttr:$dim);
  let results = (outs Variadic<NN_Tensor>:$parts);
  let hasVerifier = 1;
}

def NN_StackOp : NN_ComputeOp<"stack", [NN_Differentiable, NN_Fusable<[]>]> {
  let summary = "Tensors of one type, as slices along a new dimension";
  let arguments = (ins Variadic<NN_Tensor>:$parts, StrAttr:$dim);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_ConstantOp : NN_ComputeOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "A tensor whose elements are written down";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
}

def NN_FillOp : NN_ComputeOp<"fill", [NN_Fusable<[]>]> {
  let summary = "A tensor of one value";
  let arguments = (ins F64Attr:$value);
  let results = (outs NN_Tensor:$result);
}

#endif
