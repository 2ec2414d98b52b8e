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

    With `layers` = [first, count, step] it stands for `count` tensors of this
    type, one in each layer from `first` in steps of `step`; what is between braces
    in its name, as in `@"model.layers.{0..125}.mlp.up_proj.weight"`, is the number
    of the layer. Operators in an `nn.repeat` of `count` iterations address them.

    With `slices` files hold a tensor of shape `file_shape` for each index of the first
    dimension, which stands for `{}` in the name: the experts of a layer, as in
    `@"model.layers.{0..3}.mlp.experts.{}.up_proj.weight"`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, DenseI64ArrayAttr:$file_shape,
                       F64Attr:$init_mean, F64Attr:$init_std, UnitAttr:$decay,
                       OptionalAttr<StrArrayAttr>:$aliases,
                       OptionalAttr<DenseI64ArrayAttr>:$layers, UnitAttr:$slices);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Number of tensors that it stands for.
    int64_t getCount() { return getLayers() ? (*getLayers())[1] : 1; }
    /// The name of tensor `index` below `getCount()`; with `slices` it has `{}` for the slice.
    std::string getTensorName(int64_t index);
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
  I32EnumAttrCase<"Moment2", 3, "moment2">,
  // The gradient summed over micro-batches and ranks. May lie where Gradient lies,
  // which is not read any more once this is stored.
  I32EnumAttrCase<"Reduced", 4, "reduced">]> {
  let cppNamespace = "::cleave::nn";
}

class NN_StateOp<string mnemonic, string access, list<Trait> traits = []>
  : NN_Op<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                         StateInterface])> {
  let extraClassDeclaration = [{
    ::cleave::StateAccess getStateAccess() { return ::cleave::StateAccess::}] # access # [{; }
    ::llvm::StringRef getStateSymbol() { return getParameter(); }
    ::llvm::StringRef getStateSlot() { return stringifySlot(getSlot()); }
    std::string getStateName(int64_t iteration) {
      return ::cleave::nn::tensorName(*this, getParameterAttr(), iteration);
    }
    ::std::optional<::cleave::StateRows> getStateRows() {
      return ::cleave::nn::rowsOf(getRows());
    }
    ::mlir::Operation *buildForRows(::mlir::OpBuilder &builder, ::mlir::ValueRange operands,
                                    ::mlir::TypeRange types, ::cleave::StateRows rows) {
      return ::cleave::nn::buildForRows(builder, *this, operands, types, rows);
    }
  }];
  code rowsText = [{
    With `rows` = [begin, step, all] it means the value's number of rows (indices of
    the first dimension) of `all`, from begin + step · iteration of the repeat on.
  }];
}

def NN_LoadOp : NN_StateOp<"load", "Read", [MemoryEffects<[MemRead]>]> {
  let summary = "Reads a tensor kept across micro-batches or steps";
  let description = rowsText;
  let arguments = (ins FlatSymbolRefAttr:$parameter, NN_Slot:$slot,
                       OptionalAttr<DenseI64ArrayAttr>:$rows);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$parameter $slot (`rows` $rows^)? attr-dict `:` type($result)";
}

def NN_StoreOp : NN_StateOp<"store", "Write", [MemoryEffects<[MemWrite]>]> {
  let summary = "Replaces a tensor kept across steps";
  let description = rowsText;
  let arguments = (ins NN_Tensor:$value, FlatSymbolRefAttr:$parameter, NN_Slot:$slot,
                       OptionalAttr<DenseI64ArrayAttr>:$rows);
  let assemblyFormat = "$value `,` $parameter $slot (`rows` $rows^)? attr-dict `:` type($value)";
}

def NN_AccumulateOp : NN_StateOp<"accumulate", "Accumulate",
                                 [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Adds to a tensor kept across micro-batches";
  let description = rowsText;
  let arguments = (ins NN_Tensor:$value, FlatSymbolRefAttr:$parameter, NN_Slot:$slot,
                       OptionalAttr<DenseI64ArrayAttr>:$rows);
  let assemblyFormat = "$value `,` $parameter $slot (`rows` $rows^)? attr-dict `:` type($value)";
}

def NN_AccumulatorOp : NN_Op<"accumulator", [Symbol]> {
  let summary = "A tensor kept across micro-batches, in which a step adds up";
  let description = [{
    Reset to zeros when a step starts; addressed like a parameter's value.

    ```mlir
    nn.accumulator @step.loss : tensor<f32>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<NN_Tensor>:$type);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def NN_BatchSumOp : NN_Op<"batch_sum", [Pure, AllTypesMatch<["value", "result"]>,
                                        WholeBatchInterface]> {
  let summary = "The sum of a value over all micro-batches of a step";
  let description = [{
    Stands in `@forward`, between layers, where `value` is of one micro-batch. See
    `WholeBatchOpInterface`; nothing of it is left once a plan is applied.

    ```mlir
    %all = nn.batch_sum %loads : tensor<8xf32, #nn.dims<expert>>
    ```
  }];
  let arguments = (ins NN_Tensor:$value);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def NN_RepeatOp : NN_Op<"repeat", [SingleBlock, RecursiveMemoryEffects, AttrSizedOperandSegments,
                                   AttrSizedResultSegments, RepeatInterface]> {
  let summary = "Runs its block a number of times";
  let description = [{
    See `RepeatOpInterface` for what is carried, scanned and stacked. Slices are
    taken along the dimensions `along`, of each in as many pieces as `pieces` says
    (one for each iteration, if not given) of as many blocks as `blocks` says (one).
    A slice may lack such a dimension; the whole has one index of it for each piece.
    `layers` = [first, step] numbers the iterations for people.

    ```mlir
    %y, %tape = nn.repeat 126 along ["layer"] carry(%x : !stream) -> !stream stack(!tapes)
        attributes {layers = array<i64: 0, 1>} {
    ^bb0(%h: !stream):
      %w = nn.load @"layers.{0..125}.weight" value : !weight
      %z:2 = func.call @block.forward(%h, %w) : (!stream, !weight) -> (!stream, !tape)
      nn.yield %z#0, %z#1 : !stream, !tape
    }
    ```
  }];
  let arguments = (ins I64Attr:$count, OptionalAttr<StrArrayAttr>:$along,
                       OptionalAttr<DenseI64ArrayAttr>:$pieces,
                       OptionalAttr<DenseI64ArrayAttr>:$blocks, UnitAttr:$reverse,
                       OptionalAttr<DenseI64ArrayAttr>:$layers,
                       Variadic<NN_Tensor>:$carried, Variadic<NN_Tensor>:$scanned);
  let results = (outs Variadic<NN_Tensor>:$last, Variadic<NN_Tensor>:$stacked);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count (`along` $along^)? (`pieces` $pieces^)? (`blocks` $blocks^)? (`reverse` $reverse^)?
    (`carry` `(` $carried^ `:` type($carried) `)`)? (`scan` `(` $scanned^ `:` type($scanned) `)`)?
    (`->` type($last)^)? (`stack` `(` type($stacked)^ `)`)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getIterations() { return static_cast<int64_t>(getCount()); }
    bool isReversed() { return getReverse(); }
    unsigned getNumCarried() { return getCarried().size(); }
    ::llvm::SmallVector<::cleave::Slicing> getSlicing(::mlir::Type whole);
    void divideBlocks(::llvm::ArrayRef<int64_t> ways);
  }];
}

def NN_YieldOp : NN_Op<"yield", [Pure, Terminator, HasParent<"RepeatOp">]> {
  let summary = "Ends an iteration: what is carried, then slices of what is stacked";
  let arguments = (ins Variadic<NN_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif
