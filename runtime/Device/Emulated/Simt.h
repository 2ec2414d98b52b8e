//===- Simt.h - CUDA C++ on the CPU, one block at a time --------*- C++ -*-===//
//
// Included before emitted CUDA text, lets a C++ compiler build it and runs it: every
// CUDA thread is a fibre with a stack of its own. A warp, picked at random (from a
// seed), runs until none of its threads can go on, so warps drift as far apart as
// the barriers allow; a missing barrier then shows as a wrong result. Shared memory
// is filled with NaN before each block, and asynchronous copies arrive when they are
// waited for. A block in which nothing can go on is reported as a deadlock; memory that
// was not given, as such (see SimtMemory.h).
//
// Covers what emitted kernels use: barriers, shuffles and votes of full warps, atomics,
// static and dynamic shared memory, and the twins of the PTX that the text's wrappers hold
// (Ptx.cuh of lib/Target/CUDA). Not here: timing, races inside a warp, blocks that run at once.
//
// Built with -x c++ -fno-strict-aliasing -fwrapv.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "SimtWarp.h"

#include <tuple>
#include <utility>

namespace simt {

template <class... Args, size_t... index>
std::string launchAt(void (*kernel)(Args...), void *const *args, const long long *bytes,
                     const Grid &grid, std::index_sequence<index...>) {
  memory.give(args, bytes, sizeof...(Args));
  return launch(grid, [kernel, args] {
    void (*const own)(Args...) = kernel;
    std::tuple<Args...> values{static_cast<Args>(args[index])...};
    watched = true;
    own(std::get<index>(values)...);
    watched = false;
  });
}

/// The same with arguments by address, of which the kernel's type says what they are.
template <class... Args>
std::string launchWith(void (*kernel)(Args...), void *const *args, const long long *bytes,
                       const Grid &grid) {
  return launchAt(kernel, args, bytes, grid, std::index_sequence_for<Args...>());
}

} // namespace simt

/// A C function that launches a kernel of the text: the error, or an empty text. `bytes` are
/// those of each argument, or null where nobody looks at what is touched.
#define SIMT_KERNEL(name)                                                                          \
  extern "C" __attribute__((visibility("default"))) const char *simt_launch_##name(                \
      void *const *args, const long long *bytes, long long blocks, int threads,                    \
      long long sharedBytes, unsigned seed) {                                                      \
    static std::string error;                                                                      \
    error = simt::launchWith(name, args, bytes, {blocks, threads, sharedBytes, seed});             \
    return error.c_str();                                                                          \
  }

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__ __restrict
#define __forceinline__ inline
#define __shared__ static __attribute__((section("simt_shared")))
#define threadIdx simt::threadIndex
#define blockIdx simt::blockIndex
#define blockDim simt::blockSize
#define gridDim simt::gridSize

inline void __syncthreads() {
  simt::Unwatched shim;
  simt::wait(simt::State::AtBarrier);
}
inline void __syncwarp(unsigned = 0xffffffffu) { simt::together(simt::kSyncWarp, nullptr); }

template <class T> T __shfl_xor_sync(unsigned, T value, int mask) {
  return simt::shuffle(value, simt::lane() ^ mask);
}
template <class T> T __shfl_sync(unsigned, T value, int from) {
  return simt::shuffle(value, from % simt::kWarp);
}
inline unsigned __ballot_sync(unsigned, int mine) { return simt::vote(mine != 0); }
inline int __any_sync(unsigned mask, int mine) { return __ballot_sync(mask, mine) != 0; }
inline int __all_sync(unsigned mask, int mine) { return __ballot_sync(mask, !mine) == 0; }

template <class T> T atomicAdd(T *at, T value) {
  return simt::atomic<T>(at, [&](T old) { return old + value; });
}
template <class T> T atomicMax(T *at, T value) {
  return simt::atomic<T>(at, [&](T old) { return old < value ? value : old; });
}

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

// The twins of the text's wrappers around PTX.
#define CLEAVE_SIMT 1
#define DYNAMIC_SHARED(name) unsigned char *const name = simt::memory.dynamicShared()
template <int count> void loadMatrices(unsigned *registers, const void *row) {
  simt::loadMatrices<count, false>(registers, row);
}
template <int count> void loadMatricesTransposed(unsigned *registers, const void *row) {
  simt::loadMatrices<count, true>(registers, row);
}
inline void multiplyBf16(float *sums, const unsigned *a, const unsigned *b) {
  simt::TileProduct operands{sums, a, b};
  simt::together(simt::kBf16Product, &operands);
}
inline void multiplyHalf(float *sums, const unsigned *a, const unsigned *b) {
  simt::TileProduct operands{sums, a, b};
  simt::together(simt::kHalfProduct, &operands);
}
inline void copyAsync16(void *to, const void *from, int bytes = 16) {
  simt::copyAsync(to, from, bytes);
}
inline void commitCopies() {
  simt::Unwatched shim;
  simt::self().copies.commit();
}
template <int groups> void waitForCopies() {
  simt::Unwatched shim;
  simt::self().copies.waitForAllBut(groups);
}

#ifdef SIMT_CHECKED
// What a compiler calls before each access, with -fsanitize=kernel-address: here too, but for
// these functions.
#define SIMT_HOOK __attribute__((no_sanitize("kernel-address")))
namespace simt {
SIMT_HOOK inline void touch(const void *at, size_t bytes, const char *does) {
  if (!watched)
    return;
  watched = false;
  memory.check(at, int64_t(bytes), does);
  watched = true;
}
} // namespace simt
#define SIMT_HOOKS(bytes)                                                                          \
  SIMT_HOOK void __asan_load##bytes##_noabort(void *at) { simt::touch(at, bytes, "reads"); }       \
  SIMT_HOOK void __asan_store##bytes##_noabort(void *at) { simt::touch(at, bytes, "writes"); }
extern "C" {
SIMT_HOOKS(1)
SIMT_HOOKS(2)
SIMT_HOOKS(4)
SIMT_HOOKS(8)
SIMT_HOOKS(16)
SIMT_HOOK void __asan_loadN_noabort(void *at, size_t bytes) { simt::touch(at, bytes, "reads"); }
SIMT_HOOK void __asan_storeN_noabort(void *at, size_t bytes) { simt::touch(at, bytes, "writes"); }
void __asan_register_globals(const simt::Variable *all, size_t count) {
  simt::variables = all;
  simt::variableCount = count;
}
void __asan_unregister_globals(const simt::Variable *, size_t) {}
void __asan_before_dynamic_init(const char *) {}
void __asan_after_dynamic_init() {}
void __asan_handle_no_return() {}
}
#endif
