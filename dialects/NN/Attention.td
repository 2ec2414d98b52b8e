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
    stay as they are. `inverse` rotates back, which is also the gradient. With
    `interleaved` the pairs are (2i, 2i + 1).
  }];
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$positions,
                       DenseF64ArrayAttr:$frequencies, UnitAttr:$inverse, UnitAttr:$interleaved);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_AttentionOp : NN_PlacedOp<"attention", [NN_Differentiable,
    DeclareOpInterfaceMethods<LibraryKernelInterface>,
    DeclareOpInterfaceMethods<MixedPrecisionInterface, ["canRound"]>,
    DeclareOpInterfaceMethods<TokenOrderInterface>]> {
  let summary = "Causal softmax attention with grouped queries";
  let description = [{
    `query` [batch, sequence, kv_head, group, head_dim] (no `group`: every query
    head has its own key and value head), `key` and `value` [batch, sequence,
    kv_head, head_dim]. Values of another width than keys have `value_dim` for their
    last dimension, as the result then has. A query at position p attends to keys at
    positions ≤ p, of these with a `window` to the last `window` alone (above
    p - window). Scores are multiplied by `scale`, then with a `cap` bounded:
    cap · tanh(score / cap). `lse` is the log-sum-exp of each row of scores.

    `extra` are positions, sinks, or positions and then sinks.

    Positions are those of the queries and those of the keys, [batch, sequence]
    each; then queries and keys may stand in any order, and may be of different
    numbers. A query that sees no key yields zeros, and (without sinks) an `lse` that
    means nothing. Without them the row is the position. `ordered` says that they are
    the rows' numbers, so that a rank with whole sequences needs none.

    Sinks [kv_head, group] are a further score of every row of their head, whose value
    is zero: they are in the log-sum-exp and draw weight from the keys.

    The queries can be cut along `sequence` if there are positions; keys and values
    (factor `key_sequence`) are needed whole.

    Query, key and value are of one type, f32 or bf16; scores, their sums and `lse` are f32
    in either case.
  }];
  let arguments = (ins NN_Tensor:$query, NN_Tensor:$key, NN_Tensor:$value,
                       Variadic<NN_Tensor>:$extra, F64Attr:$scale,
                       OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$cap,
                       UnitAttr:$ordered);
  let results = (outs NN_Tensor:$result, NN_Tensor:$lse);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Those of queries and of keys, or none.
    ::mlir::OperandRange getPositions();
    /// Null if there are none.
    ::mlir::Value getSinks();
  }];
}

def NN_AttentionGradOp : NN_PlacedOp<"attention_grad",
    [DeclareOpInterfaceMethods<LibraryKernelInterface>,
     DeclareOpInterfaceMethods<MixedPrecisionInterface>,
     DeclareOpInterfaceMethods<TokenOrderInterface>]> {
  let summary = "Gradient of attention with respect to query, key and value";
  let description = "With sinks these are in `lse`, and what is done is the same.";
  let arguments = (ins NN_Tensor:$query, NN_Tensor:$key, NN_Tensor:$value, NN_Tensor:$result,
                       NN_Tensor:$lse, NN_Tensor:$gradient, Variadic<NN_Tensor>:$positions,
                       F64Attr:$scale, OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$cap,
                       UnitAttr:$ordered);
  let results = (outs NN_Tensor:$queryGradient, NN_Tensor:$keyGradient, NN_Tensor:$valueGradient);
  let hasVerifier = 1;
}

def NN_AttentionSinkGradOp : NN_ComputeOp<"attention_sink_grad", [NN_Fusable<[]>]> {
  let summary = "Gradient of attention with respect to its sinks: −Σ exp(sink − lse) · share";
  let description = [{
    Summed over the rows of each head; `share` is Σ result · gradient over the values of a
    row.
  }];
  let arguments = (ins NN_Tensor:$sinks, NN_Tensor:$lse, NN_Tensor:$share);
  let results = (outs NN_Tensor:$sinkGradient);
  let hasVerifier = 1;
}

#endif
