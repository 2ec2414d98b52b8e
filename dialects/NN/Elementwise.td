//===- Elementwise.td - Elementwise operators ------------------------------===//
#ifndef CLEAVE_NN_ELEMENTWISE
#define CLEAVE_NN_ELEMENTWISE
include "dialects/NN/NNBase.td"

/// Elementwise over the result's dimensions; an operand that lacks some of them
/// is broadcast along those.
class NN_ElementwiseOp<string mnemonic, list<Trait> traits = [], list<string> fusion = []>
  : NN_ComputeOp<mnemonic, !listconcat(traits, [NN_Fusable<fusion>])> {
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
  code elementwiseDecls = [{
    /// The scalar function that is applied to every element, in float64.
    double scalar(::llvm::ArrayRef<double> x);
  }];
  let extraClassDeclaration = elementwiseDecls;
}

def NN_AddOp : NN_ElementwiseOp<"add", [NN_Differentiable], ["getInPlaceOperand"]> {
  let summary = "Sum, the operands broadcast by name";
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs);
}

def NN_AddNOp : NN_ElementwiseOp<"add_n"> {
  let summary = "Sum of any number of tensors of one type, in order";
  let arguments = (ins Variadic<NN_Tensor>:$terms);
}

def NN_MulOp : NN_ElementwiseOp<"mul", [NN_Differentiable]> {
  let summary = "Product, the operands broadcast by name";
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs);
}

def NN_CastOp : NN_ElementwiseOp<"cast", [NN_Differentiable]> {
  let summary = "The same numbers in another type: bf16 of f32 or f32 of bf16";
  let description = [{
    To bf16 it rounds to the nearest, ties to even; to f32 nothing is lost. Rounding is not
    linear, so a sum over ranks is complete, in f32, before it is rounded.

    ```mlir
    %y = nn.cast %x : (tensor<4x8xf32, #nn.dims<sequence, model>>)
                   -> tensor<4x8xbf16, #nn.dims<sequence, model>>
    ```
  }];
  let arguments = (ins NN_Tensor:$input);
  let hasFolder = 1;
  let extraClassDeclaration = elementwiseDecls # [{
    /// Whether it rounds.
    bool isNarrowing();
  }];
}

def NN_SiluOp : NN_ElementwiseOp<"silu", [NN_Differentiable]> {
  let summary = "x · sigmoid(x)";
  let arguments = (ins NN_Tensor:$input);
}

def NN_SiluGradOp : NN_ElementwiseOp<"silu_grad"> {
  let summary = "Gradient of silu: dy · σ(x) · (1 + x · (1 − σ(x)))";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$gradient);
}

def NN_SigmoidOp : NN_ElementwiseOp<"sigmoid", [NN_Differentiable]> {
  let summary = "1 / (1 + exp(−x))";
  let arguments = (ins NN_Tensor:$input);
}

def NN_SigmoidGradOp : NN_ElementwiseOp<"sigmoid_grad"> {
  let summary = "Gradient of sigmoid: dy · σ(x) · (1 − σ(x))";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$gradient);
}

def NN_GeluOp : NN_ElementwiseOp<"gelu", [NN_Differentiable]> {
  let summary = "Gaussian error linear unit, exact or by tanh";
  let description = [{
    `x · Φ(x)`; with `tanh`, GPT-2's approximation
    `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`.
  }];
  let arguments = (ins NN_Tensor:$input, UnitAttr:$tanh);
}

def NN_GeluGradOp : NN_ElementwiseOp<"gelu_grad"> {
  let summary = "Gradient of gelu";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$gradient, UnitAttr:$tanh);
}

def NN_SoftCapOp : NN_ElementwiseOp<"soft_cap", [NN_Differentiable]> {
  let summary = "cap · tanh(x / cap)";
  let arguments = (ins NN_Tensor:$input, F64Attr:$cap);
}

def NN_SoftCapGradOp : NN_ElementwiseOp<"soft_cap_grad"> {
  let summary = "Gradient of soft_cap: dy · (1 − tanh²(x / cap))";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$gradient, F64Attr:$cap);
}

def NN_ClampedGluOp : NN_ElementwiseOp<"clamped_glu", [NN_Differentiable]> {
  let summary = "Gated unit of bounded inputs: (u + 1) · g · σ(alpha · g)";
  let description = [{
    g = min(`gate`, limit) and u = `up` between −limit and limit (gpt-oss).
  }];
  let arguments = (ins NN_Tensor:$gate, NN_Tensor:$up, F64Attr:$alpha, F64Attr:$limit);
}

def NN_ClampedGluGateGradOp : NN_ElementwiseOp<"clamped_glu_gate_grad"> {
  let summary = "Gradient of clamped_glu in its gate, 0 above the limit";
  let arguments = (ins NN_Tensor:$gate, NN_Tensor:$up, NN_Tensor:$gradient, F64Attr:$alpha,
                       F64Attr:$limit);
}

def NN_ClampedGluUpGradOp : NN_ElementwiseOp<"clamped_glu_up_grad"> {
  let summary = "Gradient of clamped_glu in up, 0 outside of the limits";
  let arguments = (ins NN_Tensor:$gate, NN_Tensor:$up, NN_Tensor:$gradient, F64Attr:$alpha,
                       F64Attr:$limit);
}

def NN_ReluOp : NN_ElementwiseOp<"relu", [NN_Differentiable]> {
  let summary = "max(x, 0)";
  let arguments = (ins NN_Tensor:$input);
}

def NN_ReluGradOp : NN_ElementwiseOp<"relu_grad"> {
  let summary = "Gradient of relu: dy where x > 0, else 0";
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$gradient);
}

#endif
