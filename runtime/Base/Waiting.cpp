// Spinning, sleeping, meeting.
#include "runtime/Base/Waiting.h"

#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cleave::rt {

/// How often a thread that has a core of its own lets others run before it sleeps: some 50 µs.
constexpr int yields = 100;

static void pauseBriefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

uint32_t waitForChange(const std::atomic<uint32_t> &word, uint32_t old,
                       std::chrono::nanoseconds spin) {
  uint32_t now = word.load(std::memory_order_acquire);
  if (now != old)
    return now;
  if (spin.count() > 0) {
    const auto deadline = std::chrono::steady_clock::now() + spin;
    do {
      // The clock costs as much as several pauses, so it is read now and then.
      for (int i = 0; i < 8; ++i) {
        pauseBriefly();
        now = word.load(std::memory_order_acquire);
        if (now != old)
          return now;
      }
    } while (std::chrono::steady_clock::now() < deadline);
    // Waking up costs more than a few turns of others on this core would.
    for (int i = 0; i < yields; ++i) {
      std::this_thread::yield();
      now = word.load(std::memory_order_acquire);
      if (now != old)
        return now;
    }
  }
  while ((now = word.load(std::memory_order_acquire)) == old)
    word.wait(old, std::memory_order_acquire);
  return now;
}

bool Barrier::arriveAndWait(size_t self) {
  std::atomic<uint32_t> &own = words[self].arrivals;
  uint32_t before = own.load(std::memory_order_relaxed);
  uint32_t meeting = 0;
  do {
    if (before & brokenBit)
      return false;
    meeting = (before + 1) & ~brokenBit;
  } while (!own.compare_exchange_weak(before, meeting, std::memory_order_acq_rel,
                                      std::memory_order_relaxed));
  own.notify_all();
  for (Word &word : words) {
    // A party is at most one meeting ahead: it needs this one to go on. One whose word broke
    // before it came will not come, for anyone; one that came before has come for all.
    uint32_t seen = word.arrivals.load(std::memory_order_acquire);
    while ((seen & ~brokenBit) == before) {
      if (seen & brokenBit)
        return false;
      seen = waitForChange(word.arrivals, seen, spin);
    }
  }
  return true;
}

void Barrier::breakUp() {
  for (Word &word : words) {
    word.arrivals.fetch_or(brokenBit, std::memory_order_acq_rel);
    word.arrivals.notify_all();
  }
}

} // namespace cleave::rt
