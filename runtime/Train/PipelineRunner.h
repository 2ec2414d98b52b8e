// A rank's part of a step of a pipeline: carries out the program's list of actions,
// one after the other. What order they come in was decided by the compiler; all
// that is known here is how to compute, send and receive.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Comm/Communicator.h"
#include "runtime/Exec/Executor.h"
#include "runtime/Schema/Image.h"

#include <memory>
#include <vector>

namespace cleave::rt {

/// The channels that the ranks of an image need, those of a pipeline's ranks that
/// differ in their place in it alone.
std::vector<ChannelPlan> channelsOf(const Image &image);

class PipelineRunner {
public:
  /// `program` has a pipeline; it and `executor`, which runs it, must outlive the
  /// runner. Kinds of World::channel.
  static StatusOr<std::unique_ptr<PipelineRunner>> create(const Program &program, World &world,
                                                          Executor &executor);

  /// The first stages' `survey` for each micro-batch, where the program has such. `fill` as
  /// in `runStep`.
  Status survey(FunctionRef<Status(int64_t microBatch)> fill);

  /// All actions of a step. `fill` is called before each computation with its
  /// micro-batch, whose sequences must then be in the program's input.
  Status runStep(FunctionRef<Status(int64_t microBatch)> fill);

  /// The stages' `evaluate` for the micro-batch in the program's input.
  Status evaluate();

private:
  using Kind = PipelineAction::Kind;
  /// The regions of a boundary's list in the copies of one slot.
  struct Pieces {
    std::vector<std::span<const float>> sent;
    std::vector<std::span<float>> received;
  };
  /// An action with what it needs at hand.
  struct Step {
    PipelineAction action;
    /// Of what is no transfer.
    StageEntry entry = StageEntry::Forward;
    Channel *channel = nullptr;
    const Pieces *pieces = nullptr;
  };

  PipelineRunner(const Program &program, World &world, Executor &executor)
      : program(program), pipeline(*program.pipeline), world(world), executor(executor) {}

  Status prepare();
  StatusOr<Step> prepareTransfer(const PipelineAction &action);
  const Pieces &piecesOf(const PipelineAction &action);
  /// Takes what is in the program's input, which errors call `microBatch`, through `entry`
  /// of the first `stages` stages.
  Status runAlone(StageEntry entry, int64_t stages, int64_t microBatch, std::string_view purpose);
  Status transfer(const Step &step, std::string_view purpose);
  Error failed(const Error &error, const PipelineAction &action) const;

  const Program &program;
  const Pipeline &pipeline;
  World &world;
  Executor &executor;
  /// By stage, slot and kind of transfer.
  std::vector<std::unique_ptr<Pieces>> pieces;
  /// `alone`: what takes a micro-batch forward through all stages.
  std::vector<Step> steps, alone;
  /// "micro-batch 2", as messages about lost ranks say it.
  std::vector<std::string> purposes;
};

} // namespace cleave::rt
