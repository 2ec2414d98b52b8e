//===- Interfaces.td - What an operator says about itself ------------------===//
//
// Everything that a pass may want to know of an operator. Passes are written
// against these and never name an operator.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_INTERFACES
#define CLEAVE_INTERFACES

include "mlir/IR/OpBase.td"

def ShardingRuleInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    How the operator may be split over ranks: its factors, which of them can be
    cut, and how to build the one-rank form once they are.
  }];
  let methods = [
    InterfaceMethod<"The factors of this operator; see ShardingRule.h.",
      "::cleave::ShardingRule", "getShardingRule">,
    InterfaceMethod<[{
        Builds this operator on one rank's blocks. `operands` are the local
        operands, `resultTypes` the local result types. The default clones the
        operator; override it where a rank must know its position or where a
        result is completed by an exchange.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildLocal",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::mlir::TypeRange":$resultTypes, "::cleave::LocalContext &":$context),
      "", [{
        ::mlir::OperationState state($_op->getLoc(), $_op->getName().getStringRef(), operands,
                                     resultTypes, $_op->getAttrs());
        ::mlir::Operation *local = builder.create(state);
        return ::llvm::SmallVector<::mlir::Value>(local->getResults());
      }]>,
  ];
}

def DifferentiableInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    Reverse-mode derivative. Gradients are built from operators that are
    operators like all others.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the gradient of every operand for which `wanted` is set, given
        the gradients of the results (a null Value: that result has none; at
        least one is there). Returns one Value for each operand, null where it
        was not wanted or is zero.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGradients,
           "::llvm::ArrayRef<bool>":$wanted)>,
  ];
}

def InterpretableInterface : OpInterface<"InterpretableOpInterface"> {
  let cppNamespace = "::cleave";
  let description = "The operator's meaning, in float64, one rank at a time.";
  let methods = [
    InterfaceMethod<[{
        Computes the results from the operands. `results` come with the shapes
        of the static result types and hold NaN.
      }],
      "::llvm::LogicalResult", "interpret",
      (ins "::llvm::ArrayRef<const ::cleave::HostTensor *>":$operands,
           "::llvm::MutableArrayRef<::cleave::HostTensor>":$results)>,
  ];
}

def ContractionInterface : OpInterface<"ContractionOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    Marks an operator of two operands and one result whose result is the sum of
    products over the factors that it lacks (all as its sharding rule says): a
    matrix product, which a library runs and which can add to what is there.
  }];
}

def PickedContractionInterface : OpInterface<"PickedContractionOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    A matrix product in which an index picks one of several matrices. Of two operands,
    the products are summed over the factors that the result lacks (all as the sharding
    rule says); operands and result that have the index's dimensions have them first,
    but for the last one where they are the same for all its elements. The matrices lie
    along the *picked* factor: the first dimension of the second operand, which is then
    picked from, or of the result, to which each product is then added. An index outside
    of them picks nothing.
  }];
  let methods = [
    InterfaceMethod<"The index (i32).", "::mlir::Value", "getPickingIndex">,
    InterfaceMethod<"Subtracted from the index (a scalar of i32), or null.", "::mlir::Value",
                    "getPickingOffset">,
  ];
}

def MixedPrecisionInterface : OpInterface<"MixedPrecisionOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    An operator of products and sums that takes operands of bf16 as they are and
    computes with them in f32: matrix products, attention. All its other operands and
    results are of f32 or integers; where what it makes is only read rounded, it may
    round it on the way to memory.
  }];
  let methods = [
    InterfaceMethod<"Which operands may be of bf16, all of them or none.",
      "::llvm::SmallVector<unsigned>", "getNarrowOperands">,
    InterfaceMethod<"Whether it rounds result `result` itself, given such operands.",
      "bool", "canRound", (ins "unsigned":$result), "", [{ return true; }]>,
  ];
}

def LibraryKernelInterface : OpInterface<"LibraryKernelOpInterface"> {
  let cppNamespace = "::cleave";
  let description = "An operator that runs as kernels which a target generates by name.";
  let methods = [
    InterfaceMethod<"The kernels that compute the results, on local static shapes; in order.",
      "::llvm::SmallVector<::cleave::LibraryKernel>", "getLibraryKernels">,
  ];
}

def TokenOrderInterface : OpInterface<"TokenOrderOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    An operator to which it matters in which order the tokens of a sequence stand:
    it compares their positions.
  }];
  let methods = [
    InterfaceMethod<[{
        The operands that say at which positions the rows along the sequence stand.
        None: the operator takes the rows' numbers, which is right only for tokens
        that stand in order.
      }],
      "::mlir::OperandRange", "getTokenPositions">,
    InterfaceMethod<[{
        Records that the positions are the rows' numbers in every whole sequence.
      }],
      "void", "setTokensOrdered">,
  ];
}

def CollectiveInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::cleave";
  let description = "An operator whose ranks exchange values: its meaning for all ranks at once.";
  let methods = [
    InterfaceMethod<[{
        Computes every rank's results from every rank's operands, both indexed
        by rank. Results come with the shapes of the static result types and
        hold NaN. The operator finds the mesh, and so its groups of ranks, itself.
      }],
      "::llvm::LogicalResult", "interpretRanks",
      (ins "::llvm::ArrayRef<::llvm::SmallVector<const ::cleave::HostTensor *>>":$operandsByRank,
           "::llvm::MutableArrayRef<::llvm::SmallVector<::cleave::HostTensor>>":$resultsByRank)>,
  ];
}

def StageExchangeInterface : OpInterface<"StageExchangeOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    An operator of one operand that adds up values of several stages of a pipeline,
    which run other programs. Each of them has such an operator, for values of one
    shape, and each gets the sum.
  }];
  let methods = [
    InterfaceMethod<"Which ranks along the pipeline's axis take part, in order.",
      "::llvm::ArrayRef<int64_t>", "getStageRanks">,
  ];
}

def StateInterface : OpInterface<"StateOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    An operator that reads or changes a tensor kept from one run of the program
    to the next. The tensor is known by a symbol and a slot. `Read` yields it as
    result 0; `Write` replaces it by operand 0; `Accumulate` adds operand 0 to
    it, and what is not there yet counts as zeros.
  }];
  let methods = [
    InterfaceMethod<"What is done to the tensor.", "::cleave::StateAccess", "getStateAccess">,
    InterfaceMethod<"The symbol that owns the tensor.", "::llvm::StringRef", "getStateSymbol">,
    InterfaceMethod<"Which of the symbol's tensors.", "::llvm::StringRef", "getStateSlot">,
    InterfaceMethod<[{
        The name of the one tensor that is meant in iteration `iteration` of the
        repeat around this operator, where a symbol stands for one in each layer.
      }],
      "std::string", "getStateName", (ins "int64_t":$iteration), "", [{
        return $_op.getStateSymbol().str();
      }]>,
    InterfaceMethod<"The rows of the tensor that are meant, if not all of it.",
      "::std::optional<::cleave::StateRows>", "getStateRows", (ins), "", [{
        return ::std::nullopt;
      }]>,
    InterfaceMethod<[{
        A copy of this operator that means `rows` of the tensor. A read has results
        of type `type`; the others take `operands`.
      }],
      "::mlir::Operation *", "buildForRows",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::mlir::TypeRange":$types, "::cleave::StateRows":$rows)>,
  ];
}

def BlockwiseInterface : OpInterface<"BlockwiseOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    An operator that can go through a dimension block by block although it does not
    just compute elements of its own for each block, or sums over them: it gathers
    results up in its own way, or must know where a block begins. Operators whose
    sharding rule says that a dimension may be cut need nothing of this.
  }];
  let methods = [
    InterfaceMethod<[{
        Whether it can go in blocks through the dimension that is number `dim` of
        `operand`, the first operand that has it.
      }],
      "bool", "hasBlocks", (ins "unsigned":$operand, "int64_t":$dim)>,
    InterfaceMethod<"What is carried from block to block, as it is before the first.",
      "::llvm::SmallVector<::mlir::Value>", "buildBlocksStart",
      (ins "::mlir::OpBuilder &":$builder), "", [{ return {}; }]>,
    InterfaceMethod<[{
        Builds what is done to one block, whose first element has the index `begin`
        (tensor<i32>) in the dimension. `operands` are blocks where they have the
        dimension; `types` are those of the results, of blocks likewise. Returns the
        results that have the dimension, then what is carried on.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildBlock",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::mlir::TypeRange":$types, "::mlir::Value":$begin, "::mlir::ValueRange":$carried)>,
    InterfaceMethod<[{
        Builds the results, which lack the dimension, from what was carried to the end.
        `operands` are null where they have the dimension.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildBlocksEnd",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::mlir::ValueRange":$carried), "", [{
        return ::llvm::SmallVector<::mlir::Value>(carried);
      }]>,
  ];
}

def RepeatInterface : OpInterface<"RepeatOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    An operator whose one block runs a number of times. Operands are the values
    *carried* from one iteration to the next, as they are before the first, then
    the *scanned* ones, of which each iteration sees a slice. The block takes the
    carried values and the slices, and ends in the carried values for the next
    iteration and in slices of the *stacked* values. Results are the carried values
    after the last iteration, then the stacked ones. Whatever else the block reads
    from outside is the same in every iteration.

    Slices are pieces along one or more dimensions: the pieces of the last one
    follow each other, then the next piece of the one before comes. Where a dimension
    is cut over ranks, every rank takes pieces of its own block: seen whole, the
    dimension consists of *blocks*, and piece i is the i-th part of each.
  }];
  let methods = [
    InterfaceMethod<"Number of iterations.", "int64_t", "getIterations">,
    InterfaceMethod<"Whether the slices are taken and put from the last to the first.",
      "bool", "isReversed">,
    InterfaceMethod<"Number of carried values.", "unsigned", "getNumCarried">,
    InterfaceMethod<"Along which dimensions of a scanned or stacked value it is sliced.",
      "::llvm::SmallVector<::cleave::Slicing>", "getSlicing", (ins "::mlir::Type":$whole)>,
    InterfaceMethod<[{
        Says that the operator sees one rank's blocks alone: divides the blocks of
        each sliced dimension, in order, by the number in `ways`.
      }],
      "void", "divideBlocks", (ins "::llvm::ArrayRef<int64_t>":$ways)>,
  ];
  let extraSharedClassDeclaration = [{
    /// The slice that iteration `iteration` (the first is 0) takes or puts.
    int64_t getSliceIndex(int64_t iteration) {
      return $_op.isReversed() ? $_op.getIterations() - 1 - iteration : iteration;
    }
    ::mlir::Block &getRepeatedBlock() { return $_op->getRegion(0).front(); }
  }];
}

