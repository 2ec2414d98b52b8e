//===- Pipe.td - Pipelines as data -----------------------------------------===//
#ifndef CLEAVE_PIPE
#define CLEAVE_PIPE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Pipe_Dialect : Dialect {
  let name = "pipe";
  let cppNamespace = "::cleave::pipe";
  let summary = "Who does what of a pipeline, and in which order";
  let description = [{
    A step of a pipeline as a table: for each rank of the pipeline an ordered list
    of actions. Nothing is left to be worked out when it runs.

    ```mlir
    pipe.schedule @step "1f1b" micro_batches 2 buffers 1 {
      pipe.stage 0 on 0 layers ["embed", "block"] counts [1, 2]
      pipe.stage 1 on 1 layers ["block", "head"] counts [2, 1]
      pipe.rank 0 slots 2 [
        F0.0[0], send A1.0[0] to 1,
        F0.1[1], send A1.1[1] to 1,
        recv G1.0[0] from 1, B0.0[0],
        recv G1.1[1] from 1, B0.1[1]
      ]
      pipe.rank 1 slots 1 [
        recv A1.0[0] from 0, F1.0[0],
        B1.0[0], send G1.0[0] to 0,
        recv A1.1[0] from 0, F1.1[0],
        B1.1[0], send G1.1[0] to 0
      ]
    }
    ```

    Stages are numbered in the order of the model; a rank may have several of them
    (virtual stages). Micro-batches are numbered too. `F1.0` is the forward of stage 1
    for micro-batch 0 and `B1.0` its backward. Where a schedule keeps weight gradients
    apart, `B1.0` is the gradient of the input alone and `W1.0` that of the weights.
    `A1.0` is the activation that enters stage 1 (all the values that its layer is given by
    the one before) and `G1.0` its gradient.

    **Slots.** Between brackets stands the slot of the rank's memory that holds what a
    stage keeps of a micro-batch, from its first action (receiving the activation) to
    its last. A slot fits any of the rank's stages. What is received is written to the
    slot of the stage that reads it, and what is sent is read from the slot of the stage
    that made it.

    **Channels.** For each ordered pair of ranks, activations go through one channel
    and gradients through another. Each has one order, that of the sender's list. A
    channel holds `buffers` values: a send waits while it is full, a receive while it
    is empty, and nothing else waits for another rank.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Pipe_ActionsAttr : AttrDef<Pipe_Dialect, "Actions"> {
  let mnemonic = "actions";
  let summary = "What a rank does, in order";
  let description = [{
    Actions between brackets: `F0.3[1]` forward, `B0.3[1]` backward, `W0.3[1]` gradient of
    the weights, each with stage, micro-batch and slot; `send A1.3[1] to 2`,
    `recv A1.3[1] from 0`, and the same with `G`, with the stage that the activation enters.
    Lines are broken after what follows a computation.
  }];
  let parameters = (ins ArrayRefParameter<"::cleave::pipe::Action">:$actions);
  let hasCustomAssemblyFormat = 1;
}

class Pipe_Op<string mnemonic, list<Trait> traits = []> : Op<Pipe_Dialect, mnemonic, traits>;

def Pipe_Count : ConfinedAttr<I64Attr, [IntPositive, IntMaxValue<0x7fffffff>]>;
def Pipe_Index : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<0x7fffffff>]>;

def Pipe_ScheduleOp : Pipe_Op<"schedule", [Symbol, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "One step of a pipeline";
  let description = [{
    Holds its stages in order, then its ranks in order. What is verified:

    1. Each rank has a stage, and each stage a rank.
    2. The rank of a stage does its forward and its backward once for each
       micro-batch, and nobody else does. Gradients of weights are apart for all of
       them or for none.
    3. On a rank a forward comes before its backward, and that before the gradient of
       the weights. A stage comes after what it reads, whether that is received or
       made on the same rank.
    4. What another rank needs is sent to it once, and received once.
    5. All actions of a stage and micro-batch name one slot, which nobody else takes
       until the last of them (or, where the stage before is on the same rank, until
       that has read the gradient).
    6. Each channel's values are received in the order in which they are sent.
    7. With channels of `buffers` values no rank waits for ever.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$schedule, Pipe_Count:$micro_batches,
                       Pipe_Count:$buffers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name $schedule `micro_batches` $micro_batches `buffers` $buffers attr-dict-with-keyword
    $body
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The same as plain data.
    ::cleave::pipe::Table getTable();
  }];
}

class Pipe_Entry<string mnemonic> : Pipe_Op<mnemonic, [HasParent<"ScheduleOp">]>;

def Pipe_StageOp : Pipe_Entry<"stage"> {
  let summary = "A stage, its rank, and the layers that it is made of";
  let description = [{
    `layers` names kinds of layers in the order of the model, `counts` how many of each
    follow each other.
  }];
  let arguments = (ins Pipe_Index:$index, Pipe_Index:$rank, OptionalAttr<StrArrayAttr>:$layers,
                       OptionalAttr<DenseI64ArrayAttr>:$counts);
  let assemblyFormat = [{
    $index `on` $rank (`layers` $layers^ `counts` $counts)? attr-dict
  }];
  let hasVerifier = 1;
}

def Pipe_RankOp : Pipe_Entry<"rank"> {
  let summary = "What one rank does";
  let arguments = (ins Pipe_Index:$index, Pipe_Count:$slots, Pipe_ActionsAttr:$actions);
  let assemblyFormat = "$index `slots` $slots $actions attr-dict";
}

#endif
