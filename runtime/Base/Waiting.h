// How threads wait for each other: they watch a word for a moment, since most
// waits between the chunks of a kernel are shorter than a system call, and then
// sleep in the kernel, since spinning against a pre-empted partner costs more
// than it can ever win (ranks may outnumber cores).
#pragma once

#include <array>
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
/// cache line from core to core. The rest of that line is a note to the others. A party
/// has two such lines and uses them in turn: what it wrote for one meeting stays until
/// all have come to the next.
class Barrier {
public:
  explicit Barrier(size_t parties, std::chrono::nanoseconds spin = defaultSpin)
      : words(parties), own(parties), spin(spin) {}

  size_t parties() const { return words.size(); }

  /// Memory that comes with a party's word: `self` writes there before it arrives.
  template <typename Note> Note &nextNote(size_t self) {
    return noteOf<Note>(words[self][nextTurn(self)]);
  }
  /// What `party` wrote before the last meeting that `self` came to; to be read until `self`
  /// arrives again.
  template <typename Note> const Note &note(size_t party, size_t self) const {
    return noteOf<const Note>(words[party][own[self].turn]);
  }

  /// Waits until all parties have arrived; `self` is one of 0 … parties - 1. False if the
  /// barrier broke before. What a party wrote before is visible to every party after.
  [[nodiscard]] bool arriveAndWait(size_t self);
  void breakUp();

private:
  static constexpr uint32_t brokenBit = 1u << 31;

  static constexpr size_t noteBytes = 56;

  /// Processors fetch lines in pairs: two a word, so that who reads one word takes no other
  /// from its owner.
  struct alignas(128) Word {
    alignas(8) std::byte note[noteBytes] = {};
    /// Meetings of this turn that the party has come to, in the low bits, which wrap around;
    /// once the top bit is set they stay.
    std::atomic<uint32_t> arrivals{0};
  };

  /// What a party knows of itself; another party of the last meeting may look as long as this
  /// one cannot come to the next. Its own word lies with those who read it last, and comes
  /// back no faster than another's.
  struct alignas(64) Own {
    size_t turn = 0;
    std::array<uint32_t, 2> arrivals = {};
  };

  template <typename Note, typename AnyWord> static Note &noteOf(AnyWord &word) {
    static_assert(sizeof(Note) <= noteBytes && std::is_trivially_copyable_v<Note>);
    return *reinterpret_cast<Note *>(word.note);
  }

  size_t nextTurn(size_t self) const { return 1 - own[self].turn; }

  std::vector<std::array<Word, 2>> words;
  std::vector<Own> own;
  const std::chrono::nanoseconds spin;
};

inline bool Barrier::arriveAndWait(size_t self) {
  const size_t turn = nextTurn(self);
  const uint32_t before = own[self].arrivals[turn], meeting = (before + 1) & ~brokenBit;
  uint32_t expected = before;
  // Before the others see that this party is there: they may look at its turn.
  own[self].turn = turn;
  // What else the word can be is broken.
  if (!words[self][turn].arrivals.compare_exchange_strong(
          expected, meeting, std::memory_order_acq_rel, std::memory_order_relaxed)) {
    own[self].turn = 1 - turn;
    return false;
  }
  own[self].arrivals[turn] = meeting;
  words[self][turn].arrivals.notify_all();
  for (size_t party = 0; party < words.size(); ++party) {
    if (party == self)
      continue;
    const std::atomic<uint32_t> &word = words[party][turn].arrivals;
    // A party uses this word again after the next meeting, which needs all of this one. One
    // whose word broke before it came will not come, for anyone; one that came before has
    // come for all.
    uint32_t seen = word.load(std::memory_order_acquire);
    while ((seen & ~brokenBit) == before) {
      if (seen & brokenBit)
        return false;
      seen = waitForChange(word, seen, spin);
    }
  }
  return true;
}

} // namespace cleave::rt
