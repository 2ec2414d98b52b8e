//===- Plan.td - The chosen plan, as IR ------------------------------------===//
#ifndef CLEAVE_PLAN
#define CLEAVE_PLAN

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::cleave::plan";
  let summary = "What was decided about a training step, for people and passes";
  let description = [{
    A plan is a file that a planner writes and a person may write or edit. It is
    versioned, diffs well, and says everything that later passes need:

    ```mlir
    plan.solution version 1 {
      plan.batch global 8 micro 2 sequence 32
      plan.axis "data" [2]
      plan.axis "tensor" [2, 2]
      plan.layout {batch = ["data"], sequence = ["tensor"]}
      plan.parameter "mlp.gate_proj.weight" {ffn = ["tensor"]}
      plan.recompute "block" saved ["attention.scores"]
      plan.chunk "head" along ["batch"] pieces [2]
      plan.assign "block" "mlp.gate" {batch = ["data"], ffn = ["tensor"]}
    }
    ```

    Axes are listed major to minor over the ranks. An axis of several sizes may
    be used whole ("tensor") or by its parts ("tensor.0", "tensor.1"), so that
    key heads can take the first part and query groups the second.
  }];
}

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;

def Plan_SolutionOp : Plan_Op<"solution", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "One plan";
  let arguments = (ins I64Attr:$version, OptionalAttr<StrAttr>:$cluster);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`version` $version (`cluster` $cluster^)? attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

class Plan_Entry<string mnemonic> : Plan_Op<mnemonic, [HasParent<"SolutionOp">]>;

def Plan_BatchOp : Plan_Entry<"batch"> {
  let summary = "Sequences of a step, sequences of one micro-batch on one rank, tokens of a sequence";
  let arguments = (ins I64Attr:$global, I64Attr:$micro, I64Attr:$sequence);
  let assemblyFormat = "`global` $global `micro` $micro `sequence` $sequence attr-dict";
}

def Plan_AxisOp : Plan_Entry<"axis"> {
  let summary = "A mesh axis and the sizes of its parts";
  let arguments = (ins StrAttr:$name, DenseI64ArrayAttr:$sizes);
  let assemblyFormat = "$name $sizes attr-dict";
}

def Plan_LayoutOp : Plan_Entry<"layout"> {
  let summary = "Which axes cut the values that pass between layers, by dimension";
  let arguments = (ins DictionaryAttr:$dims);
  let assemblyFormat = "$dims attr-dict";
}

def Plan_ParameterOp : Plan_Entry<"parameter"> {
  let summary = "Which axes cut a parameter (of every layer that has one by this name)";
  let description = [{
    `stored` cuts the values, `gradient` what micro-batches add up, `optimizer` the
    moments and the gradient that they are updated with; the latter two are as
    `stored` where they are left out. Axes that cut the batch may cut them further
    (ZeRO: `optimizer` alone is stage 1, `gradient` too is stage 2, `stored` too is
    stage 3); values are gathered over those axes where they are used. A parameter
    that is not listed is held whole by every rank.
  }];
  let arguments = (ins StrAttr:$name, DictionaryAttr:$stored, OptionalAttr<DictionaryAttr>:$gradient,
                       OptionalAttr<DictionaryAttr>:$optimizer);
  let assemblyFormat = [{
    $name $stored (`gradient` $gradient^)? (`optimizer` $optimizer^)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// The three, left-out ones filled in.
    ::llvm::SmallVector<::mlir::DictionaryAttr> getPlaces() {
      return {getStored(), getGradient().value_or(getStored()),
              getOptimizer().value_or(getStored())};
    }
  }];
}

def Plan_RecomputeOp : Plan_Entry<"recompute"> {
  let summary = "What the forward of a kind keeps for its backward; the rest is computed again";
  let description = [{
    `saved` lists paths: results of the operators there are kept. So are the values
    that the kind is given. A kind that is not listed keeps all that its backward reads.
  }];
  let arguments = (ins StrAttr:$kind, StrArrayAttr:$saved);
  let assemblyFormat = "$kind `saved` $saved attr-dict";
}

def Plan_ChunkOp : Plan_Entry<"chunk"> {
  let summary = "A kind that is done piece by piece";
  let description = [{
    The kind must be the last one of the model. What it makes in between (logits,
    above all) is then of a piece's size.

    Along `batch` and `sequence`, its results must be sums over the pieces: forward
    and backward are done together for each of the `pieces` equal parts of a rank's
    share of a micro-batch along each dimension. The pieces of the last dimension
    follow each other.

    Along another dimension alone (`vocab`), which only inner values and parameters
    have, the forward goes through the pieces first, then the backward, which
    computes again what has the dimension. The last piece may be smaller.
  }];
  let arguments = (ins StrAttr:$kind, StrArrayAttr:$along, DenseI64ArrayAttr:$pieces);
  let assemblyFormat = "$kind `along` $along `pieces` $pieces attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether pieces are of the tokens, rather than of a dimension of inner values.
    bool isOfTokens();
  }];
}

def Plan_AssignOp : Plan_Entry<"assign"> {
  let summary = "Which axes each factor of the operators at a path takes, forward and backward";
  let arguments = (ins StrAttr:$kind, StrAttr:$path, DictionaryAttr:$factors);
  let assemblyFormat = "$kind $path $factors attr-dict";
}

#endif
