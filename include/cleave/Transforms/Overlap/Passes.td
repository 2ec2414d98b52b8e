//===- Passes.td - Passes that let exchanges run beside the computation ----===//
#ifndef CLEAVE_OVERLAP_PASSES
#define CLEAVE_OVERLAP_PASSES
include "mlir/Pass/PassBase.td"

def DecideOverlapPass : Pass<"cleave-overlap-decide", "::mlir::ModuleOp"> {
  let summary = "Decide which exchanges of a repeat run beside the layers before and after";
  let description = [{
    Where the module has `dist.overlap`, exchanges in blocks that repeat are put in buckets
    that run beside the computation:

    - one whose operand is a kept tensor, or rounded from one, comes *ahead*: it is done for
      the next iteration during this one. Weights of ZeRO-3 are gathered so.
    - one whose result is only added to a kept tensor or replaces one stays *behind*: it is
      done for the iteration before during this one. Gradients are summed so.

    Those of one kind over the same axes, and of one direction, are a bucket, up to the
    bytes that `dist.overlap` says, or 25 MiB:

    ```mlir
    nn.repeat 4 … {
      %w = nn.load @"layers.{0..3}.up.weight" value : tensor<8x16xf32>
      %whole = dist.all_gather %w dim 0 on @mesh ["data"] {dist.ahead = 0 : i64}
        : (tensor<8x16xf32>) -> tensor<16x16xf32>
      …
      %sum = dist.reduce_scatter %gradient dim 0 on @mesh ["data"] {dist.behind = 1 : i64}
        : (tensor<16x16xf32>) -> tensor<8x16xf32>
      nn.accumulate %sum, @"layers.{0..3}.up.weight" gradient : tensor<8x16xf32>
    }
    ```

    Nothing is moved here; the target starts buckets and waits for them. Operators are known
    by interfaces: what is kept by `StateOpInterface`, what repeats by `RepeatOpInterface`.

    Precondition: `cleave-partition`.
  }];
  let statistics = [Statistic<"numAhead", "ahead", "Exchanges that come ahead">,
                    Statistic<"numBehind", "behind", "Exchanges that stay behind">];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

def WriteOutLayersPass : Pass<"cleave-overlap-write-out", "::mlir::ModuleOp"> {
  let summary = "Write out layers that are one of their kind in a row";
  let description = [{
    Where the module has `dist.overlap`, a repeat of layers that runs once, and calls
    them, is replaced by its block, so that what such layers exchange can run beside the next
    ones. Operators get the layer's number as `dist.layer`. What one repeat stacks and another
    one scans goes from block to block; a repeat whose whole is needed otherwise stays.

    ```mlir
    %y, %kept = nn.repeat 1 along ["layer"] carry(%x) … attributes {layers = array<i64: 3, 1>} {
    ^bb0(%h: …):
      %r:2 = func.call @full.forward(%h) …
      nn.yield %r#0, %r#1
    }
    // becomes
    %r:2 = call @full.forward(%x) {dist.layer = 3 : i64} …
    ```

    Precondition: `cleave-overlap-decide`, whose buckets are in other repeats.
  }];
  let statistics = [Statistic<"numWritten", "written", "Repeats written out">];
}

def PlaceExchangesPass : Pass<"cleave-overlap-place", "::mlir::ModuleOp"> {
  let summary = "Decide where exchanges of a block that runs once begin and are waited for";
  let description = [{
    Where the module has `dist.overlap`, exchanges in the blocks of entries that run once
    are put in buckets and given the number of theirs as `dist.beside`. Such a block is a row of
    calls and repeats, its stretches of computation.

    - one whose operand is a kept tensor, or a step from one, is moved in front of the stretch
      before its first use, if that changes no such tensor.
    - one whose result is only kept stays, and what is done with the result is moved behind the
      next stretch, if nothing up to there touches what is changed.

    ```mlir
    %w = nn.load @head value …
    %whole = dist.all_gather %w dim 0 on @mesh ["data"] {dist.beside = 4 : i64} …
    %y = nn.repeat 12 …            // meanwhile
    call @head.forward(%y, %whole) // waits
    ```

    Precondition: `cleave-overlap-write-out`.
  }];
  let statistics = [Statistic<"numEarly", "early", "Exchanges begun a stretch early">,
                    Statistic<"numLate", "late", "Exchanges awaited a stretch late">];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

#endif
