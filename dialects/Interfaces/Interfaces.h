//===- Interfaces.h - What an operator says about itself -------------------===//
//
// The C++ side of Interfaces.td. Include this to implement or to use an
// operator interface.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Interfaces/Fusion.h"
#include "dialects/Interfaces/HostTensor.h"
#include "dialects/Interfaces/LibraryKernel.h"
#include "dialects/Interfaces/ShardingRule.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace cleave {

/// What a state operator does to the tensor that it addresses.
enum class StateAccess { Read, Write, Accumulate };

/// Rows (indices of the first dimension) of a kept tensor: as many as the value has,
/// from `begin` + `step` · iteration of the repeat around on, of `all`.
struct StateRows {
  int64_t begin, step, all;
  bool operator==(const StateRows &) const = default;
};

/// How a repeat slices one dimension: into `pieces`, of which each has a part of
/// each of `blocks` blocks.
struct Slicing {
  int64_t dim;
  int64_t pieces;
  int64_t blocks;
};

} // namespace cleave

#include "dialects/Interfaces/Interfaces.h.inc"
