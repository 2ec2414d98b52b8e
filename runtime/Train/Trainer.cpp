// One rank's loop over steps.
#include "runtime/Train/Trainer.h"

#include "runtime/Train/Export.h"
#include "runtime/Train/PipelineRunner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cleave::rt {
namespace {

class RankTrainer {
public:
  RankTrainer(const RunSetup &setup, SharedRun &shared, World &world)
      : setup(setup), program(setup.image.of(world.rank())), shared(shared), world(world),
        pool(setup.threads) {}

  Status run();

private:
  Status prepare();
  Status loadParameters();
  Status trainStep(uint64_t step);
  Status fill(uint64_t first, int64_t microBatch);
  Status runMicroBatches(uint64_t step);
  bool isNormFinite() const {
    return !program.exchange.gradientNorm || std::isfinite(scalar(*program.exchange.gradientNorm));
  }
  Status reportStep(uint64_t step, double seconds);
  Status nameBadResult(uint64_t step, Error error);
  Status evaluate(uint64_t step);
  Status save(uint64_t step);
  Status finish(uint64_t step);
  Status exportWeights();
  StatusOr<bool> shouldStop();
  void setScalar(const std::optional<Region> &region, double value);
  float scalar(const Region &region) const { return *executor->memory().floats(region); }
  double secondsSinceStart() const;
  bool isFirst() const { return world.rank() == 0; }
  uint64_t tokensPerStep() const {
    return static_cast<uint64_t>(program.batch.globalBatch * program.batch.sequence);
  }

  const RunSetup &setup;
  const Program &program;
  SharedRun &shared;
  World &world;
  ThreadPool pool;
  std::unique_ptr<RankDevice> device;
  Communicator *everyone = nullptr;
  std::unique_ptr<Executor> executor;
  /// Where the program has one.
  std::unique_ptr<PipelineRunner> pipeline;
  std::optional<StepTraffic> traffic;
  std::optional<BatchReader> reader, evalReader;
  /// First sample and micro-batch of what is in the program's input now.
  std::optional<std::pair<uint64_t, int64_t>> filled;
  /// Step of the newest checkpoint of this run, the one resumed from included.
  std::optional<uint64_t> savedStep;
  /// Why the log, which the first rank writes, misses lines. It ends the run as a request to
  /// stop does: with what was trained saved.
  Status logFailure;
  /// False once a step was left before it changed weights.
  bool isUpdated = true;
};

std::vector<int> asInts(const std::vector<int64_t> &ranks) {
  return std::vector<int>(ranks.begin(), ranks.end());
}

double RankTrainer::secondsSinceStart() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - setup.start).count();
}

