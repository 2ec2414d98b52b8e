//===- Vocabulary.td - Embedding and cross entropy -------------------------===//
#ifndef CLEAVE_NN_VOCABULARY
#define CLEAVE_NN_VOCABULARY
include "dialects/NN/NNBase.td"

def NN_EmbeddingOp : NN_PlacedOp<"embedding", [NN_Differentiable, NN_Fusable<["needsWholeOperand"]>]> {
  let summary = "Rows of a table by index";
  let description = [{
    Row `ids − offset` of `table` for each id; an id outside the table gives
    zeros. `offset` (0 if absent) is set where a rank holds a block of rows.
  }];
  let arguments = (ins NN_Tensor:$table, NN_Tensor:$ids, Optional<NN_Tensor>:$offset);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_EmbeddingGradOp : NN_PlacedOp<"embedding_grad", [NN_Fusable<["getFusionDims"]>]> {
  let summary = "Gradient of embedding with respect to the table: rows added up by index";
  let arguments = (ins NN_Tensor:$ids, NN_Tensor:$gradient, Optional<NN_Tensor>:$offset);
  let results = (outs NN_Tensor:$tableGradient);
  let hasVerifier = 1;
}

def NN_CrossEntropyOp : NN_PlacedOp<"cross_entropy", [NN_Differentiable, NN_Fusable<[]>,
    NN_Blockwise<["buildBlocksStart", "buildBlocksEnd"]>]> {
  let summary = "Softmax cross entropy of each token over the last dimension of the logits";
  let description = [{
    `loss` = lse − logits[target], 0 where the target is negative (a token that
    does not count). With the vocabulary cut, ranks exchange (max, sum, target
    logit).
  }];
  let arguments = (ins NN_Tensor:$logits, NN_Tensor:$targets);
  let results = (outs NN_Tensor:$loss, NN_Tensor:$lse);
  let hasVerifier = 1;
}

def NN_CrossEntropyPartialOp : NN_ComputeOp<"cross_entropy_partial", [NN_Fusable<[]>,
    NN_Blockwise<["buildBlocksStart"]>]> {
  let summary = "Share of a cross entropy: max, sum of exp(x − max), target's logit";
  let description = [{
    Of the columns of `logits`, the first of which has the sum of the offsets as its
    index. After the offsets (i32) may come the same three of other columns (f32),
    which are then taken together with these.
  }];
  let arguments = (ins NN_Tensor:$logits, NN_Tensor:$targets, Variadic<NN_Tensor>:$others);
  let results = (outs NN_Tensor:$max, NN_Tensor:$sum, NN_Tensor:$target);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ValueRange getOffsets();
    ::mlir::ValueRange getBefore() { return getOthers().drop_front(getOffsets().size()); }
  }];
}

def NN_RescaleSumOp : NN_ComputeOp<"rescale_sum", [NN_Fusable<[]>]> {
  let summary = "sum · exp(max − newMax): a sum of exponentials under another maximum";
  let arguments = (ins NN_Tensor:$sum, NN_Tensor:$max, NN_Tensor:$newMax);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_CrossEntropyCombineOp : NN_ComputeOp<"cross_entropy_combine", [NN_Fusable<[]>]> {
  let summary = "Loss and log-sum-exp of each token from (max, sum, target logit)";
  let arguments = (ins NN_Tensor:$max, NN_Tensor:$sum, NN_Tensor:$target, NN_Tensor:$targets);
  let results = (outs NN_Tensor:$loss, NN_Tensor:$lse);
  let hasVerifier = 1;
}

def NN_CrossEntropyGradOp : NN_PlacedOp<"cross_entropy_grad", [NN_Fusable<[]>, NN_Blockwise<>]> {
  let summary = "Gradient of cross_entropy: (softmax − onehot(target)) · gradient";
  let description = "The first column has the sum of `offsets` as its index.";
  let arguments = (ins NN_Tensor:$logits, NN_Tensor:$targets, NN_Tensor:$lse,
                       NN_Tensor:$gradient, Variadic<NN_Tensor>:$offsets);
  let results = (outs NN_Tensor:$logitsGradient);
  let hasVerifier = 1;
}

def NN_CountValidOp : NN_ComputeOp<"count_valid", [NN_Fusable<[]>]> {
  let summary = "The number of targets that are not negative, as a float scalar";
  let arguments = (ins NN_Tensor:$targets);
  let results = (outs NN_Tensor:$count);
  let hasVerifier = 1;
}

#endif
