// The arithmetic of reductions on shared memory: several buffers combined element by
// element, in their order, and the result stored into one or several. Uses what vectors
// the processor has; the results do not depend on it. Internal to Comm.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Comm/Communicator.h"

#include <cstddef>
#include <span>

namespace cleave::rt {

/// Each target [0 … count) = the sources reduced in their order; at least one source. A
/// target may be a source.
void reduceTo(std::span<float *const> targets, std::span<const float *const> sources, size_t count,
              ReduceKind kind);

/// What one position of a reduction adds: floats of one rank or process.
using FloatSource = FunctionRef<const float *(size_t index)>;

/// accumulator[0 … count) = the sources 0 … sources - 1 reduced in that order; at
/// least one source. The accumulator may be the first source.
void reduceInOrder(float *accumulator, size_t count, size_t sources, ReduceKind kind,
                   FloatSource source);

/// For small ones: the same vectors.
void copyLines(float *to, const float *from, size_t count);

/// Nothing where the two are one.
void copyFloats(float *to, const float *from, size_t count);

} // namespace cleave::rt
