// What a rank's training steps send and receive, counted apart from all else that uses
// its communicators and channels (votes, evaluations, checkpoints), and compared with
// what the compiler said.
#pragma once

#include "runtime/Base/Json.h"
#include "runtime/Comm/Communicator.h"
#include "runtime/Schema/Program.h"

#include <string>
#include <vector>

namespace cleave::rt {

/// What one communicator or channel counted in the steps of a run.
struct TrafficLine {
  /// "all_reduce", …; "send_activation", … of a channel.
  std::string kind;
  /// Of a communicator: the axes along which its ranks differ. Of a channel the pipeline's.
  std::vector<std::string> axes;
  /// Of a communicator: how many ranks. Of a channel: the rank at the other end.
  int64_t members = 0, peer = -1;
  /// Of a communicator: whether its exchanges run beside the computation.
  bool beside = false;
  MessageCount count;
};

class StepTraffic {
public:
  /// `groups`: a communicator for each of the program's groups, null for those of one rank.
  /// The program and the world must outlive it. Kinds of World::channel.
  static StatusOr<StepTraffic> create(const Program &program, World &world,
                                      const std::vector<Communicator *> &groups);

  /// Around each step.
  void enter();
  void leave();

  /// That the steps so far did what the program says: `runtime.traffic_mismatch`, a mistake
  /// of ours, names what did not. Nothing is compared where the program is silent.
  Status check() const;
  /// All that came at all.
  std::vector<TrafficLine> lines() const;

private:
  /// One counter of the runtime.
  struct Meter {
    const TrafficCount *counter = nullptr;
    TrafficLine line;
    /// What a step comes to by the program.
    MessageCount planned;
    TrafficCount before;
  };
  StepTraffic(const Program &program, World &world) : program(program), world(world) {}
  void addGroup(size_t index, const std::vector<Communicator *> &groups);
  Status addChannels();

  const Program &program;
  World &world;
  std::vector<Meter> meters;
  int64_t steps = 0;
};

/// For each rank that has lines, by its number in the list, the rank and its lines.
JsonValue trafficJson(const std::vector<std::vector<TrafficLine>> &ofRanks);

/// "over tensor among 2 ranks", "over data among 2 ranks, beside the computation", "with rank 3".
std::string describe(const TrafficLine &line);

} // namespace cleave::rt
