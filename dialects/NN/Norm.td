//===- Norm.td - Normalisations --------------------------------------------===//
#ifndef CLEAVE_NN_NORM
#define CLEAVE_NN_NORM
include "dialects/NN/NNBase.td"

def NN_RmsNormOp : NN_ComputeOp<"rms_norm", [NN_Differentiable, NN_Fusable<["getFusionDims"]>]> {
  let summary = "x / √(mean(x²) + eps) · weight over the weight's dimensions";
  let description = [{
    The dimensions of `weight` are normalised over; they are never cut.
    `rstd` = 1/√(mean(x²) + eps) is what the gradient needs.
  }];
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$weight, F64Attr:$eps);
  let results = (outs NN_Tensor:$result, NN_Tensor:$rstd);
  let hasVerifier = 1;
}

def NN_RmsNormGradOp : NN_ComputeOp<"rms_norm_grad", [NN_Fusable<["getFusionDims"]>]> {
  let summary = "Gradient of rms_norm with respect to its input and weight";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$weight, NN_Tensor:$rstd, NN_Tensor:$gradient);
  let results = (outs NN_Tensor:$inputGradient, NN_Tensor:$weightGradient);
  let hasVerifier = 1;
}

def NN_LayerNormOp : NN_ComputeOp<"layer_norm", [NN_Differentiable, NN_Fusable<["getFusionDims"]>]> {
  let summary = "(x − mean) / √(var + eps) · weight + bias over the weight's dimensions";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$weight, NN_Tensor:$bias, F64Attr:$eps);
  let results = (outs NN_Tensor:$result, NN_Tensor:$mean, NN_Tensor:$rstd);
  let hasVerifier = 1;
}

def NN_LayerNormGradOp : NN_ComputeOp<"layer_norm_grad", [NN_Fusable<["getFusionDims"]>]> {
  let summary = "Gradient of layer_norm with respect to its input, weight and bias";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$weight, NN_Tensor:$mean, NN_Tensor:$rstd,
                       NN_Tensor:$gradient);
  let results = (outs NN_Tensor:$inputGradient, NN_Tensor:$weightGradient,
                      NN_Tensor:$biasGradient);
  let hasVerifier = 1;
}

#endif
