//===- State.td - Parameters and what is kept across steps ------------------===//
#ifndef CLEAVE_NN_STATE
#define CLEAVE_NN_STATE
include "dialects/NN/NNBase.td"

def NN_ParameterOp : NN_Op<"parameter", [Symbol]> {
  let summary = "A trained tensor, by its Hugging Face name";
  let description = [{
    `type` is the tensor as operators see it, dimensions named; `file_shape`
    is its shape in checkpoints and exports: the same elements in the same order.
    `init_std` and `init_mean` say how it starts (`initializer` "normal" or
    "constant"). `decay`: weight decay acts on it. `aliases`: other names under
    which weight files may hold it, as those of a tied output matrix; copies
    there must be equal, and exports don't have them.

    ```mlir
    nn.parameter @model.layers.0.self_attn.k_proj.weight
      : tensor<2x16x64xf32, #nn.dims<kv_head, head_dim, model>> {file_shape = array<i64: 32, 64>}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, DenseI64ArrayAttr:$file_shape,
                       F64Attr:$init_mean, F64Attr:$init_std, UnitAttr:$decay,
                       OptionalAttr<StrArrayAttr>:$aliases);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

/// Which of a parameter's tensors a state operator speaks of.
def NN_Slot : I32EnumAttr<"Slot", "A tensor kept for a parameter", [
  I32EnumAttrCase<"Value", 0, "value">,
  I32EnumAttrCase<"Gradient", 1, "gradient">,
  I32EnumAttrCase<"Moment1", 2, "moment1">,
  I32EnumAttrCase<"Moment2", 3, "moment2">]> {
  let cppNamespace = "::cleave::nn";
}

class NN_StateOp<string mnemonic, string access, list<Trait> traits = []>
  : NN_Op<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                         StateInterface])> {
  let extraClassDeclaration = [{
    ::cleave::StateAccess getStateAccess() { return ::cleave::StateAccess::}] # access # [{; }
    ::llvm::StringRef getStateSymbol() { return getParameter(); }
    ::llvm::StringRef getStateSlot() { return stringifySlot(getSlot()); }
  }];
}

def NN_LoadOp : NN_StateOp<"load", "Read", [MemoryEffects<[MemRead]>]> {
  let summary = "Reads a tensor kept across micro-batches or steps";
  let arguments = (ins FlatSymbolRefAttr:$parameter, NN_Slot:$slot);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$parameter $slot attr-dict `:` type($result)";
}

def NN_StoreOp : NN_StateOp<"store", "Write", [MemoryEffects<[MemWrite]>]> {
  let summary = "Replaces a tensor kept across steps";
  let arguments = (ins NN_Tensor:$value, FlatSymbolRefAttr:$parameter, NN_Slot:$slot);
  let assemblyFormat = "$value `,` $parameter $slot attr-dict `:` type($value)";
}

def NN_AccumulateOp : NN_StateOp<"accumulate", "Accumulate",
                                 [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Adds to a tensor kept across micro-batches";
  let arguments = (ins NN_Tensor:$value, FlatSymbolRefAttr:$parameter, NN_Slot:$slot);
  let assemblyFormat = "$value `,` $parameter $slot attr-dict `:` type($value)";
}

def NN_ScalarOp : NN_Op<"scalar", [Symbol]> {
  let summary = "A scalar kept across micro-batches: an accumulator of the step";
  let description = [{ Reset to zero when a step starts; addressed like a parameter's value. }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let assemblyFormat = "$sym_name attr-dict";
}

#endif
