//===- Passes.td - Passes that group operators into kernels ----------------===//
#ifndef CLEAVE_FUSION_PASSES
#define CLEAVE_FUSION_PASSES
include "mlir/Pass/PassBase.td"

def FusionDecidePass : Pass<"cleave-fusion-decide", "::mlir::ModuleOp"> {
  let summary = "Writes which operators are computed in one kernel";
  let description = [{
    Gives every operator that a generated kernel can compute an attribute
    `fusion.group = N : i64`; those with one number become one kernel. Groups are
    made greedily in program order: an operator joins the group of a producer, or
    of another reader of one of its operands, if all their results have the same
    rows and no path between them leads through an operator outside. Nothing is
    computed twice.

    Before that, an operator whose results have different rows becomes one
    operator for each, large reductions to a scalar are done in two stages, and
    constants are copied to their readers. After it the members of a group stand
    next to each other. A `fusion.group` that is there already is kept.
  }];
}

#endif
