// A tiny "training run" whose state is one matrix with both moments, cut into
// boxes by rank: enough to save, kill, resume and compare.
#pragma once

#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/CheckpointWriter.h"

#include <array>
#include <vector>

struct ToyRun {
  using Box = cleave::rt::Box;
  using Status = cleave::rt::Status;
  static constexpr int64_t rows = 7, columns = 6;
  static constexpr std::array kinds = {cleave::rt::StateKind::Parameter,
                                       cleave::rt::StateKind::FirstMoment,
                                       cleave::rt::StateKind::SecondMoment};

  uint64_t step = 0;
  std::array<std::vector<float>, 3> state;

  ToyRun() { state.fill(std::vector<float>(rows * columns, 0.0f)); }

  /// Every value depends on all steps before.
  void train() {
    ++step;
    for (size_t kind = 0; kind < state.size(); ++kind)
      for (size_t i = 0; i < state[kind].size(); ++i)
        state[kind][i] = state[kind][i] * 0.75f + static_cast<float>(step * (kind + 1) + i);
  }

  /// Saves `boxes[r]` from rank r; stops at the first failure.
  Status save(const std::string &folder, const std::vector<std::vector<Box>> &boxes,
              const std::function<void(cleave::rt::SavePoint, uint32_t rank)> &hook = {}) const {
    auto target = [&](uint32_t rank) {
      cleave::rt::SaveTarget result{folder, step, rank, static_cast<uint32_t>(boxes.size()), {}};
      if (hook)
        result.hook = [=](cleave::rt::SavePoint point) { hook(point, rank); };
      return result;
    };
    CLEAVE_RT_RETURN_IF_ERROR(prepareSave(target(0)));
    for (uint32_t rank = 0; rank < boxes.size(); ++rank) {
      std::vector<cleave::rt::StatePiece> pieces;
      for (size_t kind = 0; kind < kinds.size(); ++kind)
        for (const Box &box : boxes[rank]) {
          // The strided view of a box inside the whole matrix.
          const float *data = state[kind].data() + box.offset[0] * columns + box.offset[1];
          pieces.push_back({"w", kinds[kind], {rows, columns}, box, data, {columns, 1}});
        }
      CLEAVE_RT_RETURN_IF_ERROR(writeShard(target(rank), pieces));
    }
    cleave::rt::RunState header;
    header.samples = step * 4;
    header.seed = 0xFFFFFFFFFFFFFFFF;
    header.recipe.set("seed", 1);
    header.planHash = "plan";
    return publish(target(0), header);
  }

  Status load(const cleave::rt::Checkpoint &checkpoint) {
    step = checkpoint.state().step;
    for (size_t kind = 0; kind < kinds.size(); ++kind)
      CLEAVE_RT_RETURN_IF_ERROR(checkpoint.readBox("w", kinds[kind], {rows, columns},
                                                   Box::whole({rows, columns}), state[kind]));
    return Status::success();
  }
};
