//===- SimtMemory.h - shared and global memory of the shim ------*- C++ -*-===//
//
// What a kernel may touch: shared memory, static and dynamic, and the memory that a launch
// was given. Where the text is compiled with -fsanitize=kernel-address (SIMT_CHECKED), the
// compiler calls back before each access, and one that is outside, or not aligned, ends the
// launch with the place: beside which argument, or which variable. Without it, only what the
// shim does itself (asynchronous copies, loads of matrices, atomics) is looked at.
//
// Asynchronous copies are done when they are waited for and not before: until then their
// target holds NaN.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// The bounds of the section that `__shared__` puts variables into, and of the library.
extern "C" char __start_simt_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_simt_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __ehdr_start[] __attribute__((weak, visibility("hidden")));
extern "C" char _end[] __attribute__((weak, visibility("hidden")));

namespace simt {

void fail(const std::string &what);
bool isOnAStack(const char *address);

/// Whether the text's own code runs, and not the shim's.
inline bool watched = false;

/// The shim's code, called by a fibre.
struct Unwatched {
  Unwatched() { watched = false; }
  ~Unwatched() { watched = true; }
  Unwatched(const Unwatched &) = delete;
  Unwatched &operator=(const Unwatched &) = delete;
};

struct Range {
  const char *first = nullptr;
  int64_t bytes = 0;
  std::string name;
  bool holds(const char *address, int64_t count) const {
    return address >= first && address + count <= first + bytes;
  }
};

/// Asynchronous copies of one thread that were not waited for.
class Copies {
public:
  void start(char *to, const char *from, int bytes) {
    std::memset(to, 0xff, 16);
    pending.push_back({to, from, bytes, committed});
  }
  void commit() { ++committed; }
  /// Does those of all groups but the last `groups`.
  void waitForAllBut(int groups) {
    size_t done = 0;
    for (; done < pending.size() && pending[done].group < committed - groups; ++done) {
      const Copy &copy = pending[done];
      std::memcpy(copy.to, copy.from, copy.bytes);
      std::memset(copy.to + copy.bytes, 0, 16 - copy.bytes);
    }
    pending.erase(pending.begin(), pending.begin() + done);
  }
  void clear() {
    pending.clear();
    committed = 0;
  }

private:
  struct Copy {
    char *to;
    const char *from;
    int bytes, group;
  };
  std::vector<Copy> pending;
  int committed = 0;
};

/// How a compiler describes a variable of the text; it does so before anything is constructed.
struct Variable {
  const char *first;
  size_t bytes, withGap;
  const char *name, *file;
  size_t isInitialized;
  const void *place;
  size_t indicator;
};
inline const Variable *variables = nullptr;
inline size_t variableCount = 0;

class Memory {
public:
  /// The arguments of a launch; null `bytes`: they are not known, and all is allowed.
  void give(void *const *args, const long long *bytes, int count) {
    given.clear();
    last = nullptr;
    isKnown = bytes != nullptr;
    for (int i = 0; isKnown && i < count; ++i)
      given.push_back(
          {static_cast<const char *>(args[i]), bytes[i], "argument " + std::to_string(i)});
    if (!shared.empty() || !isKnown)
      return;
    for (size_t i = 0; i < variableCount; ++i)
      if (const Variable &each = variables[i]; isStatic(each.first))
        shared.push_back({each.first, int64_t(each.bytes), std::string(each.name)});
    // Not every compiler tells.
    if (shared.empty() && __start_simt_shared)
      shared.push_back(
          {__start_simt_shared, __stop_simt_shared - __start_simt_shared, "shared memory"});
  }
  void setDynamicShared(int64_t bytes) {
    storage.assign(bytes / 16 + 2, Aligned());
    dynamic = {reinterpret_cast<const char *>(storage.data()), bytes, "dynamic shared memory"};
  }
  unsigned char *dynamicShared() { return reinterpret_cast<unsigned char *>(storage.data()); }

  void poisonShared() {
    if (__start_simt_shared)
      std::memset(__start_simt_shared, 0xff, __stop_simt_shared - __start_simt_shared);
    std::memset(static_cast<void *>(storage.data()), 0xff, dynamic.bytes);
  }

  /// Fails if the running thread may not touch these bytes.
  void check(const void *address, int64_t bytes, const char *does) {
    const char *first = static_cast<const char *>(address);
    if (isOnAStack(first) || bytes == 0)
      return;
    if (bytes <= 16 && reinterpret_cast<uintptr_t>(first) % (bytes & -bytes) != 0)
      return fail(place(first, bytes, does) + ", which is not aligned");
    if (!isKnown || (last && last->holds(first, bytes)) || isAllowed(first, bytes))
      return;
    fail(place(first, bytes, does));
  }
  /// The same of what must be shared memory.
  void checkShared(const void *address, int64_t bytes, const char *does) {
    const char *first = static_cast<const char *>(address);
    if (!isStatic(first) && !dynamic.holds(first, bytes))
      return fail(place(first, bytes, does) + ", which is not shared memory");
    check(address, bytes, does);
  }

private:
  struct alignas(16) Aligned {
    char bytes[16];
  };

  static bool isStatic(const char *address) {
    return address >= __start_simt_shared && address < __stop_simt_shared;
  }
  bool isAllowed(const char *first, int64_t bytes) {
    // What the shim and the text's constants have in the library.
    if (!isStatic(first) && first >= __ehdr_start && first < _end)
      return true;
    for (const std::vector<Range> *ranges : {&given, &shared})
      for (const Range &range : *ranges)
        if (range.holds(first, bytes)) {
          last = &range;
          return true;
        }
    return dynamic.holds(first, bytes);
  }
  /// "writes 4 bytes at 8 bytes behind argument 2 (1024 bytes)".
  std::string place(const char *first, int64_t bytes, const char *does) const {
    const Range *nearest = nullptr;
    auto distance = [&](const Range &range) {
      return first < range.first ? range.first - first : first - range.first - range.bytes;
    };
    for (const std::vector<Range> *ranges : {&given, &shared})
      for (const Range &range : *ranges)
        if (!nearest || distance(range) < distance(*nearest))
          nearest = &range;
    if (dynamic.bytes > 0 && (!nearest || distance(dynamic) < distance(*nearest)))
      nearest = &dynamic;
    std::string text = std::string(does) + " " + std::to_string(bytes) + " bytes";
    if (!nearest)
      return text;
    const std::string of = nearest->name + " (" + std::to_string(nearest->bytes) + " bytes)";
    if (first < nearest->first)
      return text + " at " + std::to_string(nearest->first - first) + " before " + of;
    return text + " at " + std::to_string(first - nearest->first) + " of " + of;
  }

  std::vector<Range> given, shared;
  Range dynamic;
  const Range *last = nullptr; ///< which held what was touched before
  std::vector<Aligned> storage;
  bool isKnown = false;
};

inline Memory memory;

} // namespace simt
