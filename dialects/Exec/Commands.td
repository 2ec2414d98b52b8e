//===- Commands.td - What a rank runs --------------------------------------===//
#ifndef CLEAVE_EXEC_COMMANDS
#define CLEAVE_EXEC_COMMANDS
include "dialects/Exec/ExecBase.td"

/// `methods`: those of the interface that are not the default.
class Exec_Command<string mnemonic, dag args, string format, list<string> methods = []>
  : Exec_Op<mnemonic, [ParentOneOf<["EntryOp", "RepeatOp", "BesideOp"]>,
                       DeclareOpInterfaceMethods<Exec_CommandInterface, methods>]> {
  let arguments = !con(args, (ins StrAttr:$label, DefaultValuedAttr<Exec_Size, "0">:$bytes,
                                  DefaultValuedAttr<Exec_Size, "0">:$flops,
                                  DefaultValuedAttr<SI64Attr, "0">:$ahead));
  let assemblyFormat = "$label " # format # [{
    (`bytes` $bytes^)? (`flops` $flops^)? (`ahead` $ahead^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_LaunchOp : Exec_Command<"launch",
    (ins FlatSymbolRefAttr:$kernel, Exec_Addresses:$args, Exec_Size:$extent, Exec_Count:$grain,
         OptionalAttr<Exec_Count>:$threads, OptionalAttr<Exec_Count>:$shared,
         OptionalAttr<TypeArrayAttr>:$written),
    [{ $kernel `` custom<Addresses>($args) `extent` $extent `grain` $grain
       (`threads` $threads^)? (`shared` $shared^)? (`writes` $written^)? }]> {
  let summary = "Runs a kernel over [0, extent) in pieces of `grain`";
  let description = [{
    The kernel is a function of the module around the program. If its arguments are
    tensors, each takes the bytes of its address. The last arguments are what it `writes`,
    elements of these types, if that is said: who looks for numbers that are none must know.

    With `threads` it is one of a GPU: a grid of `extent` blocks of so many threads, each with
    `shared` bytes of shared memory beside those that its text declares.
  }];
}

def Exec_MatmulOp : Exec_Command<"matmul",
    (ins Exec_AtAttr:$a, DenseI64ArrayAttr:$a_strides, Exec_AtAttr:$b, DenseI64ArrayAttr:$b_strides,
         Exec_AtAttr:$c, DenseI64ArrayAttr:$c_strides, DenseI64ArrayAttr:$sizes,
         DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$batch, UnitAttr:$accumulate,
         OptionalAttr<Exec_ProductType>:$of, OptionalAttr<Exec_ProductType>:$as),
    [{ $a $a_strides `by` $b $b_strides (`add` $accumulate^)? `to` $c $c_strides `sizes` $sizes
       (`batch` custom<Batch>($batch)^)? (`of` $of^)? (`as` $as^)? }],
    ["getAlignment"]> {
  let summary = "c[m × n] = a[m × k] · b[k × n], or += with `add`";
  let description = [{
    Behind each address stand the strides of rows and columns in elements; `sizes`
    are m, n, k. Each dimension of `batch` is [count, stride of a, of b, of c]. Elements of
    a and b are `of` a type and those of c come `as` one, f32 where none is said; sums are
    in f32.

    ```mlir
    exec.matmul "mlp.up" <arena + 0, 4096> [64, 1] by <weights + 0, 8192> [1, 64]
      to <arena + 4096, 2048> [16, 1] sizes [16, 16, 64] batch [[2, 0, 1024, 256]]
    ```
  }];
  let extraClassDeclaration = [{
    /// The types of the elements of a and b, and of c.
    ::mlir::Type getOperandType();
    ::mlir::Type getResultType();
  }];
}

def Exec_PickedMatmulOp : Exec_Command<"picked_matmul",
    (ins Exec_AtAttr:$a, Exec_AtAttr:$b, DenseI64ArrayAttr:$b_strides, Exec_AtAttr:$index,
         OptionalAttr<Exec_AtAttr>:$offset, Exec_AtAttr:$c, DenseI64ArrayAttr:$sizes,
         Exec_Count:$share, OptionalAttr<Exec_ProductType>:$of),
    [{ $a `by` $b $b_strides `picked` $index (`from` $offset^)? `to` $c `sizes` $sizes
       `share` $share (`of` $of^)? }],
    ["getAlignment"]> {
  let summary = "Each row times the matrix that its index picks";
  let description = [{
    `sizes` are [rows, n, k, matrices]. Row r of c (n elements, rows one behind the other)
    is row r / share of a (k elements) times matrix index[r] − offset of b, whose strides
    are those from matrix to matrix, of rows (along k) and of columns (along n); zeros
    where there is no such matrix. Elements of a and b are `of` a type, f32 where none is
    said; c is f32, index and offset are i32.
  }];
  let extraClassDeclaration = [{
    /// The type of the elements of a and b.
    ::mlir::Type getOperandType();
  }];
}

def Exec_PickedOuterOp : Exec_Command<"picked_outer",
    (ins Exec_AtAttr:$a, Exec_AtAttr:$b, Exec_AtAttr:$index, OptionalAttr<Exec_AtAttr>:$offset,
         Exec_AtAttr:$c, DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$shares,
         UnitAttr:$accumulate, OptionalAttr<Exec_ProductType>:$of),
    [{ $a `by` $b `picked` $index (`from` $offset^)? (`add` $accumulate^)? `to` $c `sizes` $sizes
       `shares` $shares (`of` $of^)? }],
    ["getAlignment"]> {
  let summary = "Outer products of rows, summed in the matrix that the index picks";
  let description = [{
    `sizes` are [rows, m, n, matrices]. Matrix e of c (m × n, one behind the other) is the
    sum, or += with `add`, of the outer products of row r / shares[0] of a (m elements) and
    row r / shares[1] of b (n elements), over all rows r with index[r] − offset = e. Elements
    of a and b are `of` a type, f32 where none is said.
  }];
  let extraClassDeclaration = [{
    /// The type of the elements of a and b.
    ::mlir::Type getOperandType();
  }];
}

def Exec_ZeroOp : Exec_Command<"zero", (ins Exec_AtAttr:$target), "$target"> {
  let summary = "Sets bytes to zero";
  let hasVerifier = 0;
}

def Exec_CopyOp : Exec_Command<"copy", (ins Exec_AtAttr:$source, Exec_AtAttr:$target),
                               "$source `to` $target"> {
  let summary = "Copies bytes to others that don't overlap them";
}

/// A command in which the ranks of a group take part.
///
/// What is sent counts blocks with their padding, as communicators do. Where the value lay
/// before and lies after it may stand in `dist.from` and `dist.to`, the names of its
/// dimensions in `dist.names`.
class Exec_Exchange<string mnemonic, dag args, string format,
                    list<string> methods = ["getMessageBytes"]>
  : Exec_Command<mnemonic,
      !con((ins Exec_ElementType:$type, Exec_AtAttr:$source, Exec_AtAttr:$target, StrAttr:$group),
           args),
      "$type $source `to` $target " # format # " `on` $group",
      !listconcat(["getAlignment", "verifyGroup"], methods)> {
  let hasVerifier = 0;
  let extraClassDefinition = [{
    ::llvm::SmallVector<::cleave::exec::AtAttr> $cppClass::getAddresses() {
      return {getSource(), getTarget()};
    }
    int64_t $cppClass::getAlignment() { return ::cleave::exec::elementBytes(getType()); }
  }];
}

def Exec_AllReduceOp : Exec_Exchange<"all_reduce", (ins Exec_Reduction:$kind), "$kind"> {
  let summary = "Combines the values of all ranks of a group";
  let description = [{ The target is the source itself, or does not overlap it. }];
}

def Exec_AllGatherOp : Exec_Exchange<"all_gather", (ins DenseI64ArrayAttr:$cut), "`cut` $cut"> {
  let summary = "Joins the blocks of a group, padding cut off";
  let description = [{
    The whole is seen as [outer, full, inner] = `cut`, the source as the rank's block of
    ceil(full / ranks) along the middle.
  }];
}

def Exec_ReduceScatterOp : Exec_Exchange<"reduce_scatter",
    (ins Exec_Reduction:$kind, DenseI64ArrayAttr:$cut), "$kind `cut` $cut"> {
  let summary = "Combines wholes over a group and leaves each rank its block";
}

def Exec_SliceOp : Exec_Exchange<"slice", (ins DenseI64ArrayAttr:$cut), "`cut` $cut", []> {
  let summary = "The rank's block of a whole, padded with zeros; nothing is sent";
}

def Exec_AllToAllOp : Exec_Exchange<"all_to_all",
    (ins DenseI64ArrayAttr:$cut, UnitAttr:$split_first),
    "`cut` $cut (`split_first` $split_first^)?"> {
  let summary = "Moves a cut from one dimension to another";
  let description = [{
    The whole is seen as [outer, first, middle, second, inner] = `cut`. With `split_first`
    the source is cut along `second` and the target along `first`, without it the
    other way round.
  }];
}

def Exec_BesideOp : Exec_Op<"beside", [ParentOneOf<["EntryOp", "RepeatOp"]>, SingleBlock,
    NoTerminator, NoRegionArguments,
    DeclareOpInterfaceMethods<Exec_CommandInterface, ["getGroupAttr", "getMessageBytes"]>]> {
  let summary = "Starts a bucket: exchanges that run beside the commands behind it";
  let description = [{
    They are of one kind and of one group, which is `beside`, and run on a thread that a rank
    has for them, one bucket after the other. Until the `exec.await` of this `number`, later
    in the same entry, nobody writes what they read nor touches what they write.

    ```mlir
    exec.repeat "layers" 4 layers [0, 1] {
      exec.await "layers.*/weights" 0
      exec.beside "layers.*/weights" 0 ahead 1 {
        exec.all_gather "up" f32 <weights + 0, 256 step 256>
          to <arena + 0, 512 step 512 period 2> cut [1, 128, 1] on "data.beside"
      }
      exec.matmul "layers.*/up" …
    }
    ```
  }];
  let arguments = (ins StrAttr:$label, Exec_Size:$number, DefaultValuedAttr<SI64Attr, "0">:$ahead);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$label $number (`ahead` $ahead^)? attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Exec_AwaitOp : Exec_Command<"await", (ins Exec_Size:$number), "$number"> {
  let summary = "Waits until a bucket is done";
  let hasVerifier = 0;
}

def Exec_RepeatOp : Exec_Op<"repeat", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "Runs its commands a number of times";
  let description = [{
    In iteration i every address with a step lies i · step further, and each `*` in a
    label stands for first + i · step of `layers`. Repeats don't nest.

    A command that is `ahead` by a runs in turn t for iteration t + a: a turn or more before
    the rest of its iteration, or if negative after it. Turns before the first and behind the
    last iteration run just the commands that have an iteration then.
  }];
  let arguments = (ins StrAttr:$label, Exec_Count:$count, DenseI64ArrayAttr:$layers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$label $count `layers` $layers attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t kMaxCount = 65536;
    /// Of `ahead`, either way.
    static constexpr int64_t kMaxAhead = 16;
    int64_t getIterations() { return static_cast<int64_t>(getCount()); }
  }];
}

#endif
