//===- Geometry.h - who computes which part of a kernel ---------*- C++ -*-===//
//
// Chooses the team that computes a row of a planned kernel, and the launch. A
// function of shapes and addresses only, so the same kernel always has the same
// order of additions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Target/Kernel/Kernel.h"

namespace cleave::cuda {

enum class Team {
  Grid,   ///< elements one by one over the whole grid, no rows
  Thread, ///< a row per thread: short rows, neighbours in memory
  Column, ///< threads x, x + 32, x + 64 … of a block: neighbouring rows read together
  Warp,   ///< a row per warp
  Block,  ///< a row per block
};

struct Geometry {
  Team team = Team::Grid;
  unsigned threads = 256; ///< of a block
  unsigned teamSize = 1;  ///< threads of a row
  int64_t blocks = 1;

  int64_t rowsPerBlock() const { return threads / teamSize; }
  /// Whether the threads of a block meet at barriers, so that none may leave.
  bool meetsInBlocks() const { return team == Team::Block || team == Team::Column; }
};

Geometry chooseGeometry(const target::Kernel &kernel);

/// Neighbours along the last dimension of `nest` (its rows, if it has none) that one
/// thread takes: 4 if memory can be read or written so, else 1.
unsigned groupOf(const target::Kernel &kernel, const target::Nest &nest, Team team);

/// Whether `nest` is one sum over tokens of which an id names the row: threads then
/// look for the row's tokens instead of adding zeros.
bool isScatter(const target::Nest &nest);

int64_t productOf(llvm::ArrayRef<int64_t> extents);

/// What the planner may put into buffers for a row; shared memory holds them.
inline constexpr int64_t kSharedBytes = 40 * 1024;

} // namespace cleave::cuda
