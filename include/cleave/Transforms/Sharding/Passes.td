//===- Passes.td - Passes that spread and carry out shardings --------------===//
#ifndef CLEAVE_TRANSFORMS_SHARDING
#define CLEAVE_TRANSFORMS_SHARDING
include "mlir/Pass/PassBase.td"

def PropagateShardingsPass : Pass<"cleave-sharding-propagate", "::mlir::ModuleOp"> {
  let summary = "Work out where every value lies from what the plan assigns to factors";
  let description = [{
    Walks the entries and the functions that they call in order. An operator
    with `dist.factors` is cut as that says; another one is cut as its operands
    are. From the factors follow the sharding that each operand must have
    (`dist.in`) and that each result gets (`dist.out`): a factor that a result
    lacks leaves it partial. A partial operand stays partial where the operator
    is linear in it and does not use the axis itself. State operators add the
    axes over which contributions are partial to the slot's sharding.

    Precondition: `cleave-apply` or attributes written by hand. Idempotent.
  }];
}

def InsertReshardsPass : Pass<"cleave-sharding-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Put a dist.reshard wherever a value lies otherwise than its user needs";
  let description = [{ One reshard for all users of a value that need the same sharding. }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
  let statistics = [Statistic<"numReshards", "reshards", "Reshards inserted">];
}

def NarrowMovesPass : Pass<"cleave-sharding-narrow-moves", "::mlir::ModuleOp"> {
  let summary = "Move values between ranks in the narrower of the types around a reshard";
  let description = [{
    An operator that makes each element of that element alone commutes with a reshard
    that only moves elements (it completes no sum). Where such an operator narrows all
    that a function reads of an argument, and a caller reshards that, callers
    narrow their own block before it is sent. Where one widens what is then
    resharded, the reshard comes first. No value changes.

    Precondition: reshards are inserted.
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
  let statistics = [Statistic<"numMoves", "moves", "Reshards that move narrower values">];
}

def PartitionPass : Pass<"cleave-partition", "::mlir::ModuleOp"> {
  let summary = "Rewrite the program for one rank: local shapes and collectives";
  let description = [{
    Every value gets the type of one rank's block, every operator builds its
    local form (`ShardingRuleOpInterface::buildLocal`), every `dist.reshard`
    becomes collectives. Padding of uneven blocks is masked where it would reach
    a reduction or a stored tensor.

    Precondition: reshards are inserted. Afterwards no `dist.in` or `dist.out` is left.
  }];
  let dependentDialects = ["::cleave::dist::DistDialect"];
}

#endif