Status RankTrainer::prepare() {
  std::vector<int> all(static_cast<size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank)
    all[rank] = rank;
  CLEAVE_RT_ASSIGN_OR_RETURN(everyone, world.group(all));
  std::vector<Communicator *> groups;
  for (const Group &group : program.groups) {
    const std::vector<int> members = asInts(group.ranksOf(program.mesh, world.rank()));
    Communicator *communicator = nullptr;
    if (members.size() > 1) {
      CLEAVE_RT_ASSIGN_OR_RETURN(communicator,
                                 world.group(members, group.beside ? Lane::Beside : Lane::Main));
    }
    groups.push_back(communicator);
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(StepTraffic counters, StepTraffic::create(program, world, groups));
  traffic.emplace(std::move(counters));
  if (setup.device) {
    const int64_t here = world.size() / setup.processes;
    CLEAVE_RT_ASSIGN_OR_RETURN(
        device, setup.device->onRank(world.rank(), setup.firstPlace + world.rank() % here));
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(
      executor, Executor::create(program, world.rank(), setup.kernels, pool, std::move(groups),
                                 {.profile = setup.flags.profile,
                                  .endRun = [this](Error error) { world.abort(std::move(error)); },
                                  .awaiting = [this](bool waits) { world.awaitBeside(waits); },
                                  .device = device.get()}));
  shared.memories[world.rank()] = &executor->memory();
  if (program.pipeline) {
    CLEAVE_RT_ASSIGN_OR_RETURN(pipeline, PipelineRunner::create(program, world, *executor));
  }
  if (setup.data)
    reader.emplace(program, world.rank(), *setup.data, executor->memory());
  if (setup.evalData)
    evalReader.emplace(program, world.rank(), *setup.evalData, executor->memory());
  return loadParameters();
}

Status RankTrainer::loadParameters() {
  if (shared.checkpoint) {
    savedStep = setup.firstStep;
    CLEAVE_RT_RETURN_IF_ERROR(
        loadCheckpoint(program, world.rank(), *shared.checkpoint, executor->memory()));
  } else if (shared.weights) {
    CLEAVE_RT_RETURN_IF_ERROR(
        shared.weights->load(program, world.rank(), executor->memory(), pool));
  } else {
    CLEAVE_RT_RETURN_IF_ERROR(
        generateWeights(program, world.rank(), setup.recipe.seed, executor->memory(), pool));
  }
  everyone->setPurpose("the start");
  CLEAVE_RT_RETURN_IF_ERROR(everyone->barrier());
  if (world.leadsProcess()) {
    shared.checkpoint.reset();
    shared.weights.reset();
  }
  return everyone->barrier();
}

void RankTrainer::setScalar(const std::optional<Region> &region, double value) {
  if (region)
    *executor->memory().floats(*region) = static_cast<float>(value);
}

/// Sequences of a micro-batch into the program's input, unless they are there.
Status RankTrainer::fill(uint64_t first, int64_t microBatch) {
  const std::pair wanted(first, microBatch);
  if (filled == wanted)
    return {};
  filled.reset();
  CLEAVE_RT_RETURN_IF_ERROR(reader->fillTraining(first, microBatch));
  filled = wanted;
  return {};
}

Status RankTrainer::trainStep(uint64_t step) {
  const Exchange &exchange = program.exchange;
  const auto power = static_cast<double>(step);
  setScalar(exchange.learningRate, setup.schedule.rateAt(step));
  setScalar(exchange.correction1, 1 - std::pow(setup.recipe.optimizer.beta1, power));
  setScalar(exchange.correction2, 1 - std::pow(setup.recipe.optimizer.beta2, power));
  CLEAVE_RT_RETURN_IF_ERROR(runMicroBatches(step));
  if (!exchange.gradientNorm)
    return executor->run(EntryKind::Update);
  // Weights are not changed in a step whose loss or norm is not finite, so that the step can
  // be looked at, and what is in memory is what was there before it.
  CLEAVE_RT_RETURN_IF_ERROR(executor->runUntilWritten(EntryKind::Update, *exchange.gradientNorm));
  const bool isLossKnown =
      executor->writesBefore(EntryKind::Update, exchange.loss, *exchange.gradientNorm);
  if (isNormFinite() && (!isLossKnown || std::isfinite(scalar(exchange.loss))))
    return executor->runBehindWritten(EntryKind::Update, *exchange.gradientNorm);
  isUpdated = false;
  if (!isLossKnown)
    setScalar(exchange.loss, std::nan(""));
  return {};
}

/// All of a step before the update.
Status RankTrainer::runMicroBatches(uint64_t step) {
  CLEAVE_RT_RETURN_IF_ERROR(executor->run(EntryKind::Begin));
  const uint64_t first = (step - 1) * static_cast<uint64_t>(program.batch.globalBatch);
  const int64_t microBatches = program.batch.microBatches;
  for (int64_t index = 0; index < microBatches; ++index) {
    CLEAVE_RT_RETURN_IF_ERROR(fill(first, index));
    CLEAVE_RT_RETURN_IF_ERROR(executor->run(EntryKind::Count));
    CLEAVE_RT_RETURN_IF_ERROR(executor->run(EntryKind::Survey));
  }
  auto fillFor = [&](int64_t microBatch) { return fill(first, microBatch); };
  if (pipeline)
    CLEAVE_RT_RETURN_IF_ERROR(pipeline->survey(fillFor));
  CLEAVE_RT_RETURN_IF_ERROR(executor->run(EntryKind::Prepare));
  if (pipeline)
    CLEAVE_RT_RETURN_IF_ERROR(pipeline->runStep(fillFor));
  for (int64_t index = 0; !pipeline && index < microBatches; ++index) {
    CLEAVE_RT_RETURN_IF_ERROR(fill(first, index));
    const bool isLast = index + 1 == microBatches && !program.entry(EntryKind::Last).empty();
    CLEAVE_RT_RETURN_IF_ERROR(executor->run(isLast ? EntryKind::Last : EntryKind::MicroBatch));
  }
  return {};
}

/// Runs the step again, whose loss or norm was not finite, and adds to `error` the first
/// result of all ranks that is not finite. The rank that has it returns the error first.
Status RankTrainer::nameBadResult(uint64_t step, Error error) {
  executor->watchResults();
  CLEAVE_RT_RETURN_IF_ERROR(runMicroBatches(step));
  const std::optional<BadResult> &bad = executor->firstBadResult();
  // Of stages the first on the way forward, else the last one: the first on the way back.
  constexpr float none = 1 << 24;
  float order = none;
  if (bad) {
    order = static_cast<float>(std::min<int64_t>(bad->order, 1 << 20));
    if (const Stage *stage = program.stageOfEntry(bad->entry)) {
      const auto index = static_cast<size_t>(stage - program.pipeline->stages.data());
      const bool forward = bad->entry == Program::entryIndex(index, StageEntry::Forward) ||
                           bad->entry == Program::entryIndex(index, StageEntry::Survey);
      order = static_cast<float>(forward ? stage->number : (1 << 20) - stage->number);
    }
  }
  everyone->setPurpose("where the first number is that is not finite");
  float earliest = -order;
  CLEAVE_RT_RETURN_IF_ERROR(everyone->allReduce({&earliest, 1}, ReduceKind::Max));
  const bool isMine = bad && -order == earliest;
  float lowest = isMine ? -static_cast<float>(world.rank()) : -none;
  CLEAVE_RT_RETURN_IF_ERROR(everyone->allReduce({&lowest, 1}, ReduceKind::Max));
  if (isMine && lowest == -static_cast<float>(world.rank())) {
    const Command &command = executor->commands()[bad->entry][bad->command];
    error.message += fmt::format("; the first result that is not finite is {} ({}) on rank {}",
                                 command.label, program.entryName(bad->entry), world.rank());
    return error;
  }
  if (lowest == -none) {
    error.message += "; all results before the update are finite";
    return error;
  }
  // The other rank's error says more, and reaches all.
  return everyone->barrier();
}

Status RankTrainer::reportStep(uint64_t step, double seconds) {
  const Exchange &exchange = program.exchange;
  const double loss = scalar(exchange.loss);
  if (isFirst()) {
    StepMetrics metrics;
    metrics.step = step;
    metrics.loss = loss;
    if (exchange.objective)
      metrics.objective = scalar(*exchange.objective);
    if (exchange.gradientNorm)
      metrics.gradNorm = scalar(*exchange.gradientNorm);
    metrics.learningRate = setup.schedule.rateAt(step);
    metrics.tokens = step * tokensPerStep();
    metrics.tokensPerSecond = static_cast<double>(tokensPerStep()) / seconds;
    metrics.stepSeconds = seconds;
    metrics.seconds = secondsSinceStart();
    if (logFailure.ok())
      logFailure = shared.log.write(metrics);
    shared.progress->update(metrics);
    shared.summary->add(metrics);
  }
  // Loss and norm are the same on all ranks, so all of them stop here together.
  auto stop = [&](const char *kind, const char *what, double value) -> Status {
    Error error =
        runError(kind, fmt::format("the {} of step {} is {}", what, step, value))
            .withGiven(fmt::format("step {}, learning rate {}", step, setup.schedule.rateAt(step)))
            .withRule(fmt::format("a run whose {} is not finite can't recover", what))
            .suggest("a smaller learning rate, or a longer warm-up")
            .suggest("--resume from an earlier checkpoint");
    return isUpdated ? Status(error) : nameBadResult(step, std::move(error));
  };
  if (!isNormFinite())
    return stop("train.gradient_not_finite", "gradient norm", scalar(*exchange.gradientNorm));
  if (!std::isfinite(loss))
    return stop("train.loss_not_finite", "loss", loss);
  return {};
}

Status RankTrainer::evaluate(uint64_t step) {
  const BatchLayout &batch = program.batch;
  const uint64_t count = std::min(setup.flags.evalSequences.value_or(setup.evalData->sequences()),
                                  setup.evalData->sequences());
  const auto together =
      static_cast<uint64_t>(program.mesh.sizeOf(batch.dataAxes) * batch.microBatch);
  filled.reset();
  double sum = 0;
  uint64_t tokens = 0;
  for (uint64_t done = 0; done < count; done += together) {
    CLEAVE_RT_RETURN_IF_ERROR(executor->run(EntryKind::Begin));
    CLEAVE_RT_RETURN_IF_ERROR(
        evalReader->fillEvaluation(static_cast<int64_t>(done / together), count));
    CLEAVE_RT_RETURN_IF_ERROR(executor->run(EntryKind::Count));
    CLEAVE_RT_RETURN_IF_ERROR(executor->run(EntryKind::Prepare));
    if (pipeline)
      CLEAVE_RT_RETURN_IF_ERROR(pipeline->evaluate());
    CLEAVE_RT_RETURN_IF_ERROR(executor->run(EntryKind::Evaluate));
    const uint64_t valid = std::min(together, count - done) * static_cast<uint64_t>(batch.sequence);
    sum += static_cast<double>(scalar(program.exchange.loss)) * static_cast<double>(valid);
    tokens += valid;
  }
  if (!isFirst())
    return {};
  shared.result.evaluation = EvalMetrics{step, sum / static_cast<double>(tokens), tokens};
  shared.progress->evaluated(*shared.result.evaluation);
  if (logFailure.ok())
    logFailure = shared.log.write(*shared.result.evaluation);
  return {};
}

Status RankTrainer::save(uint64_t step) {
  SaveTarget target;
  target.folder = setup.flags.checkpoint;
  target.step = step;
  target.rank = static_cast<uint32_t>(world.rank());
  target.ranks = static_cast<uint32_t>(world.size());
  target.hook = setup.hooks.save;
  RunState state = setup.state;
  state.step = step;
  state.samples = step * static_cast<uint64_t>(program.batch.globalBatch);
  savedStep = step;
  everyone->setPurpose("a checkpoint");
  return saveCheckpoint(program, target, std::move(state), executor->memory(), *everyone);
}

/// If any process was asked to, or the log takes no more lines.
StatusOr<bool> RankTrainer::shouldStop() {
  const bool isAsked = world.leadsProcess() && setup.stopRequested();
  float stop = isAsked || !logFailure.ok() ? 1 : 0;
  everyone->setPurpose("whether to stop");
  CLEAVE_RT_RETURN_IF_ERROR(everyone->allReduce({&stop, 1}, ReduceKind::Max));
  return stop > 0;
}

Status RankTrainer::finish(uint64_t step) {
  if (!setup.flags.checkpoint.empty() && savedStep != step && step > 0)
    CLEAVE_RT_RETURN_IF_ERROR(save(step));
  if (setup.evalData && step == setup.steps)
    CLEAVE_RT_RETURN_IF_ERROR(evaluate(step));
  shared.uses[world.rank()] = executor->memoryUse();
  shared.traffic[world.rank()] = traffic->lines();
  everyone->setPurpose("the end");
  CLEAVE_RT_RETURN_IF_ERROR(everyone->barrier());
  if (world.leadsProcess())
    shared.result.stepsDone = step;
  if (isFirst()) {
    shared.result.savedStep = savedStep;
    // Ranks elsewhere have left nothing here.
    for (const MemoryUse &use : shared.uses)
      shared.result.memory += use;
    if (setup.flags.profile) {
      shared.result.profile = summarise(program, executor->commands(), executor->profile());
      shared.result.traffic = shared.traffic[world.rank()];
      if (logFailure.ok())
        logFailure =
            shared.log.writeTraffic(step, step - setup.firstStep, trafficJson(shared.traffic));
    }
  }
  if (!setup.flags.exportFolder.empty())
    CLEAVE_RT_RETURN_IF_ERROR(exportWeights());
  // Nobody frees its memory while it is being exported.
  CLEAVE_RT_RETURN_IF_ERROR(everyone->barrier());
  // Behind all that is kept of the run, so that a mistake of ours costs none of it.
  CLEAVE_RT_RETURN_IF_ERROR(traffic->check());
  if (logFailure.ok() || savedStep != step)
    return logFailure;
  return Error(logFailure.error())
      .note(fmt::format("the state after step {} was saved, go on with --resume", step));
}

Status RankTrainer::exportWeights() {
  const std::string &folder = setup.flags.exportFolder;
  if (!world.isOneProcess())
    return exportTogether(setup.image, world.rank(), executor->memory(), *everyone, folder,
                          setup.flags.exportType);
  return isFirst() ? exportModel(setup.image, shared.memories, folder, setup.flags.exportType)
                   : Status();
}

Status RankTrainer::run() {
  CLEAVE_RT_RETURN_IF_ERROR(prepare());
  auto due = [](const std::optional<uint64_t> &every, uint64_t step) {
    return every && step % *every == 0;
  };
  uint64_t step = setup.firstStep;
  bool stop = false;
  while (step < setup.steps && !stop) {
    const double before = secondsSinceStart();
    world.enterStep(++step);
    traffic->enter();
    const Status status = trainStep(step);
    traffic->leave();
    if (!status.ok()) {
      Error error = status.error();
      error.notes.push_back({{}, fmt::format("on rank {} in step {}", world.rank(), step)});
      return error;
    }
    CLEAVE_RT_RETURN_IF_ERROR(reportStep(step, secondsSinceStart() - before));
    if (isFirst() && setup.hooks.step)
      setup.hooks.step(step);
    if (setup.evalData && step < setup.steps && due(setup.flags.evalEvery, step))
      CLEAVE_RT_RETURN_IF_ERROR(evaluate(step));
    if (due(setup.flags.saveEvery, step))
      CLEAVE_RT_RETURN_IF_ERROR(save(step));
    CLEAVE_RT_ASSIGN_OR_RETURN(stop, shouldStop());
  }
  return finish(step);
}

} // namespace

Status trainRank(const RunSetup &setup, SharedRun &shared, World &world) {
  return RankTrainer(setup, shared, world).run();
}

} // namespace cleave::rt
