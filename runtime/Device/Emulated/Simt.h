//===- Simt.h - CUDA C++ on the CPU, one block at a time --------*- C++ -*-===//
//
// Included before emitted CUDA text, lets a C++ compiler build it and runs it: every
// CUDA thread is a fibre with a stack of its own. A warp, picked at random (from a
// seed), runs until none of its threads can go on, so warps drift as far apart as
// the barriers allow; a missing barrier then shows as a wrong result. Shared memory
// is filled with NaN before each block. A block in which nothing can go on is
// reported as a deadlock.
//
// Covers what emitted row and elementwise kernels use: barriers, xor shuffles of
// full warps, static shared memory. Not here: atomics, tensor cores, asynchronous
// copies, dynamic shared memory, timing, races inside a warp.
//
// Built with -x c++ -fno-strict-aliasing -fwrapv.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <ucontext.h>
#include <utility>
#include <vector>

namespace simt {

struct Index {
  int x = 0, y = 0, z = 0;
};

enum class State { Ready, AtBarrier, AtShuffle, AtWarpBarrier, Done };

struct Thread {
  ucontext_t start; ///< used once, to enter the fibre's stack
  jmp_buf place;    ///< where it goes on
  std::unique_ptr<char[]> stack;
  bool entered = false;
  State state = State::Ready;
  uint64_t sent = 0, received = 0; ///< of a shuffle
  int partner = 0;
};

/// The block that is running.
struct Block {
  std::vector<Thread> threads;
  int current = 0;
  jmp_buf scheduler;
  const std::function<void()> *kernel = nullptr;
  std::string error;
  bool broken = false;
};

// CUDA's names are globals, so the shim's state is too: it is that of the library which holds
// the kernels, and of one thread at a time.
inline Block block;
inline Index threadIndex, blockIndex, blockSize, gridSize;

constexpr int kWarp = 32;
constexpr size_t kStackBytes = 64 * 1024;

/// Leaves the running fibre until the scheduler makes it ready again.
inline void wait(State state) {
  Thread &self = block.threads[block.current];
  self.state = state;
  if (_setjmp(self.place) == 0)
    _longjmp(block.scheduler, 1);
}

/// A fibre, which is the same thread of one block after the other.
inline void enter() {
  for (;;) {
    (*block.kernel)();
    wait(State::Done);
  }
}

/// Runs one thread until it waits or ends.
inline void resume(int id) {
  Thread &thread = block.threads[id];
  block.current = id;
  threadIndex.x = id;
  if (_setjmp(block.scheduler) != 0)
    return;
  if (thread.entered)
    _longjmp(thread.place, 1);
  thread.entered = true;
  setcontext(&thread.start);
}

inline bool allIn(int first, int last, State state, bool orDone) {
  for (int id = first; id < last; ++id)
    if (State is = block.threads[id].state; is != state && !(orDone && is == State::Done))
      return false;
  return true;
}

inline void release(int first, int last, State from) {
  for (int id = first; id < last; ++id)
    if (block.threads[id].state == from)
      block.threads[id].state = State::Ready;
}

/// Runs a warp as far as it comes on its own; whether anything moved.
inline bool runWarp(int first, int last, std::mt19937 &random) {
  bool moved = false;
  for (;;) {
    std::vector<int> ready;
    for (int id = first; id < last; ++id)
      if (block.threads[id].state == State::Ready)
        ready.push_back(id);
    if (!ready.empty()) {
      // Lanes go in an order of chance too: none may rely on lockstep.
      int turn = random() % ready.size();
      for (size_t i = 0; i < ready.size(); ++i)
        resume(ready[(i + turn) % ready.size()]);
      moved = true;
      continue;
    }
    if (allIn(first, last, State::AtShuffle, /*orDone=*/false)) {
      for (int id = first; id < last; ++id) {
        Thread &thread = block.threads[id];
        int from = first + thread.partner;
        thread.received = block.threads[from < last ? from : id].sent;
      }
      release(first, last, State::AtShuffle);
      moved = true;
      continue;
    }
    if (!allIn(first, last, State::Done, false) &&
        allIn(first, last, State::AtWarpBarrier, /*orDone=*/true)) {
      release(first, last, State::AtWarpBarrier);
      moved = true;
      continue;
    }
    return moved;
  }
}

inline void prepare(int threads) {
  if (block.broken) {
    // Fibres of a failed block are somewhere inside of it.
    block.threads.clear();
    block.broken = false;
  }
  // Others stay for a larger block.
  if (static_cast<size_t>(threads) > block.threads.size())
    block.threads.resize(threads);
  for (Thread &thread : block.threads) {
    thread.state = State::Ready;
    if (thread.stack)
      continue;
    thread.stack.reset(new char[kStackBytes]);
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack.get();
    thread.start.uc_stack.ss_size = kStackBytes;
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, enter, 0);
  }
}

