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
      plan.axis "pipe" [2]
      plan.axis "data" [2]
      plan.axis "tensor" [2, 2]
      plan.layout {batch = ["data"], sequence = ["tensor"]}
      plan.pipeline "1f1b" over "pipe" {
        plan.stage layers ["embed", "block"] counts [1, 2]
        plan.stage layers ["block", "head"] counts [2, 1]
      }
      plan.parameter "mlp.gate_proj.weight" {ffn = ["tensor"]}
      plan.recompute "block" saved ["attention.scores"]
      plan.chunk "head" along ["batch"] pieces [2]
      plan.overlap
      plan.precision "block" "mlp.gate" compute bf16 store bf16
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

class Plan_Entry<string mnemonic, list<Trait> traits = []>
  : Plan_Op<mnemonic, !listconcat([HasParent<"SolutionOp">], traits)>;

def Plan_BatchOp : Plan_Entry<"batch"> {
  let summary = "Sequences of a step, sequences of one micro-batch on one rank, tokens of a sequence";
  let description = [{
    `zigzag` names axes that cut the sequence where attention is causal. The tokens of
    a sequence then stand in an order in which each of these ranks has early and late
    ones, and about as many pairs of tokens that see each other. Without, they stand
    as they come.
  }];
  let arguments = (ins I64Attr:$global, I64Attr:$micro, I64Attr:$sequence,
                       OptionalAttr<StrArrayAttr>:$zigzag);
  let assemblyFormat = [{
    `global` $global `micro` $micro `sequence` $sequence (`zigzag` $zigzag^)? attr-dict
  }];
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
    `stored` where they are left out. Axes that cut tokens alone (the batch, or the
    sequence and nothing else) may cut them further
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

def Plan_OverlapOp : Plan_Entry<"overlap"> {
  let summary = "Exchanges of parameters and gradients run beside the computation";
  let description = [{
    Where layers repeat, weights are gathered while the layer before computes, and gradients
    are summed while the one behind does. What is under way has two places in memory. Without
    it a rank does one thing after the other. `bucket` bounds the bytes of what travels as one
    message, 25 MiB where it is not there; what is larger by itself is a message of its own.

    ```mlir
    plan.overlap bucket 8388608
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$bucket);
  let assemblyFormat = "(`bucket` $bucket^)? attr-dict";
  let hasVerifier = 1;
}

def Plan_PrecisionOp : Plan_Entry<"precision"> {
  let summary = "The types in which the operators at a path compute and their results are kept";
  let description = [{
    `compute`: matrix products, products of experts and attention at the path, forward and
    backward, take operands of this type. They add up in f32 and yield f32. `store`: what
    operators at the path make in the forward half is rounded to this type where products
    take it or the backward half reads it; matrix products of the forward half that compute
    in f32 take it unrounded. The type is bf16; what is left out, and what is computed at a
    path that is not listed, is f32, as are kept parameters, their gradients, and sums over
    ranks.
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$path, OptionalAttr<TypeAttr>:$compute,
                       OptionalAttr<TypeAttr>:$store);
  let assemblyFormat = "$kind $path (`compute` $compute^)? (`store` $store^)? attr-dict";
  let hasVerifier = 1;
}

def Plan_PipelineOp : Plan_Entry<"pipeline", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "The stages that the ranks along an axis go through, and their schedule";
  let description = [{
    Holds the stages in the order of the model, as many for each rank of `axis`. Stage
    s of S is on rank s mod P of it. A parameter of several stages has a `plan.shared`.
    Without a pipeline every rank has all layers.
  }];
  let arguments = (ins StrAttr:$schedule, StrAttr:$axis);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$schedule `over` $axis attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

class Plan_PipelineEntry<string mnemonic> : Plan_Op<mnemonic, [HasParent<"PipelineOp">]>;

def Plan_StageOp : Plan_PipelineEntry<"stage"> {
  let summary = "The layers of a stage: kinds in the order of the model, and how many of each";
  let description = [{
    Embedding and head are layers too, and may be a stage of their own.
  }];
  let arguments = (ins StrArrayAttr:$layers, DenseI64ArrayAttr:$counts);
  let assemblyFormat = "`layers` $layers `counts` $counts attr-dict";
  let hasVerifier = 1;
}

def Plan_SharedOp : Plan_PipelineEntry<"shared"> {
  let summary = "A parameter that layers of several stages use";
  let description = [{
    A tied embedding, above all. Each rank that has one of the stages holds a copy. It is
    one parameter: its gradient is the sum of all stages' gradients, and it counts once
    in a norm.
  }];
  let arguments = (ins StrAttr:$parameter, DenseI64ArrayAttr:$stages);
  let assemblyFormat = "$parameter `stages` $stages attr-dict";
}

def Plan_AssignOp : Plan_Entry<"assign"> {
  let summary = "Which axes each factor of the operators at a path takes, forward and backward";
  let arguments = (ins StrAttr:$kind, StrAttr:$path, DictionaryAttr:$factors);
  let assemblyFormat = "$kind $path $factors attr-dict";
}

#endif
