//===- Routing.td - Which experts a token goes to --------------------------===//
#ifndef CLEAVE_NN_ROUTING
#define CLEAVE_NN_ROUTING
include "dialects/NN/NNBase.td"

def NN_SoftmaxOp : NN_ComputeOp<"softmax", [NN_Differentiable, NN_Fusable<["getFusionDims"]>]> {
  let summary = "exp(x) / Σ exp(x) over the last dimension";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_SoftmaxGradOp : NN_ComputeOp<"softmax_grad", [NN_Fusable<["getFusionDims"]>]> {
  let summary = "Gradient of softmax from its result y: y · (dy − Σ y · dy)";
  let arguments = (ins NN_Tensor:$result, NN_Tensor:$gradient);
  let results = (outs NN_Tensor:$inputGradient);
  let hasVerifier = 1;
}

def NN_TopKOp : NN_ComputeOp<"top_k", [NN_Fusable<["getFusionDims"]>]> {
  let summary = "Where the largest elements along the last dimension are, largest first";
  let description = [{
    As many as the last dimension of the result has; of equal elements the first comes
    first. Always indices of the dimension, even of rows that hold NaN.

    ```mlir
    %i = nn.top_k %scores : (tensor<?x8xf32, #nn.dims<sequence, expert>>)
                         -> tensor<?x2xi32, #nn.dims<sequence, choice>>
    ```
  }];
  let arguments = (ins NN_Tensor:$scores);
  let results = (outs NN_Tensor:$indices);
  let hasVerifier = 1;
}

def NN_PickOp : NN_ComputeOp<"pick", [NN_Differentiable, NN_Fusable<["getFusionDims"]>]> {
  let summary = "Elements of the last dimension by index";
  let description = [{
    `input` has the dimensions of the indices, but for its own last one. An index
    outside of it gives zero.
  }];
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$indices);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_PlaceOp : NN_ComputeOp<"place", [NN_Differentiable, NN_Fusable<["getFusionDims"]>]> {
  let summary = "Elements added up at their indices of the last dimension: pick's gradient";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$indices);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_KeepGroupsOp : NN_ComputeOp<"keep_groups", [NN_Fusable<["getFusionDims"]>]> {
  let summary = "Scores of the best groups of the last dimension, zeros for the others";
  let description = [{
    The last dimension consists of `groups` equal groups. A group is worth the sum of its
    `take` largest scores; the `keep` best groups are kept, of equal ones the first.
  }];
  let arguments = (ins NN_Tensor:$scores, I64Attr:$groups, I64Attr:$keep, I64Attr:$take);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_NormalizeOp : NN_ComputeOp<"normalize", [NN_Differentiable, NN_Fusable<["getFusionDims"]>]> {
  let summary = "x / (Σ x + eps) over the last dimension";
  let arguments = (ins NN_Tensor:$input, F64Attr:$eps);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_NormalizeGradOp : NN_ComputeOp<"normalize_grad", [NN_Fusable<["getFusionDims"]>]> {
  let summary = "Gradient of normalize: (dy − Σ dy · x / s) / s, s = Σ x + eps";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$gradient, F64Attr:$eps);
  let results = (outs NN_Tensor:$inputGradient);
  let hasVerifier = 1;
}

def NN_CountPicksOp : NN_ComputeOp<"count_picks", [NN_Fusable<[]>]> {
  let summary = "How often each index of a dimension is picked, as floats";
  let description = "Of any number of indices (i32); those that are no index are not counted.";
  let arguments = (ins NN_Tensor:$indices);
  let results = (outs NN_Tensor:$counts);
  let hasVerifier = 1;
}

#endif
