//===- Exec.td - The program of one rank -----------------------------------===//
#ifndef CLEAVE_EXEC
#define CLEAVE_EXEC
include "dialects/Exec/Commands.td"

def Exec_ProgramOp : Exec_Op<"program", [IsolatedFromAbove, SingleBlock, NoTerminator,
    NoRegionArguments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The program of every rank of a mesh, or of those of one place in a pipeline";
  let description = [{
    With `part` it is that of the ranks which have this index along the axes `over`,
    and each of the other indices has a program of its own. It then has an
    `exec.stage` and entries of its own for each of its stages, and no `microbatch`.

    Holds segments, groups, constants, state, what is exchanged with the runtime, and
    entries, in any order. Kernels are functions beside it. Names of segments and
    groups are its own and no symbols, so that they don't meet names of kernels.

    The verifier follows every name and address: an address must lie in its segment
    in every iteration, sizes must fit groups and kernels.
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, OptionalAttr<Exec_Size>:$part,
                       OptionalAttr<StrArrayAttr>:$over);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`on` $mesh (`part` $part^ `over` $over)? attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

class Exec_Part<string mnemonic, list<Trait> traits = []>
  : Exec_Op<mnemonic, !listconcat(traits, [HasParent<"ProgramOp">])>;

def Exec_SegmentOp : Exec_Part<"segment"> {
  let summary = "Memory of the rank, allocated once and zero at first";
  let description = [{
    There may be several `copies` of it, one for each slot of a pipeline: addresses are
    those in one copy, and an entry of a stage runs on the copy of its slot.
  }];
  let arguments = (ins StrAttr:$name, Exec_Size:$bytes,
                       DefaultValuedAttr<Exec_Count, "1">:$copies);
  let assemblyFormat = "$name $bytes (`copies` $copies^)? attr-dict";
}

def Exec_GroupOp : Exec_Part<"group"> {
  let summary = "Ranks that differ along some axes of the mesh only";
  let description = [{
    Of these, those with an index in `members`, where it is given. One that is `beside` is
    for exchanges of buckets (`exec.beside`) and for no others.
  }];
  let arguments = (ins StrAttr:$name, StrArrayAttr:$axes,
                       OptionalAttr<DenseI64ArrayAttr>:$members, UnitAttr:$beside);
  let assemblyFormat = "$name $axes (`members` $members^)? (`beside` $beside^)? attr-dict";
}

def Exec_TableOp : Exec_Part<"table"> {
  let summary = "Constants that are in memory before anything runs";
  let arguments = (ins StrAttr:$name, Exec_AtAttr:$at, ElementsAttr:$elements);
  let assemblyFormat = "$name $at $elements attr-dict";
  let hasVerifier = 1;
}

def Exec_RankIndexOp : Exec_Part<"rank_index"> {
  let summary = "An i32: the rank's index along `axes`, times `scale`";
  let arguments = (ins Exec_AtAttr:$at, StrArrayAttr:$axes, I64Attr:$scale);
  let assemblyFormat = "$at `along` $axes `times` $scale attr-dict";
  let hasVerifier = 1;
}

def Exec_StateOp : Exec_Part<"state"> {
  let summary = "Parameters with what is kept for them";
  let description = [{
    `shape` is the whole tensor, cut as `sharding` says; the slots `value`, `gradient`,
    `moment1` and `moment2` hold the rank's block, in f32. `file_shape` is its shape in
    files. `mean` and `std`: how it starts where no weights are given. The gradient
    (`as`) and the moments (`moments_as`) may be cut in other ways.

    A `copy` is that of a tensor which the program of another stage has too, and which
    that one saves and counts.

    With `layers` [first, count, step] it stands for one tensor in each of `count` layers, whose
    slots lie `step` of their address apart; what is between braces in the name is the
    number of the layer. With `slices` files hold a tensor of shape `file_shape` for each
    index of the first dimension, which stands for `{}` in the name.

    ```mlir
    exec.state "layers.{0..3}.up.weight" layers [0, 4, 1] shape [128, 64] file [128, 64]
      sharding #dist.sharding<[[tensor], []]> decay mean 0.0 std 0.02
      value <weights + 0, 16384 step 16384> gradient <gradients + 0, 16384 step 16384>
    ```
  }];
  let arguments = (ins StrAttr:$name, UnitAttr:$copy, OptionalAttr<DenseI64ArrayAttr>:$layers,
                       DenseI64ArrayAttr:$shape, DenseI64ArrayAttr:$file_shape, UnitAttr:$slices,
                       Exec_Sharding:$sharding, UnitAttr:$decay, F64Attr:$mean, F64Attr:$std,
                       Exec_AtAttr:$value, OptionalAttr<Exec_AtAttr>:$gradient,
                       OptionalAttr<Exec_Sharding>:$gradient_sharding,
                       OptionalAttr<Exec_AtAttr>:$moment1, OptionalAttr<Exec_AtAttr>:$moment2,
                       OptionalAttr<Exec_Sharding>:$moment_sharding,
                       OptionalAttr<StrArrayAttr>:$aliases);
  let assemblyFormat = [{
    $name (`copy` $copy^)? (`layers` $layers^)? `shape` $shape `file` $file_shape (`slices` $slices^)?
    `sharding` $sharding
    (`decay` $decay^)? `mean` $mean `std` $std `value` $value (`gradient` $gradient^)?
    (`as` $gradient_sharding^)? (`moment1` $moment1^)? (`moment2` $moment2^)?
    (`moments_as` $moment_sharding^)? (`aliases` $aliases^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Number of tensors that it stands for.
    int64_t getCount() { return getLayers() ? (*getLayers())[1] : 1; }
    /// The name of tensor `index` below `getCount()`.
    std::string getTensorName(int64_t index);
    /// How those slots are cut.
    std::array<::cleave::dist::ShardingAttr, 4> getSlotShardings() {
      auto gradient = getGradientSharding().value_or(getSharding()),
           moments = getMomentSharding().value_or(getSharding());
      return {getSharding(), gradient, moments, moments};
    }
    /// value, gradient, moment1, moment2; null for what there is not.
    std::array<AtAttr, 4> getSlots() {
      return {getValueAttr(), getGradientAttr(), getMoment1Attr(), getMoment2Attr()};
    }
  }];
}

/// Named as in the image.
def Exec_Field : I32EnumAttr<"Field", "A value exchanged with the runtime", [
    I32EnumAttrCase<"Tokens", 0, "tokens">, I32EnumAttrCase<"Targets", 1, "targets">,
    I32EnumAttrCase<"Positions", 2, "positions">,
    I32EnumAttrCase<"LearningRate", 3, "learning_rate">,
    I32EnumAttrCase<"Correction1", 4, "correction1">,
    I32EnumAttrCase<"Correction2", 5, "correction2">, I32EnumAttrCase<"Loss", 6, "loss">,
    I32EnumAttrCase<"Objective", 7, "objective">,
    I32EnumAttrCase<"GradientNorm", 8, "gradient_norm">,
    I32EnumAttrCase<"ValidCount", 9, "valid_count">]> {
  let cppNamespace = "::cleave::exec";
}

def Exec_ExchangeOp : Exec_Part<"exchange"> {
  let summary = "Where a value lies that the runtime writes or reads";
  let description = [{
    tokens, targets and positions are i32 [micro-batch, local sequence], the others are
    scalars of f32. A program needs tokens, targets and loss.
  }];
  let arguments = (ins Exec_Field:$field, Exec_AtAttr:$at);
  let assemblyFormat = "$field $at attr-dict";
  let hasVerifier = 1;
}

def Exec_StageOp : Exec_Part<"stage"> {
  let summary = "A stage of a pipeline: where what it exchanges with its neighbours lies";
  let description = [{
    `inputs` come from the stage before and are read by its forward, `outputs` are made
    by that for the next one; `output_gradients` come from there and are read by its
    backward, which makes `input_gradients`. They lie in a segment that has a copy for
    each slot.
  }];
  let arguments = (ins Exec_Size:$number, Exec_Addresses:$inputs, Exec_Addresses:$outputs,
                       Exec_Addresses:$output_gradients, Exec_Addresses:$input_gradients);
  let assemblyFormat = [{
    $number `inputs` $inputs `outputs` $outputs `output_gradients` $output_gradients
    `input_gradients` $input_gradients attr-dict
  }];
  let extraClassDeclaration = [{
    /// All of these addresses.
    ::llvm::SmallVector<AtAttr> getAddresses();
  }];
}

def Exec_EntryKind : I32EnumAttr<"EntryKind", "When an entry runs", [
    I32EnumAttrCase<"Begin", 0, "begin">, I32EnumAttrCase<"Count", 1, "count">,
    I32EnumAttrCase<"Prepare", 2, "prepare">, I32EnumAttrCase<"Microbatch", 3, "microbatch">,
    I32EnumAttrCase<"Update", 4, "update">, I32EnumAttrCase<"Evaluate", 5, "evaluate">,
    I32EnumAttrCase<"Forward", 6, "forward">, I32EnumAttrCase<"Backward", 7, "backward">,
    I32EnumAttrCase<"Weights", 8, "weights">, I32EnumAttrCase<"Survey", 9, "survey">,
    I32EnumAttrCase<"Last", 10, "last">]> {
  let cppNamespace = "::cleave::exec";
}

def Exec_EntryOp : Exec_Part<"entry", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "Commands that the runtime runs together";
  let description = [{
    A step runs begin, count and survey for each micro-batch, prepare, microbatch for each,
    update. Evaluation runs begin, count, prepare, evaluate. An entry that is not there does
    nothing; but where there is a last, it runs for the last micro-batch in place of microbatch.

    In a pipeline forward, backward and weights are of one `stage` and run as the
    schedule says; where a stage has a last, it runs in place of the last weights of the
    step, or of its last backward if there are none. There is an evaluate for each stage, and one without a stage, which
    runs behind them. The first stages may have a survey each: a micro-batch goes through
    these before the schedule begins.
  }];
  let arguments = (ins Exec_EntryKind:$kind, OptionalAttr<Exec_Size>:$stage);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$kind (`stage` $stage^)? attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

#endif
