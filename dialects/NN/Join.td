//===- Join.td - Parts of different sizes along the last dimension ---------===//
#ifndef CLEAVE_NN_JOIN
#define CLEAVE_NN_JOIN
include "dialects/NN/NNBase.td"

def NN_SplitOp : NN_ComputeOp<"split", [NN_Differentiable, NN_Fusable<[]>]> {
  let summary = "Consecutive parts of the last dimension, each under a name of its own";
  let description = [{
    The sizes of the parts add up to that of the dimension.

    ```mlir
    %plain, %turned = nn.split %q
      : (tensor<?x4x24xf32, #nn.dims<sequence, kv_head, key_dim>>)
      -> (tensor<?x4x16xf32, #nn.dims<sequence, kv_head, plain>>,
          tensor<?x4x8xf32, #nn.dims<sequence, kv_head, turned>>)
    ```
  }];
  let arguments = (ins NN_Tensor:$input);
  let results = (outs Variadic<NN_Tensor>:$parts);
  let hasVerifier = 1;
}

def NN_ConcatOp : NN_ComputeOp<"concat", [NN_Differentiable, NN_Fusable<["getFusionDims"]>]> {
  let summary = "Parts one behind the other along the last dimension, under one name: split back";
  let arguments = (ins Variadic<NN_Tensor>:$parts);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

#endif
