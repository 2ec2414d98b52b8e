// Reductions over vectors of 16 floats, compiled for each width that processors have.
#include "runtime/Comm/Local/Reduction.h"

#include <cstring>

#if defined(__x86_64__)
// One body, a version for each instruction set, chosen when the program starts.
#define CLEAVE_RT_ANY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLEAVE_RT_ANY_WIDTH
#endif

namespace cleave::rt {

namespace {

/// A cache line of floats.
using Line = float __attribute__((vector_size(64)));
constexpr size_t lineFloats = 16;

/// At any address.
[[gnu::always_inline]] inline Line load(const float *address) {
  Line line;
  std::memcpy(&line, address, sizeof(line));
  return line;
}

[[gnu::always_inline]] inline void store(float *address, Line line) {
  std::memcpy(address, &line, sizeof(line));
}

struct Addition {
  template <typename T> static T of(T a, T b) { return a + b; }
};

/// A maximum with a NaN is NaN.
struct Maximum {
  template <typename T> static T of(T a, T b) { return b > a || b != b ? b : a; }
  static Line of(Line a, Line b) { return ((b > a) | (b != b)) ? b : a; }
};

/// Plain pointers: clang does not emit what only functions of several versions use.
struct Targets {
  float *const *data;
  size_t count;
};
struct Sources {
  const float *const *data;
  size_t count;
};

template <typename Operation>
[[gnu::always_inline]] inline void reduceOne(Targets targets, Sources sources, size_t i) {
  float value = sources.data[0][i];
  for (size_t r = 1; r < sources.count; ++r)
    value = Operation::of(value, sources.data[r][i]);
  for (size_t t = 0; t < targets.count; ++t)
    targets.data[t][i] = value;
}

/// `lines` cache lines from `i` on.
template <typename Operation, size_t lines>
[[gnu::always_inline]] inline void reduceBlock(Targets targets, Sources sources, size_t i) {
  Line values[lines];
  for (size_t line = 0; line < lines; ++line)
    values[line] = load(sources.data[0] + i + line * lineFloats);
  for (size_t r = 1; r < sources.count; ++r)
    for (size_t line = 0; line < lines; ++line)
      values[line] = Operation::of(values[line], load(sources.data[r] + i + line * lineFloats));
  for (size_t t = 0; t < targets.count; ++t)
    for (size_t line = 0; line < lines; ++line)
      store(targets.data[t] + i + line * lineFloats, values[line]);
}

template <typename Operation>
[[gnu::always_inline]] inline void reduceLines(Targets targets, Sources sources, size_t count) {
  // The loops over ranks cost more than a line does: several lines share one.
  constexpr size_t lines = 4;
  size_t i = 0;
  for (; i + lines * lineFloats <= count; i += lines * lineFloats)
    reduceBlock<Operation, lines>(targets, sources, i);
  for (; i + lineFloats <= count; i += lineFloats)
    reduceBlock<Operation, 1>(targets, sources, i);
  for (; i < count; ++i)
    reduceOne<Operation>(targets, sources, i);
}

[[gnu::always_inline]] inline void copyEach(float *to, const float *from, size_t count) {
  size_t i = 0;
  for (; i + lineFloats <= count; i += lineFloats)
    store(to + i, load(from + i));
  for (; i < count; ++i)
    to[i] = from[i];
}

CLEAVE_RT_ANY_WIDTH void addLines(Targets targets, Sources sources, size_t count) {
  reduceLines<Addition>(targets, sources, count);
}
CLEAVE_RT_ANY_WIDTH void maxLines(Targets targets, Sources sources, size_t count) {
  reduceLines<Maximum>(targets, sources, count);
}

CLEAVE_RT_ANY_WIDTH void copyAll(float *to, const float *from, size_t count) {
  copyEach(to, from, count);
}

} // namespace

void copyLines(float *to, const float *from, size_t count) { copyAll(to, from, count); }

void reduceTo(std::span<float *const> targets, std::span<const float *const> sources, size_t count,
              ReduceKind kind) {
  const Targets to{targets.data(), targets.size()};
  const Sources from{sources.data(), sources.size()};
  if (kind == ReduceKind::Sum)
    addLines(to, from, count);
  else
    maxLines(to, from, count);
}

void reduceInOrder(float *accumulator, size_t count, size_t sources, ReduceKind kind,
                   FloatSource source) {
  constexpr size_t most = 16;
  const float *addends[most] = {source(0)};
  size_t taken = 1, pending = 1;
  do {
    while (taken < sources && pending < most)
      addends[pending++] = source(taken++);
    reduceTo(std::span(&accumulator, 1), std::span(addends, pending), count, kind);
    addends[0] = accumulator;
    pending = 1;
  } while (taken < sources);
}

void copyFloats(float *to, const float *from, size_t count) {
  if (to != from && count > 0)
    std::memcpy(to, from, count * sizeof(float));
}

} // namespace cleave::rt
