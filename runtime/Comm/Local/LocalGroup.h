// The shared half of a group of ranks that are threads of one process. Each
// rank shows the others where its buffers lie, all do their part of the work
// directly on each other's memory, and all leave together:
//
//   enter (breakable)  →  everyone's call is visible, nobody's buffer changes
//   work               →  each rank writes only what is its part
//   leave (never broken) → buffers belong to their owners again
//
// Small messages need no leave: before it enters, each rank copies what others read to a
// stage of its own, where it stays until all have entered again. A rank has two stages and
// uses them in turn: who writes one again has left a call into which all others came after
// they had read it.
//
// A failure elsewhere can stop ranks only at `enter`, so no rank frees a buffer
// that another still reads. A group of which other processes hold a part derives
// from this one: its work also waits for them, and then a failure must make that
// work return. Internal to Comm.
#pragma once

#include "runtime/Base/Waiting.h"
#include "runtime/Comm/Communicator.h"

#include <span>

namespace cleave::rt {

/// One rank's arguments of the collective in progress, or of one part of it.
struct LocalCall {
  CollectiveKind collective = CollectiveKind::Barrier;
  ReduceKind reduction = ReduceKind::Sum;
  const float *send = nullptr;
  float *receive = nullptr;
  /// Floats of the whole message, as TrafficCount counts them.
  size_t count = 0;
  int root = 0;
};

/// All parts of one rank's message, as the others find it beside its word in the meeting.
struct LocalMessage {
  /// Where `parts` lie if there is but one: what others read comes with one line.
  LocalCall single;
  std::span<const LocalCall> parts;
};

/// The calls of all members of a process for one part of a message, by member.
class LocalCalls {
public:
  /// `own`: the parts of member `self`, who reads them, and not where others do.
  LocalCalls(const Barrier &meeting, size_t part, size_t self, std::span<const LocalCall> own)
      : meeting(&meeting), part(part), self(self), own(own) {}

  size_t size() const { return meeting->parties(); }
  const LocalCall &operator[](size_t member) const {
    return member == self ? own[part] : meeting->note<LocalMessage>(member, self).parts[part];
  }
  const LocalCall &front() const { return (*this)[0]; }

private:
  const Barrier *meeting;
  size_t part, self;
  std::span<const LocalCall> own;
};

class LocalGroup {
public:
  LocalGroup(std::vector<int> members, std::chrono::nanoseconds spin);
  virtual ~LocalGroup() = default;

  /// All ranks of the group, and those of them that are threads of this process.
  const std::vector<int> &members() const { return memberRanks; }
  std::span<const int> membersHere() const {
    return std::span(memberRanks).subspan(firstHere, countHere());
  }

  enum class Outcome { Done, Broken };
  /// Carries out one collective for member `self` of those here, whose message has
  /// `parts`, at least one, of one kind. `Broken` if the world ended before all members
  /// came. `failure` is set, on every member alike, if their calls don't belong together
  /// (nothing is then written), and on a member whose work failed.
  Outcome perform(size_t self, std::span<const LocalCall> parts, Status &failure);

  /// Wakes all members waiting for others, and makes later calls fail.
  void breakUp() { enter.breakUp(); }

protected:
  /// A group whose members here are `here` ones from position `firstHere`.
  LocalGroup(std::vector<int> members, size_t firstHere, size_t here,
             std::chrono::nanoseconds spin);
  /// The part of member `self`; called on all members here at the same time.
  virtual Status work(size_t self);

  /// Members here, in the order of the group.
  size_t countHere() const { return enter.parties(); }
  /// Of the message in progress; the same whoever `self` is, but quickest for who asks.
  size_t partCount(size_t self = 0) const { return own[self].parts.size(); }
  LocalCalls callsOf(size_t part, size_t self = 0) const {
    return {enter, part, self, own[self].parts};
  }

  /// Position in the group of the first member here.
  const size_t firstHere;

private:
  /// The most floats that a member stages of a message: 2 KiB. Of two ranks on an EPYC, nothing
  /// else around: scattering 4 KiB takes 0.17 µs so and 0.18 from buffer to buffer, or 0.48 and
  /// 0.69 when the host puts the cores far apart; 8 KiB 0.32 and 0.23, or 0.95 and 0.87. Summing
  /// 4 KiB, which would stage all of it, takes 0.31 and 0.20, or 1.0 and 0.7.
  static constexpr size_t stagedFloats = 512;
  /// Floats lie where they lie in the message, of which each member of two or more stages at
  /// least half.
  struct alignas(64) Stage {
    float floats[2 * stagedFloats];
  };

  /// What only one member uses.
  struct alignas(64) Own {
    explicit Own(size_t members)
        : sources(members + lineAddresses), targets(members + lineAddresses) {}
    /// Addresses change in each call: room behind them keeps those of two members off one
    /// cache line.
    static constexpr size_t lineAddresses = 64 / sizeof(float *);

    /// Its message.
    std::span<const LocalCall> parts;
    /// Which of its two stages is the next one; the same for all members between two calls.
    size_t stage = 0;
    /// What it reduces, and where to, by member.
    std::vector<const float *> sources;
    std::vector<float *> targets;
  };

  std::span<const LocalCall> partsOf(size_t member, size_t self) const {
    return member == self ? own[self].parts : enter.note<LocalMessage>(member, self).parts;
  }
  /// Floats of a member's message that others read: the first `before`, and those from
  /// `after` to `end`.
  struct Stretches {
    size_t before = 0, after = 0, end = 0;
    size_t count() const { return before + end - after; }
  };
  Stretches othersRead(const LocalCall &call, size_t self) const;
  bool isStaged(std::span<const LocalCall> parts, const Stretches &read) const {
    return !stages.empty() && parts.size() == 1 && read.count() <= stagedFloats;
  }
  Stage &stageOf(size_t member, size_t turn) { return stages[turn * countHere() + member]; }
  void stage(size_t self, const LocalCall &call, const Stretches &read);
  void claimNextStage(size_t self, const Stretches &read);
  void workOnStages(const LocalCall &call, size_t self);

  /// What the others see of a message in the meeting to come.
  void show(size_t self, std::span<const LocalCall> parts);
  bool callsMatch(size_t self) const;
  Error mismatch(size_t self) const;
  void workOn(const LocalCalls &calls, size_t self);
  void reduceSlice(const LocalCalls &calls, size_t self);
  void reduceScatter(const LocalCalls &calls, size_t self);

  const std::vector<int> memberRanks;
  std::vector<Own> own;
  /// Two of each member; none where all messages go from buffer to buffer.
  std::vector<Stage> stages;
  /// `leave` is never broken.
  Barrier enter, leave;
};

} // namespace cleave::rt
