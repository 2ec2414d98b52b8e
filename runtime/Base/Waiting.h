// How threads wait for each other: they watch a word for a moment, since most
// waits between the chunks of a kernel are shorter than a system call, and then
// sleep in the kernel, since spinning against a pre-empted partner costs more
// than it can ever win (ranks may outnumber cores).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace cleave::rt {

/// How long a wait spins before it sleeps. Zero where threads outnumber cores.
inline constexpr std::chrono::nanoseconds defaultSpin{2000};

/// Returns the first value of `word` seen that differs from `old`. The writer
/// must call `word.notify_all()` (or notify_one) after each change.
uint32_t waitForChange(const std::atomic<uint32_t> &word, uint32_t old,
                       std::chrono::nanoseconds spin);

/// A reusable meeting point of a fixed number of threads that can be broken:
/// once one thread calls `breakUp`, every wait that is not over yet and every
/// later one returns at once and says so. All parties agree on each meeting: it
/// took place for all of them or for none.
class Barrier {
public:
  explicit Barrier(unsigned parties, std::chrono::nanoseconds spin = defaultSpin)
      : parties(parties), spin(spin) {}

  /// Waits until all parties have arrived. False if the barrier broke before.
  /// What a party wrote before is visible to every party after.
  [[nodiscard]] bool arriveAndWait();
  void breakUp();
  bool broken() const;

private:
  static constexpr uint32_t brokenBit = 1u << 31;

  const unsigned parties;
  const std::chrono::nanoseconds spin;
  std::atomic<uint32_t> arrived{0};
  /// Counts completed meetings in its low bits; the top bit says broken.
  std::atomic<uint32_t> generation{0};
};

} // namespace cleave::rt