def WholeBatchInterface : OpInterface<"WholeBatchOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    An operator between layers whose result no micro-batch knows by itself: the sum of
    its operand over all micro-batches of a step. What needs it is written as if it were
    there; applying a plan sees to it that all micro-batches have gone forward before.
    No gradient goes through it, so the operand must not depend on what is trained: it
    counts.
  }];
  let methods = [
    InterfaceMethod<"What a micro-batch adds.", "::mlir::Value", "getContribution", (ins), "", [{
        return $_op->getOperand(0);
      }]>,
    InterfaceMethod<"The sum over all micro-batches, of the same type.", "::mlir::Value",
      "getTotal", (ins), "", [{
        return $_op->getResult(0);
      }]>,
  ];
}

def FusionInterface : OpInterface<"FusionOpInterface"> {
  let cppNamespace = "::cleave";
  let description = [{
    An operator that can be computed in a generated kernel. A kernel works on
    *rows*: leading dimensions that all its results share, merged into one. Its
    body is linalg, arith, math and tensor operations on static tensors whose
    dimensions carry names; see Fusion.h for what is said of dimensions.

    Results of one operator may have different rows (an input gradient has one
    row for each token, the weight gradient one for each column): they go to
    different kernels, and a body is built for the wanted results only.
  }];
  let methods = [
    InterfaceMethod<"How the elements of result `result` hang together.",
      "::cleave::FusionDims", "getFusionDims", (ins "unsigned":$result), "", [{
        return {};
      }]>,
    InterfaceMethod<[{
        Whether the body picks elements of `operand` by computed positions, so that
        the operand must lie in memory as a whole before the kernel runs.
      }],
      "bool", "needsWholeOperand", (ins "unsigned":$operand), "", [{ return false; }]>,
    InterfaceMethod<"The operand whose buffer may become that of `result`, or -1.",
      "int", "getInPlaceOperand", (ins "unsigned":$result), "", [{ return -1; }]>,
    InterfaceMethod<"What the body needs beside the operands.",
      "::llvm::SmallVector<::cleave::BodyInput>", "getBodyInputs", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{
        Replaces a reduction that one row would have to do alone by one to partial
        results and one over those. Returns the replacements of the results;
        empty, and nothing built, if that makes no sense.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildStages", (ins "::mlir::OpBuilder &":$builder),
      "", [{ return {}; }]>,
    InterfaceMethod<[{
        Builds the operator. `operands` are its operands, then the tensors of
        `getBodyInputs`. `resultTypes` has a type for each wanted result, null for
        the others; so have the returned values.

        The names of dimensions are in the types of `operands` and `resultTypes`,
        which may differ from those of the operator: neighbours that always occur
        together are merged, and results may have a further dimension in front,
        of size 1.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildBody",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::llvm::ArrayRef<::mlir::RankedTensorType>":$resultTypes)>,
  ];
}

#endif
