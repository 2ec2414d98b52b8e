//===- Attention.td - Rotary embedding and attention -----------------------===//
#ifndef CLEAVE_NN_ATTENTION
#define CLEAVE_NN_ATTENTION
include "dialects/NN/NNBase.td"

def NN_RopeOp : NN_ComputeOp<"rope", [NN_Differentiable, NN_Fusable<["getFusionDims", "getBodyInputs"]>]> {
  let summary = "Rotary position embedding, half layout";
  let description = [{
    Rotates the pairs (i, i + n) of the last dimension by the angle
    `position · frequencies[i]`, i < n; the n `frequencies` hold every kind of
    rope scaling already. 2n divides the dimension's size, and values from 2n on
    stay as they are. `inverse` rotates back, which is also the gradient.
  }];
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$positions,
                       DenseF64ArrayAttr:$frequencies, UnitAttr:$inverse);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_AttentionOp : NN_ComputeOp<"attention", [NN_Differentiable,
    DeclareOpInterfaceMethods<LibraryKernelInterface>]> {
  let summary = "Causal softmax attention with grouped queries";
  let description = [{
    `query` [batch, sequence, kv_head, group, head_dim] (no `group`: every query
    head has its own key and value head), `key` and `value` [batch, sequence,
    kv_head, head_dim]. Position i attends to positions j ≤ i, of these with a
    `window` to the last `window` alone (i - window < j). Scores are multiplied
    by `scale`, then with a `cap` bounded: cap · tanh(score / cap). `lse` is the
    log-sum-exp of each row of scores.
  }];
  let arguments = (ins NN_Tensor:$query, NN_Tensor:$key, NN_Tensor:$value, F64Attr:$scale,
                       OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$cap);
  let results = (outs NN_Tensor:$result, NN_Tensor:$lse);
  let hasVerifier = 1;
}

def NN_AttentionGradOp : NN_ComputeOp<"attention_grad",
    [DeclareOpInterfaceMethods<LibraryKernelInterface>]> {
  let summary = "Gradient of attention with respect to query, key and value";
  let arguments = (ins NN_Tensor:$query, NN_Tensor:$key, NN_Tensor:$value, NN_Tensor:$result,
                       NN_Tensor:$lse, NN_Tensor:$gradient, F64Attr:$scale,
                       OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$cap);
  let results = (outs NN_Tensor:$queryGradient, NN_Tensor:$keyGradient, NN_Tensor:$valueGradient);
  let hasVerifier = 1;
}

#endif
