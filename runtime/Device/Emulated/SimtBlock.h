//===- SimtBlock.h - a block of CUDA threads as fibres ----------*- C++ -*-===//
//
// The scheduler of the shim (see Simt.h): every thread of a block is a fibre. A warp,
// picked at random (from a seed), runs until none of its threads can go on. What a warp
// does together (a shuffle, a product of tiles) is done once, by the scheduler, when all
// of its threads have come to it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "SimtMemory.h"

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <ucontext.h>
#include <vector>

namespace simt {

struct Index {
  int x = 0, y = 0, z = 0;
};

enum class State { Ready, AtBarrier, AtWarp, Done, Failed };

/// What a warp does together: of each lane its operands, null where a lane has left.
struct WarpOperation {
  const char *name;
  void (*perform)(void *const *operands, int lanes);
  bool withoutSome = false; ///< also if some threads of the warp have left
};

struct Thread {
  ucontext_t start; ///< used once, to enter the fibre's stack
  jmp_buf place;    ///< where it goes on
  std::unique_ptr<char[]> stack;
  bool entered = false;
  State state = State::Ready;
  const WarpOperation *operation = nullptr; ///< that it waits at
  void *operands = nullptr;
  Copies copies;
};

constexpr int kWarp = 32;
constexpr size_t kStackBytes = 64 * 1024;

/// The block that is running.
struct Block {
  std::vector<Thread> threads;
  int current = -1; ///< -1: the scheduler
  jmp_buf scheduler;
  const std::function<void()> *kernel = nullptr;
  std::string error;
  bool broken = false;
};

// CUDA's names are globals, so the shim's state is too: it is that of the library which holds
// the kernels, and of one thread at a time.
inline Block block;
inline Index threadIndex, blockIndex, blockSize, gridSize;

inline Thread &self() { return block.threads[block.current]; }

/// Leaves the running fibre until the scheduler makes it ready again.
inline void wait(State state) {
  Thread &thread = self();
  thread.state = state;
  if (_setjmp(thread.place) == 0) {
    block.current = -1;
    _longjmp(block.scheduler, 1);
  }
}

/// Ends the block with an error of the running fibre.
inline void fail(const std::string &what) {
  watched = false;
  if (block.error.empty())
    block.error = "thread " + std::to_string(block.current) + " " + what;
  if (block.current >= 0)
    wait(State::Failed);
}

/// The running thread's part of what its warp does together.
inline void together(const WarpOperation &operation, void *operands) {
  Unwatched shim;
  self().operation = &operation;
  self().operands = operands;
  wait(State::AtWarp);
}

inline bool isOnAStack(const char *address) {
  if (block.current < 0)
    return true;
  const char *stack = self().stack.get();
  return address >= stack && address < stack + kStackBytes;
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
  if (_setjmp(block.scheduler) != 0)
    return;
  block.current = id;
  threadIndex.x = id;
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

/// Does what all threads of a warp wait for; false if they don't, or not for the same.
inline bool performTogether(int first, int last) {
  if (!allIn(first, last, State::AtWarp, /*orDone=*/true))
    return false;
  const WarpOperation *operation = nullptr;
  void *operands[kWarp] = {};
  bool all = true;
  for (int id = first; id < last; ++id) {
    const Thread &thread = block.threads[id];
    if (thread.state == State::Done) {
      all = false;
      continue;
    }
    if (operation && thread.operation != operation) {
      fail(std::string("of a warp is at '") + thread.operation->name + "', another one at '" +
           operation->name + "'");
      return false;
    }
    operation = thread.operation;
    operands[id - first] = thread.operands;
  }
  if (!operation || (!all && !operation->withoutSome))
    return false;
  if (operation->perform)
    operation->perform(operands, last - first);
  release(first, last, State::AtWarp);
  return true;
}

/// Runs a warp as far as it comes on its own; whether anything moved.
inline bool runWarp(int first, int last, std::mt19937 &random) {
  bool moved = false;
  std::vector<int> ready;
  while (block.error.empty()) {
    ready.clear();
    for (int id = first; id < last; ++id)
      if (block.threads[id].state == State::Ready)
        ready.push_back(id);
    if (ready.empty() && !performTogether(first, last))
      return moved;
    moved = true;
    if (ready.empty())
      continue;
    // Lanes go in an order of chance too: none may rely on lockstep.
    int turn = random() % ready.size();
    for (size_t i = 0; i < ready.size() && block.error.empty(); ++i)
      resume(ready[(i + turn) % ready.size()]);
  }
  return moved;
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
    thread.copies.clear();
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

inline bool runBlock(int threads, std::mt19937 &random) {
  prepare(threads);
  memory.poisonShared();
  int warps = (threads + kWarp - 1) / kWarp;
  std::vector<int> order(warps);
  while (!allIn(0, threads, State::Done, false)) {
    bool moved = false;
    for (int i = 0; i < warps; ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (int warp : order) {
      int first = warp * kWarp;
      moved |= runWarp(first, std::min(first + kWarp, threads), random);
      if (!block.error.empty())
        return false;
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

struct Grid {
  int64_t blocks = 1;
  int threads = 1;
  int64_t sharedBytes = 0; ///< dynamic shared memory of a block
  unsigned seed = 0;
};

/// Runs `kernel` for each block, in an order of chance; the error, or nothing.
inline std::string launch(const Grid &grid, const std::function<void()> &kernel) {
  std::mt19937 random(grid.seed);
  block.kernel = &kernel;
  block.error.clear();
  blockSize = {grid.threads, 1, 1};
  gridSize = {int(grid.blocks), 1, 1};
  memory.setDynamicShared(grid.sharedBytes);
  std::vector<int> order(grid.blocks);
  for (int i = 0; i < int(grid.blocks); ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (int index : order) {
    blockIndex.x = index;
    if (!runBlock(grid.threads, random)) {
      block.broken = true;
      return "block " + std::to_string(index) + ": " + block.error;
    }
  }
  return "";
}

} // namespace simt
