// How threads wait for each other: they watch a word for a moment, since most
// waits between the chunks of a kernel are shorter than a system call, and then
// sleep in the kernel, since spinning against a pre-empted partner costs more
// than it can ever win (ranks may outnumber cores).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

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
  /// Apart from the word that those who wait look at.
  alignas(64) std::atomic<uint32_t> arrived{0};
  /// Counts completed meetings in its low bits; the top bit says broken.
  alignas(64) std::atomic<uint32_t> generation{0};
};

/// A reusable meeting point that can't be broken, and is quicker for that: each party
/// says in a word of its own that it is there, and looks at those of the others.
class Farewell {
public:
  explicit Farewell(size_t parties, std::chrono::nanoseconds spin = defaultSpin)
      : words(parties), spin(spin) {}

  /// Waits until all parties have arrived; `self` is one of 0 … parties - 1. What a
  /// party wrote before is visible to every party after.
  void arriveAndWait(size_t self);

private:
  struct alignas(64) Word {
    /// Meetings that the party has come to; wraps around.
    std::atomic<uint32_t> arrivals{0};
  };

  std::vector<Word> words;
  const std::chrono::nanoseconds spin;
};

} // namespace cleave::rt