// The bounds of the section that `__shared__` puts variables into.
extern "C" char __start_simt_shared[] __attribute__((weak));
extern "C" char __stop_simt_shared[] __attribute__((weak));

inline void poisonShared() {
  if (__start_simt_shared)
    std::memset(__start_simt_shared, 0xff, __stop_simt_shared - __start_simt_shared);
}

inline bool runBlock(int threads, std::mt19937 &random) {
  prepare(threads);
  poisonShared();
  int warps = (threads + kWarp - 1) / kWarp;
  while (!allIn(0, threads, State::Done, false)) {
    bool moved = false;
    std::vector<int> order(warps);
    for (int i = 0; i < warps; ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (int warp : order) {
      int first = warp * kWarp;
      moved |= runWarp(first, std::min(first + kWarp, threads), random);
    }
    if (!moved && allIn(0, threads, State::AtBarrier, /*orDone=*/true)) {
      // A thread that has left counts as arrived on no device we build for.
      if (!allIn(0, threads, State::AtBarrier, false)) {
        block.error = "a barrier is reached by some threads of a block only";
        return false;
      }
      release(0, threads, State::AtBarrier);
      moved = true;
    }
    if (!moved) {
      block.error = "deadlock: no thread of the block can go on";
      return false;
    }
  }
  return true;
}

/// Runs `kernel` for each block, in an order of chance; the error, or nothing.
inline std::string launch(int64_t blocks, int threads, unsigned seed,
                          const std::function<void()> &kernel) {
  std::mt19937 random(seed);
  block.kernel = &kernel;
  block.error.clear();
  blockSize = {threads, 1, 1};
  gridSize = {int(blocks), 1, 1};
  std::vector<int> order(blocks);
  for (int i = 0; i < int(blocks); ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (int index : order) {
    blockIndex.x = index;
    if (!runBlock(threads, random)) {
      block.broken = true;
      return "block " + std::to_string(index) + ": " + block.error;
    }
  }
  return "";
}

template <class... Args, size_t... index>
std::string launchAt(void (*kernel)(Args...), void *const *args, int64_t blocks, int threads,
                     unsigned seed, std::index_sequence<index...>) {
  return launch(blocks, threads, seed, [&] { kernel(static_cast<Args>(args[index])...); });
}

/// The same with arguments by address, of which the kernel's type says what they are.
template <class... Args>
std::string launchWith(void (*kernel)(Args...), void *const *args, int64_t blocks, int threads,
                       unsigned seed) {
  return launchAt(kernel, args, blocks, threads, seed, std::index_sequence_for<Args...>());
}

} // namespace simt

/// A C function that launches a kernel of the text: the error, or an empty text.
#define SIMT_KERNEL(name)                                                                          \
  extern "C" __attribute__((visibility("default"))) const char *simt_launch_##name(                \
      void *const *args, long long blocks, int threads, unsigned seed) {                           \
    static std::string error;                                                                      \
    error = simt::launchWith(name, args, blocks, threads, seed);                                   \
    return error.c_str();                                                                          \
  }

#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__ __restrict
#define __shared__ static __attribute__((section("simt_shared")))
#define threadIdx simt::threadIndex
#define blockIdx simt::blockIndex
#define blockDim simt::blockSize
#define gridDim simt::gridSize

inline void __syncthreads() { simt::wait(simt::State::AtBarrier); }
inline void __syncwarp(unsigned = 0xffffffffu) { simt::wait(simt::State::AtWarpBarrier); }

template <class T> T __shfl_xor_sync(unsigned, T value, int mask) {
  static_assert(sizeof(T) <= 8);
  simt::Thread &self = simt::block.threads[simt::block.current];
  self.sent = 0;
  std::memcpy(&self.sent, &value, sizeof(T));
  self.partner = (simt::block.current % simt::kWarp) ^ mask;
  simt::wait(simt::State::AtShuffle);
  T result;
  std::memcpy(&result, &simt::block.threads[simt::block.current].received, sizeof(T));
  return result;
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
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
