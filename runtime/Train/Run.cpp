// From flags to a running world.
#include "runtime/Train/Run.h"

#include "runtime/Base/Waiting.h"
#include "runtime/Comm/Local/LocalWorld.h"
#include "runtime/Train/Report.h"
#include "runtime/Train/Resume.h"
#include "runtime/Train/World.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

namespace cleave::rt {

/// Once for the whole run.
void Run::note(const std::string &text) const {
  if (leads())
    fmt::print(stderr, "note: {}\n", text);
}

Status Run::prepare(std::string_view text, Image given) {
  image = std::move(given);
  machine = probeMachine();
  state.planHash = fmt::format("{:08x}", crc32c(std::as_bytes(std::span(text))));
  if (team)
    CLEAVE_RT_RETURN_IF_ERROR(agreeOnProgram(text));
  CLEAVE_RT_RETURN_IF_ERROR(checkWorld(program(), flags, launch));
  CLEAVE_RT_RETURN_IF_ERROR(checkHost(program(), machine));
  CLEAVE_RT_ASSIGN_OR_RETURN(device, openDevice(image, flags, kernels));
  if (device)
    note(fmt::format("fused kernels run on {}; products, attention and exchanges on the processor",
                     device->describe()));
  CLEAVE_RT_ASSIGN_OR_RETURN(recipe, parseRecipe(program().recipe, "the program's recipe"));
  recipe.globalBatch = static_cast<uint64_t>(program().batch.globalBatch);
  recipe.microBatch = static_cast<uint64_t>(program().batch.microBatch);
  recipe.sequenceLength = static_cast<uint64_t>(program().batch.sequence);
  state.seed = recipe.seed;
  state.program = fmt::format("cleave {} {:08x}", program().modelName,
                              crc32c(std::as_bytes(std::span(program().configText))));
  CLEAVE_RT_RETURN_IF_ERROR(openData());
  CLEAVE_RT_RETURN_IF_ERROR(openCheckpoint());
  CLEAVE_RT_RETURN_IF_ERROR(openWeights());
  CLEAVE_RT_RETURN_IF_ERROR(createSchedule());
  if (leads())
    CLEAVE_RT_RETURN_IF_ERROR(checkFolders());
  if (team)
    CLEAVE_RT_RETURN_IF_ERROR(agreeOnSettings());
  if (team && !flags.checkpoint.empty())
    CLEAVE_RT_RETURN_IF_ERROR(agreeOnFolder());
  if (leads())
    CLEAVE_RT_RETURN_IF_ERROR(openLog());
  shared.memories.resize(static_cast<size_t>(program().mesh.world()));
  shared.uses.resize(shared.memories.size());
  shared.traffic.resize(shared.memories.size());
  return {};
}

Status Run::openLog() {
  shared.progress.emplace(STDERR_FILENO, ::isatty(STDERR_FILENO) != 0, steps());
  shared.summary.emplace(steps());
  if (flags.log.empty())
    return {};
  std::vector<std::string> inputs = flags.data;
  inputs.insert(inputs.end(), flags.evalData.begin(), flags.evalData.end());
  inputs.push_back(flags.init);
  for (const std::string &input : inputs)
    if (std::error_code failed; std::filesystem::equivalent(flags.log, input, failed) && !failed)
      return userError("flags.bad_value", fmt::format("'{}' is read and cannot be the log", input))
          .withGiven("--log " + flags.log)
          .withRule("a log does not replace what the run reads")
          .suggest("--log log.jsonl");
  CLEAVE_RT_ASSIGN_OR_RETURN(shared.log, firstStep > 0 ? MetricsLog::resume(flags.log, firstStep)
                                                       : MetricsLog::create(flags.log));
  return {};
}

Status Run::openData() {
  DatasetOptions options;
  options.sequenceLength = static_cast<uint64_t>(program().batch.sequence);
  options.vocabulary = static_cast<uint64_t>(program().batch.vocabulary);
  options.rawBits = flags.tokenBits;
  options.order = recipe.order == DataOrder::Shuffle ? OrderKind::Shuffle : OrderKind::Sequential;
  options.seed = recipe.seed;
  if (!flags.data.empty()) {
    CLEAVE_RT_ASSIGN_OR_RETURN(data, TokenDataset::open(flags.data, options));
    // About as many tokens as can be looked at in a second.
    constexpr uint64_t most = uint64_t{1} << 28;
    CLEAVE_RT_RETURN_IF_ERROR(data->checkIds(most / options.sequenceLength));
    state.dataDigest = fmt::format("{:08x}", data->digest());
  }
  if (flags.evalData.empty())
    return {};
  if (std::ranges::all_of(image.programs, [](const Program &each) {
        return each.entry(EntryKind::Evaluate).empty();
      }))
    return userError("runtime.no_evaluation", "the program was compiled without an evaluation")
        .suggest("leave out --eval-data");
  options.order = OrderKind::Sequential;
  CLEAVE_RT_ASSIGN_OR_RETURN(evalData, TokenDataset::open(flags.evalData, options));
  // Read before the first step: its first use may be hours away.
  return evalData->checkIds(flags.evalSequences.value_or(evalData->sequences()));
}

/// Takes the checkpoint folder, if it is there and not taken yet.
Status Run::holdCheckpoints() {
  std::error_code ignored;
  if (heldFolder || !std::filesystem::is_directory(flags.checkpoint, ignored))
    return {};
  CLEAVE_RT_ASSIGN_OR_RETURN(heldFolder, lockFolder(flags.checkpoint));
  if (heldFolder)
    return {};
  return userError("checkpoint.in_use",
                   fmt::format("another run is using the checkpoint folder {}", flags.checkpoint))
      .withGiven("--checkpoint " + flags.checkpoint)
      .withRule("one run at a time saves into a folder")
      .suggest("wait for the other run, or stop it")
      .suggest("--checkpoint with another folder");
}

/// What the end of the run writes can be written.
Status Run::checkFolders() {
  if (!flags.exportFolder.empty())
    CLEAVE_RT_RETURN_IF_ERROR(checkFolderTakesFiles(flags.exportFolder, "export.write_failed"));
  if (flags.checkpoint.empty())
    return {};
  CLEAVE_RT_RETURN_IF_ERROR(checkFolderTakesFiles(flags.checkpoint, "checkpoint.write_failed"));
  return holdCheckpoints();
}

/// Refuses to start anew over checkpoints that all turned out damaged.
static Status refuseDamaged(const std::vector<SkippedCheckpoint> &skipped) {
  const auto finished = std::ranges::find_if(skipped, [](const SkippedCheckpoint &one) {
    return one.reason.kind != "checkpoint.unfinished";
  });
  if (finished == skipped.end())
    return {};
  Error error = Error(finished->reason)
                    .withGiven("--resume, " + finished->path)
                    .withRule("a run starts anew only where no checkpoint was finished before")
                    .suggest("restore " + finished->path)
                    .suggest("to start from the beginning, move it away or give another folder");
  error.exitCode = ExitCode::User;
  return error;
}

Status Run::openCheckpoint() {
  if (flags.checkpoint.empty())
    return {};
  if (leads())
    CLEAVE_RT_RETURN_IF_ERROR(holdCheckpoints());
  CLEAVE_RT_ASSIGN_OR_RETURN(CheckpointSearch found, findNewestCheckpoint(flags.checkpoint));
  for (const SkippedCheckpoint &skipped : found.skipped)
    note(fmt::format("passed over {}: {}", skipped.path, skipped.reason.message));
  if (!flags.resume) {
    if (found.newest)
      return userError("checkpoint.exists",
                       fmt::format("{} holds a checkpoint of another run", flags.checkpoint))
          .withGiven(found.newest->folder())
          .withRule("a run that does not go on from a checkpoint needs a folder of its own")
          .suggest("--resume")
          .suggest("--checkpoint with another folder");
    return {};
  }
  if (!found.newest) {
    CLEAVE_RT_RETURN_IF_ERROR(refuseDamaged(found.skipped));
    note(
        fmt::format("no complete checkpoint in {}; starting from the beginning", flags.checkpoint));
    return {};
  }
  const RunState &saved = found.newest->state();
  ResumeRequest request;
  request.recipe = recipe;
  request.steps = steps();
  request.dataDigest = data ? state.dataDigest : saved.dataDigest;
  request.allowScheduleChange = flags.allowScheduleChange;
  request.allowDataChange = flags.allowDataChange;
  CLEAVE_RT_ASSIGN_OR_RETURN(recipe, checkResume(saved, request));
  for (const std::string &change : allowedChanges(saved, recipe))
    note(change);
  if (saved.program != state.program && saved.program.size() == state.program.size())
    note("the checkpoint was saved by a binary of another config; shapes alone are compared");
  if (saved.step > steps())
    return userError(
               "resume.past_end",
               fmt::format("the checkpoint is at step {}, beyond --steps {}", saved.step, steps()))
        .withGiven(fmt::format("--steps {}", steps()))
        .withRule("--steps counts all steps of the run, those before the resume included")
        .suggest(fmt::format("--steps {}", saved.step));
  firstStep = saved.step;
  note(fmt::format("resuming after step {} from {}", firstStep, found.newest->folder()));
  if (firstStep == steps())
    note("all steps were done before; nothing is left to train");
  shared.checkpoint = std::move(found.newest);
  return {};
}

Status Run::openWeights() {
  if (flags.init.empty())
    return {};
  if (shared.checkpoint) {
    note("--init is not used: the checkpoint has the weights");
    return {};
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(shared.weights, InitialWeights::open(flags.init, image));
  const std::vector<std::string> &unused = shared.weights->unused();
  if (!unused.empty())
    note(fmt::format("{} tensor{} of {} not used, such as \"{}\"", unused.size(),
                     unused.size() == 1 ? "" : "s", flags.init, unused.front()));
  return {};
}

Status Run::createSchedule() {
  const uint64_t length = std::max<uint64_t>(steps(), 1);
  CLEAVE_RT_ASSIGN_OR_RETURN(schedule, Schedule::create(recipe.learningRate, length));
  CLEAVE_RT_ASSIGN_OR_RETURN(state.recipe, recipeForCheckpoint(recipe, length));
  if (const LearningRateRecipe &rate = schedule->recipe();
      firstStep > 0 && rate.kind != ScheduleKind::Constant && rate.total.value_or(length) < length)
    note(fmt::format("the learning rate descends until step {}, as planned before, and stays at {} "
                     "from there; to stretch the descent, compile with --set "
                     "learning_rate.total={} and add --allow-schedule-change",
                     *rate.total, rate.final, length));
  return {};
}

StatusOr<std::unique_ptr<HostedRanks>> Run::createWorld() {
  const WorldPlan plan = planWorld(image);
  const int64_t onTheCores = ranksHere() * (team ? team->sharingCores() : 1);
  threads = threadsPerRank(flags, machine.usableCores, onTheCores);
  cores = {onTheCores, static_cast<int64_t>(machine.usableCores)};
  if (!team) {
    LocalWorldOptions options;
    options.threadsPerRank = threads;
    CLEAVE_RT_ASSIGN_OR_RETURN(auto world, LocalWorld::create(plan, options));
    return std::unique_ptr<HostedRanks>(std::move(world));
  }
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (machine.usableCores < static_cast<unsigned>(ranksHere()) && machine.usableCores < online)
    note(fmt::format("this process may use {} of {} cores for {} ranks; if {} binds processes to "
                     "cores, --bind-to none gives them all",
                     machine.usableCores, online, ranksHere(), launch->launcher));
  const bool haveCores = static_cast<uint64_t>(onTheCores) * threads <= machine.usableCores;
  return team->createWorld(plan, haveCores ? defaultSpin : std::chrono::nanoseconds(0));
}

StatusOr<ExitCode> Run::execute(StopSignals &signals) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto world, createWorld());
  const RunSetup setup{.image = image,
                       .kernels = kernels.table,
                       .device = device.get(),
                       .firstPlace = (launch ? launch->localProcess : 0) * ranksHere(),
                       .flags = flags,
                       .recipe = recipe,
                       .schedule = *schedule,
                       .threads = threads,
                       .cores = cores,
                       .processes = processes(),
                       .data = data ? &*data : nullptr,
                       .evalData = evalData ? &*evalData : nullptr,
                       .firstStep = firstStep,
                       .steps = steps(),
                       .state = state,
                       .stopRequested = [&signals] { return signals.requested(); },
                       .hooks = hooks,
                       .start = start};
  if (leads())
    CLEAVE_RT_RETURN_IF_ERROR(shared.log.writeHeader(
        program().plan, describeHost(machine, program().mesh.world(), processes(), threads)));
  const Status status = world->run([&](World &self) { return trainRank(setup, shared, self); });
  if (shared.progress)
    shared.progress->finish();
  // A signal after the last step is taken here, or it would end the process as
  // soon as it is let through again.
  (void)signals.requested();
  CLEAVE_RT_RETURN_IF_ERROR(status);
  if (leads()) {
    completeSummary(setup, shared.result, peakResidentBytes(), *shared.summary);
    std::fputs(shared.summary->text().c_str(), stdout);
    std::fflush(stdout);
    CLEAVE_RT_RETURN_IF_ERROR(
        shared.log.writeSummary(shared.result.stepsDone, shared.summary->figures()));
  }
  if (shared.result.stepsDone >= steps())
    return ExitCode::Done;
  note(fmt::format("stopped by a signal after step {} of {}{}", shared.result.stepsDone, steps(),
                   flags.checkpoint.empty() ? "; nothing was saved, there is no --checkpoint"
                                            : "; saved, go on with --resume"));
  return ExitCode::Interrupted;
}

