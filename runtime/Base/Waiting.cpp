// Spinning, sleeping, meeting.
#include "runtime/Base/Waiting.h"

#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cleave::rt {

/// How often a thread that has a core of its own lets others run before it sleeps: some 50 µs.
constexpr int yields = 100;

/// How often a thread looks at a word before it pauses between looks: some 100 ns.
constexpr int glances = 100;

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
    // A partner who comes at the same time is there before a clock could be read.
    for (int i = 0; i < glances; ++i) {
      now = word.load(std::memory_order_acquire);
      if (now != old)
        return now;
    }
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

void Barrier::breakUp() {
  for (std::array<Word, 2> &ofParty : words)
    for (Word &word : ofParty) {
      word.arrivals.fetch_or(brokenBit, std::memory_order_acq_rel);
      word.arrivals.notify_all();
    }
}

} // namespace cleave::rt
