// How threads wait for each other: they watch a word for a moment, since most
// waits between the chunks of a kernel are shorter than a system call, and then
// sleep in the kernel, since spinning against a pre-empted partner costs more
// than it can ever win (ranks may outnumber cores).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>
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
/// took place for all of them or for none. Each party says in a word of its own that
/// it is there, and looks at those of the others, so that a meeting costs one way of a
/// cache line from core to core. The rest of that line is a note to the others.
class Barrier {
public:
  explicit Barrier(size_t parties, std::chrono::nanoseconds spin = defaultSpin)
      : words(parties), own(parties), spin(spin) {}

  size_t parties() const { return words.size(); }

  /// Memory of a party that comes with its word: it writes there before it arrives, and the
  /// others may read from then on until they arrive again. Zeros at first.
  template <typename Note> Note &note(size_t party) {
    static_assert(sizeof(Note) <= noteBytes && std::is_trivially_copyable_v<Note>);
    return *reinterpret_cast<Note *>(words[party].note);
  }
  template <typename Note> const Note &note(size_t party) const {
    return const_cast<Barrier *>(this)->note<Note>(party);
  }

  /// Waits until all parties have arrived; `self` is one of 0 … parties - 1. False if the
  /// barrier broke before. What a party wrote before is visible to every party after.
  [[nodiscard]] bool arriveAndWait(size_t self);
  void breakUp();

private:
  static constexpr uint32_t brokenBit = 1u << 31;

  static constexpr size_t noteBytes = 56;

  struct alignas(64) Word {
    alignas(8) std::byte note[noteBytes] = {};
    /// Meetings that the party has come to, in the low bits, which wrap around; once the
    /// top bit is set they stay.
    std::atomic<uint32_t> arrivals{0};
  };

  /// What a party knows of itself: its own word lies with those who read it last, and comes
  /// back no faster than another's.
  struct alignas(64) Own {
    uint32_t arrivals = 0;
  };

  std::vector<Word> words;
  std::vector<Own> own;
  const std::chrono::nanoseconds spin;
};

} // namespace cleave::rt
