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

    Those of one kind over the same axes, and of one direction, are a bucket:

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

#endif
