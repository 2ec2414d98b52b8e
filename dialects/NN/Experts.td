//===- Experts.td - Products with the matrix that an index picks -----------===//
#ifndef CLEAVE_NN_EXPERTS
#define CLEAVE_NN_EXPERTS
include "dialects/NN/NNBase.td"

def NN_ExpertContractOp : NN_PlacedOp<"expert_contract", [NN_Differentiable,
    DeclareOpInterfaceMethods<PickedContractionInterface>,
    DeclareOpInterfaceMethods<MixedPrecisionInterface, ["canRound"]>]> {
  let summary = "For each index, the sum of products with the slice of a table that it picks";
  let description = [{
    y[i…, n] = Σ_k x[i…, k] · table[index[i…] − offset, n, k], i… being the dimensions of
    `indices`; x may lack the last of these. An index outside the table gives zeros.
    `offset` (0 if absent) is set where a rank holds a block of slices.

    ```mlir
    %h = nn.expert_contract %x, %w, %index
      : (tensor<?x?x64xf32, #nn.dims<batch, sequence, model>>,
         tensor<8x96x64xf32, #nn.dims<expert, ffn, model>>,
         tensor<?x?x2xi32, #nn.dims<batch, sequence, choice>>)
      -> tensor<?x?x2x96xf32, #nn.dims<batch, sequence, choice, ffn>>
    ```
  }];
  let arguments = (ins NN_Tensor:$input, NN_Tensor:$table, NN_Tensor:$indices,
                       Optional<NN_Tensor>:$offset);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_ExpertOuterOp : NN_PlacedOp<"expert_outer", [
    DeclareOpInterfaceMethods<PickedContractionInterface>,
    DeclareOpInterfaceMethods<MixedPrecisionInterface, ["canRound"]>]> {
  let summary = "Gradient of expert_contract with respect to its table: outer products by index";
  let description = [{
    result[e, m, n] = Σ x[i…, m] · y[i…, n] over the i… with index[i…] − offset = e. Either
    operand may lack the last dimension of the indices.
  }];
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs, NN_Tensor:$indices,
                       Optional<NN_Tensor>:$offset);
  let results = (outs NN_Tensor:$tableGradient);
  let hasVerifier = 1;
}

#endif
