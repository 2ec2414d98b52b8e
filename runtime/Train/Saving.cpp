// State pieces to and from checkpoints.
#include "runtime/Train/Saving.h"

#include "runtime/Train/StateBlocks.h"

#include <algorithm>

namespace cleave::rt {
namespace {

struct SavedSlot {
  Slot slot;
  StateKind kind;
};
constexpr SavedSlot savedSlots[] = {{Slot::Value, StateKind::Parameter},
                                    {Slot::Moment1, StateKind::FirstMoment},
                                    {Slot::Moment2, StateKind::SecondMoment}};

std::vector<StatePiece> piecesOf(const Program &program, int64_t rank, const RankMemory &memory) {
  std::vector<StatePiece> pieces;
  const AxisList apart = program.pipeline ? program.pipeline->axes : AxisList();
  for (const StateEntry &entry : program.state)
    for (const SavedSlot &saved : savedSlots)
      if (const auto &region = entry.slot(saved.slot);
          region && entry.counted &&
          entry.shardingOf(saved.slot).isPrimaryReplica(program.mesh, rank, apart))
        pieces.push_back({entry.name, saved.kind, entry.shape,
                          boxOf(program, entry, saved.slot, rank), memory.floats(*region),
                          localStrides(program, entry, saved.slot)});
  return pieces;
}

/// The steps between which the ranks meet.
Status saveTogether(const SaveTarget &target, RunState state, const std::vector<StatePiece> &pieces,
                    Communicator &everyone) {
  if (target.rank == 0)
    CLEAVE_RT_RETURN_IF_ERROR(prepareSave(target));
  CLEAVE_RT_RETURN_IF_ERROR(everyone.barrier());
  CLEAVE_RT_RETURN_IF_ERROR(writeShard(target, pieces));
  CLEAVE_RT_RETURN_IF_ERROR(everyone.barrier());
  if (target.rank == 0)
    CLEAVE_RT_RETURN_IF_ERROR(publish(target, std::move(state)));
  return everyone.barrier();
}

} // namespace

Status saveCheckpoint(const Program &program, const SaveTarget &target, RunState state,
                      const RankMemory &memory, Communicator &everyone) {
  const Status status =
      saveTogether(target, std::move(state), piecesOf(program, target.rank, memory), everyone);
  // A failure elsewhere reaches rank 0 in a barrier.
  if (!status.ok() && target.rank == 0)
    abandonSave(target);
  return status;
}

Status loadCheckpoint(const Program &program, int64_t rank, const Checkpoint &checkpoint,
                      const RankMemory &memory) {
  std::vector<float> packed;
  for (const StateEntry &entry : program.state) {
    for (const SavedSlot &saved : savedSlots) {
      const auto &region = entry.slot(saved.slot);
      const Box box = boxOf(program, entry, saved.slot, rank);
      if (!region || box.empty())
        continue;
      const std::vector<int64_t> strides = localStrides(program, entry, saved.slot);
      float *target = memory.floats(*region);
      if (strides == rowMajorStrides(box.extent)) {
        CLEAVE_RT_RETURN_IF_ERROR(
            checkpoint.readBox(entry.name, saved.kind, entry.shape, box, {target, box.volume()}));
        continue;
      }
      packed.resize(box.volume());
      CLEAVE_RT_RETURN_IF_ERROR(
          checkpoint.readBox(entry.name, saved.kind, entry.shape, box, packed));
      forEachRun(box, box, rowMajorStrides(box.extent), box, strides,
                 [&](int64_t from, int64_t to, int64_t count) {
                   std::copy_n(packed.data() + from, count, target + to);
                 });
    }
  }
  return {};
}

} // namespace cleave::rt