/// The binary, as far as it can differ from another one.
Status Run::agreeOnProgram(std::string_view text) {
  return team->agree(
      "runtime.program_mismatch",
      {{"program", fmt::format("{} ({}, {} bytes, {} kernels)", state.planHash, program().modelName,
                               text.size(), kernels.table.size())}});
}

/// All processes see the folder that the first one writes to: else the first
/// checkpoint, maybe hours from now, would end the run.
Status Run::agreeOnFolder() {
  const std::string path = flags.checkpoint + "/.processes";
  std::string seen;
  if (leads()) {
    seen = fmt::format("{} {}", machine.hostName, ::getpid());
    CLEAVE_RT_RETURN_IF_ERROR(writeFileAtomically(path, seen));
  }
  // Now it is there.
  CLEAVE_RT_RETURN_IF_ERROR(team->agree("runtime.settings_mismatch", {}));
  // A file system of several machines may show it a little later.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (seen.empty() && std::chrono::steady_clock::now() < deadline) {
    if (const StatusOr<std::string> text = readWholeFile(path); text.ok())
      seen = *text;
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const Status agreed = team->agree(
      "runtime.settings_mismatch",
      {{"--checkpoint folder", seen.empty() ? "one that the first process does not write to"
                                            : "the one with the mark of " + seen}});
  std::error_code ignored;
  if (leads())
    std::filesystem::remove(path, ignored);
  return agreed;
}

/// All that decides what the ranks do together.
Status Run::agreeOnSettings() {
  auto number = [](const std::optional<uint64_t> &value) {
    return value ? fmt::format("{}", *value) : std::string("none");
  };
  auto given = [](bool is) { return std::string(is ? "given" : "not given"); };
  return team->agree(
      "runtime.settings_mismatch",
      {{"--steps", number(flags.steps)},
       {"--init", given(!flags.init.empty())},
       {"--export", given(!flags.exportFolder.empty())},
       {"--checkpoint", given(!flags.checkpoint.empty())},
       {"--save-every", number(flags.saveEvery)},
       {"--eval-data", evalData ? fmt::format("{:08x}", evalData->digest()) : given(false)},
       {"--eval-every", number(flags.evalEvery)},
       {"--eval-sequences", number(flags.evalSequences)},
       {"--data", state.dataDigest},
       {"checkpoint", firstStep > 0 ? fmt::format("step {}", firstStep) : std::string("none")},
       {"recipe", toString(state.recipe)}});
}

} // namespace cleave::rt
