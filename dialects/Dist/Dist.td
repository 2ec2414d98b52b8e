//===- Dist.td - Meshes, shardings, collectives ----------------------------===//
#ifndef CLEAVE_DIST
#define CLEAVE_DIST

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/Interfaces/Interfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::cleave::dist";
  let summary = "Meshes, shardings and the exchange of blocks between ranks";
  let description = [{
    A mesh is a list of named axes over the ranks, major to minor. An axis of a
    plan that must be split (tensor parallelism wider than the key heads) is a
    run of mesh axes: `tensor.0`, `tensor.1`.

    A sharding says, for each dimension, which axes cut it (major to minor), and
    over which axes the value is *partial*: each rank then holds one term of a
    sum. A dimension of n elements cut into k has blocks of ceil(n/k); the last
    ones may be short or empty and are padded.

    Collectives act on one rank's blocks and name the axes whose ranks take part.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = [];
}

def Dist_ShardingAttr : AttrDef<Dist_Dialect, "Sharding"> {
  let mnemonic = "sharding";
  let summary = "Where the blocks of a tensor lie";
  let description = [{
    `#dist.sharding<[[data], [], []], partial [tensor]>`: for each dimension the
    axes that cut it, then the axes over which it is partial (left out if none).
    `apart [tensor]` instead says that it is partial and that each element is zero on
    all ranks along these axes but one.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::ArrayAttr">:$dims,
                        ArrayRefParameter<"::mlir::StringAttr">:$partial, "bool":$apart);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The axes that cut dimension `d`, major to minor.
    ::llvm::SmallVector<::mlir::StringAttr> axes(unsigned d) const;
    bool isPartial() const { return !getPartial().empty(); }
    /// Complete and uncut.
    bool isReplicated() const;
    /// A replicated value of `rank` dimensions.
    static ShardingAttr replicated(::mlir::MLIRContext *context, unsigned rank);
    /// From lists of axes; `partial` is put in mesh order by the caller.
    static ShardingAttr get(::mlir::MLIRContext *context,
        ::llvm::ArrayRef<::llvm::SmallVector<::mlir::StringAttr>> dims,
        ::llvm::ArrayRef<::mlir::StringAttr> partial, bool apart = false);
    static ShardingAttr get(::mlir::MLIRContext *context,
        ::llvm::ArrayRef<::mlir::ArrayAttr> dims, ::llvm::ArrayRef<::mlir::StringAttr> partial) {
      return get(context, dims, partial, false);
    }
    /// The same cuts, complete.
    ShardingAttr complete() const;
  }];
}

def Dist_Reduction : I32EnumAttr<"Reduction", "How blocks are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::cleave::dist";
}

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "Named axes over the ranks, major to minor";
  let description = [{ `dist.mesh @mesh ["data", "tensor"] = [2, 4]` }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes);
  let assemblyFormat = "$sym_name $axes `=` $sizes attr-dict";
  let hasVerifier = 1;
}

def Dist_ReshardOp : Dist_Op<"reshard", [Pure, SameOperandsAndResultType]> {
  let summary = "The same value under another sharding";
  let description = [{ Global: types are those of the whole tensor. The partitioner replaces it. }];
  let arguments = (ins AnyRankedTensor:$input, Dist_ShardingAttr:$source, Dist_ShardingAttr:$target);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input $source `to` $target attr-dict `:` type($result)";
}

/// One rank's part in an exchange over the ranks that differ along `axes`.
class Dist_Exchange<string mnemonic, list<Trait> traits = []>
  : Dist_Op<mnemonic, !listconcat(traits, [Pure, DeclareOpInterfaceMethods<CollectiveInterface>])>;

def Dist_AllReduceOp : Dist_Exchange<"all_reduce", [SameOperandsAndResultType]> {
  let summary = "Combines the values of all ranks of a group";
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       Dist_Reduction:$kind);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input $kind `on` $mesh $axes attr-dict `:` type($result)";
}

def Dist_StageSumOp : Dist_Op<"stage_sum", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<ShardingRuleInterface>,
    DeclareOpInterfaceMethods<StageExchangeInterface>]> {
  let summary = "The sum over stages of a pipeline, which run other programs";
  let description = [{
    `ranks` are those along the pipeline's `axes` that take part, this one among them;
    their programs have the same operator. The axes are of the whole mesh, and none of
    the stage's own.

    ```mlir
    %sum = dist.stage_sum %gradient over ["pipe"] ranks [0, 3] : tensor<256x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes, DenseI64ArrayAttr:$ranks);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `over` $axes `ranks` $ranks attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dist_AllGatherOp : Dist_Exchange<"all_gather"> {
  let summary = "Joins the blocks of a group along one dimension, padding cut off";
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `dim` $dim `on` $mesh $axes attr-dict `:` functional-type($input, $result)";
}

def Dist_ReduceScatterOp : Dist_Exchange<"reduce_scatter"> {
  let summary = "Sums over a group and leaves each rank its block of one dimension";
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `dim` $dim `on` $mesh $axes attr-dict `:` functional-type($input, $result)";
}

def Dist_AllToAllOp : Dist_Exchange<"all_to_all"> {
  let summary = "Joins blocks along `gather_dim` while cutting `split_dim`";
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       I64Attr:$split_dim, I64Attr:$gather_dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `split` $split_dim `gather` $gather_dim `on` $mesh $axes attr-dict `:` functional-type($input, $result)";
}

def Dist_SliceOp : Dist_Exchange<"slice"> {
  let summary = "This rank's block of one dimension, padded with zeros; nothing is sent";
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `dim` $dim `on` $mesh $axes attr-dict `:` functional-type($input, $result)";
}

def Dist_MaskOp : Dist_Exchange<"mask", [AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<FusionInterface, ["getFusionDims", "getBodyInputs"]>,
    DeclareOpInterfaceMethods<BlockwiseInterface>]> {
  let summary = "Sets the padding of an uneven block to `value`; nothing is sent";
  let description = [{
    The rank's block has as many indices of dimension `dim` as the input, or `block`
    where the input is a part of it that begins at `begin` (tensor<i32>).
  }];
  let arguments = (ins AnyRankedTensor:$input, Optional<AnyRankedTensor>:$begin,
                       FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       I64Attr:$dim, I64Attr:$size, F64Attr:$value, OptionalAttr<I64Attr>:$block);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `dim` $dim `size` $size `value` $value
    (`from` $begin^ `:` type($begin) `of` $block)? `on` $mesh $axes attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Indices of the dimension that the rank has.
    int64_t getBlockSize() {
      return getBlock() ? static_cast<int64_t>(*getBlock()) : getType().getDimSize(getDim());
    }
  }];
}

def Dist_KeepFirstOp : Dist_Exchange<"keep_first", [SameOperandsAndResultType,
    DeclareOpInterfaceMethods<FusionInterface, ["getBodyInputs"]>]> {
  let summary = "The value on the first rank of a group, zero on the others: a complete value made partial";
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `on` $mesh $axes attr-dict `:` type($result)";
}

def Dist_OffsetOp : Dist_Exchange<"offset"> {
  let summary = "Global index of the first element of this rank's block";
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes, I64Attr:$block);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`block` $block `on` $mesh $axes attr-dict `:` type($result)";
}

#endif
