//===- Optimizer.td - Gradient norm and AdamW ------------------------------===//
#ifndef CLEAVE_NN_OPTIMIZER
#define CLEAVE_NN_OPTIMIZER
include "dialects/NN/NNBase.td"

def NN_SumSquaresOp : NN_ComputeOp<"sum_squares", [NN_Fusable<["buildStages"]>]> {
  let summary = "Σ x² over the dimensions that the result lacks";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_ClipScaleOp : NN_ComputeOp<"clip_scale", [NN_Fusable<[]>]> {
  let summary = "Norm and clipping factor from a sum of squares";
  let description = [{
    `norm` = √total; `scale` = min(1, max_norm / (norm + 1e-6)), as
    torch.nn.utils.clip_grad_norm_; without `max_norm`, 1.
  }];
  let arguments = (ins NN_Tensor:$total, OptionalAttr<F64Attr>:$max_norm);
  let results = (outs NN_Tensor:$norm, NN_Tensor:$scale);
  let hasVerifier = 1;
}

def NN_ReciprocalOp : NN_ComputeOp<"reciprocal", [NN_Fusable<[]>]> {
  let summary = "1/x of a scalar, 0 where x is 0 (a step without a valid token)";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_AdamWOp : NN_ComputeOp<"adamw", [NN_Fusable<["getInPlaceOperand"]>]> {
  let summary = "One AdamW step with decoupled weight decay";
  let description = [{
    With g = gradient · scale: m = β₁m + (1−β₁)g; v = β₂v + (1−β₂)g²;
    p = p·(1 − rate·weight_decay) − rate · (m/correction1) / (√(v/correction2) + eps),
    where correctionᵢ = 1 − βᵢᵗ. (Loshchilov and Hutter, arXiv 1711.05101;
    the order of operations of torch.optim.AdamW.)
  }];
  let arguments = (ins NN_Tensor:$value, NN_Tensor:$gradient, NN_Tensor:$moment1,
                       NN_Tensor:$moment2, NN_Tensor:$scale, NN_Tensor:$rate,
                       NN_Tensor:$correction1, NN_Tensor:$correction2, F64Attr:$beta1,
                       F64Attr:$beta2, F64Attr:$eps, F64Attr:$weight_decay);
  let results = (outs NN_Tensor:$newValue, NN_Tensor:$newMoment1, NN_Tensor:$newMoment2);
  let hasVerifier = 1;
}

#endif
