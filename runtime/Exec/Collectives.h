// The collective commands of a program on one rank: packs what is cut along an
// inner dimension into equal contiguous blocks, hands those to the group's
// communicator, and unpacks. Staging memory is allocated once, as large as the
// largest command needs, and counted. In a group of one rank every collective is
// a copy. The exchanges of a bucket are one message.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Base/ThreadPool.h"
#include "runtime/Base/ZeroedMemory.h"
#include "runtime/Exec/RankMemory.h"
#include "runtime/Exec/Repack.h"
#include "runtime/Schema/Unroll.h"

#include <memory>
#include <vector>

namespace cleave::rt {

class Communicator;

class CollectiveRunner {
public:
  /// `commands`: all that may be run, without repeats. `groups`: one communicator
  /// for each of the program's groups, null allowed where the group has one rank.
  /// Communicators reduce f32 and move multiples of 4 bytes;
  /// `runtime.type_unsupported` names a command that asks for other.
  /// `runtime.out_of_memory` for the staging memory. With `isBeside` buckets are what is run,
  /// and nothing else.
  static StatusOr<std::unique_ptr<CollectiveRunner>>
  create(const Program &program, const EntryLists &commands, int64_t rank, const RankMemory &memory,
         ThreadPool &pool, std::vector<Communicator *> groups, bool isBeside = false);

  /// `command` holds a collective or a slice, one of those given to `create`.
  Status run(const Command &command);
  /// `label`: of the bucket.
  Status run(const BesideCommand &bucket, std::string_view label);

  int64_t stagingBytes() const { return sendStage.size() + receiveStage.size(); }

private:
  CollectiveRunner(const Program &program, int64_t rank, const RankMemory &memory, ThreadPool &pool,
                   std::vector<Communicator *> groups)
      : program(program), rank(rank), memory(memory), pool(pool), groups(std::move(groups)) {}

  Status runAllReduce(const AllReduceCommand &command);
  Status runAllGather(const AllGatherCommand &command);
  Status runReduceScatter(const ReduceScatterCommand &command);
  Status runSlice(const SliceCommand &command);
  Status runAllToAll(const AllToAllCommand &command);
  Status runAlone(const Command &command);

  Communicator &group(int32_t index) const;
  int64_t membersOf(int32_t group) const;
  int64_t indexIn(int32_t group) const;

  const Program &program;
  const int64_t rank;
  const RankMemory &memory;
  ThreadPool &pool;
  std::vector<Communicator *> groups;
  ZeroedMemory sendStage, receiveStage;
  /// Label of the command that runs.
  std::string_view purpose;
};

} // namespace cleave::rt
