// Commands resolved to actions, and the loop that runs them.
#include "runtime/Exec/Executor.h"

#include "runtime/Device/CPU/Tasks.h"
#include "runtime/Schema/Unroll.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace cleave::rt {
namespace {

/// Memory is cleared and copied in pieces of this many bytes.
constexpr int64_t pieceBytes = 256 << 10;

int64_t pieces(int64_t bytes) { return (bytes + pieceBytes - 1) / pieceBytes; }

MatrixStrides stridesOf(const MatrixOperand &operand) {
  return {operand.rowStride, operand.columnStride};
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What the processor does, once the device is done with what was started before.
std::function<Status()> behindDevice(RankDevice &device, std::function<Status()> action) {
  return [&device, action = std::move(action)] {
    CLEAVE_RT_RETURN_IF_ERROR(device.finish());
    return action();
  };
}

} // namespace

Executor::Executor(const Program &program, int64_t rank, ThreadPool &pool, RankMemory memory,
                   ExecutorOptions options)
    : program(program), unrolled(unrollEntries(program)), ownRank(rank), pool(pool),
      rankMemory(std::move(memory)), options(std::move(options)), matmul(pool),
      picked(pool, matmul) {}

Executor::~Executor() { endBeside(internalError("a rank left while exchanges were under way")); }

StatusOr<std::unique_ptr<Executor>> Executor::create(const Program &program, int64_t rank,
                                                     KernelTable kernels, ThreadPool &pool,
                                                     std::vector<Communicator *> groups,
                                                     ExecutorOptions options) {
  CLEAVE_RT_ASSIGN_OR_RETURN(RankMemory memory, RankMemory::allocate(program, options.device));
  if (options.device)
    CLEAVE_RT_RETURN_IF_ERROR(options.device->finish());
  fillConstants(program, rank, memory);
  std::unique_ptr<Executor> executor(
      new Executor(program, rank, pool, std::move(memory), std::move(options)));
  CLEAVE_RT_RETURN_IF_ERROR(executor->prepare(kernels, groups));
  return executor;
}

Status Executor::prepare(KernelTable kernels, const std::vector<Communicator *> &groups) {
  CLEAVE_RT_ASSIGN_OR_RETURN(
      collectives, CollectiveRunner::create(program, unrolled, ownRank, rankMemory, pool, groups));
  CLEAVE_RT_RETURN_IF_ERROR(prepareBeside(groups));
  for (size_t entry = 0; entry < unrolled.size(); ++entry) {
    const int64_t slots = program.stageOfEntry(entry) ? program.slots() : 1;
    actions.emplace_back(static_cast<size_t>(slots));
    for (int64_t slot = 0; slot < slots; ++slot)
      CLEAVE_RT_RETURN_IF_ERROR(prepareSlot(entry, slot, kernels));
    times.emplace_back(unrolled[entry].size());
  }
  return {};
}

Status Executor::prepareBeside(const std::vector<Communicator *> &groups) {
  size_t most = 0;
  for (const std::vector<Command> &entry : unrolled)
    for (const Command &command : entry)
      if (const auto *bucket = std::get_if<BesideCommand>(&command.what))
        most = std::max(most, static_cast<size_t>(bucket->number) + 1);
  if (most == 0)
    return {};
  beside = std::make_unique<Beside>();
  beside->started.resize(most);
  CLEAVE_RT_ASSIGN_OR_RETURN(beside->collectives,
                             CollectiveRunner::create(program, unrolled, ownRank, rankMemory,
                                                      beside->pool, groups, /*isBeside=*/true));
  return {};
}

Status Executor::prepareSlot(size_t entry, int64_t slot, KernelTable kernels) {
  const std::vector<int64_t> distances = rankMemory.distancesTo(slot);
  std::vector<Action> &list = actions[entry][static_cast<size_t>(slot)];
  for (const Command &each : unrolled[entry]) {
    const Command command = slot == 0 ? each : shifted(each, distances);
    StatusOr<Action> action = prepareOnDevice(command);
    if (action.ok() && !*action) {
      action = prepareCommand(command, kernels);
      if (action.ok() && options.device)
        action = behindDevice(*options.device, std::move(*action));
    }
    if (!action.ok())
      return failed(entry, list.size(), action.status());
    list.push_back(std::move(action).value());
  }
  return {};
}

StatusOr<Executor::Action> Executor::prepareOnDevice(const Command &command) {
  if (!options.device)
    return Action();
  if (const auto *zero = std::get_if<ZeroCommand>(&command.what))
    return options.device->zero(rankMemory.address(zero->region), zero->region.bytes);
  if (const auto *copy = std::get_if<CopyCommand>(&command.what))
    return options.device->copy(rankMemory.address(copy->target), rankMemory.address(copy->source),
                                copy->source.bytes);
  const auto *kernel = std::get_if<KernelCommand>(&command.what);
  if (!kernel || kernel->threads == 0)
    return Action();
  GridLaunch launch{kernel->symbol, kernel->extent, kernel->threads, {}, {}, kernel->sharedBytes};
  for (const Region &arg : kernel->args) {
    launch.args.push_back(rankMemory.address(arg));
    launch.bytes.push_back(arg.bytes);
  }
  return options.device->prepare(std::move(launch));
}

StatusOr<Executor::Action> Executor::prepareCommand(const Command &command, KernelTable kernels) {
  if (const auto *kernel = std::get_if<KernelCommand>(&command.what))
    return prepareKernel(*kernel, kernels);
  if (const auto *product = std::get_if<MatmulCommand>(&command.what))
    return prepareMatmul(*product);
  if (const auto *rows = std::get_if<PickedMatmulCommand>(&command.what))
    return preparePicked(*rows);
  if (const auto *outer = std::get_if<PickedOuterCommand>(&command.what))
    return preparePicked(*outer);
  if (const auto *zero = std::get_if<ZeroCommand>(&command.what))
    return prepareZero(*zero);
  if (const auto *copy = std::get_if<CopyCommand>(&command.what))
    return prepareCopy(*copy);
  if (const auto *bucket = std::get_if<BesideCommand>(&command.what))
    return prepareStart(*bucket, command.label);
  if (const auto *await = std::get_if<AwaitCommand>(&command.what))
    return prepareAwait(*await);
  return Action([this, command] { return collectives->run(command); });
}

Executor::Action Executor::prepareStart(const BesideCommand &bucket, const std::string &label) {
  const ExchangeLane::Job &job = beside->jobs.emplace_back(
      [runner = beside->collectives.get(), bucket, label] { return runner->run(bucket, label); });
  uint64_t &started = beside->started[static_cast<size_t>(bucket.number)];
  return [this, &job, &started] {
    started = beside->lane.start(job);
    return Status();
  };
}

Executor::Action Executor::prepareAwait(const AwaitCommand &command) {
  const uint64_t &started = beside->started[static_cast<size_t>(command.number)];
  return [this, &started] {
    if (!options.awaiting || beside->lane.isDone(started))
      return beside->lane.await(started);
    options.awaiting(true);
    Status status = beside->lane.await(started);
    options.awaiting(false);
    return status;
  };
}

/// Without an error of a command nothing is under way when an entry ends.
void Executor::endBeside(const Error &error) {
  if (!beside || beside->lane.isIdle())
    return;
  if (options.endRun)
    options.endRun(error);
  beside->lane.awaitAll();
}

StatusOr<Executor::Action> Executor::prepareKernel(const KernelCommand &command,
                                                   KernelTable kernels) {
  std::vector<void *> args;
  for (const Region &arg : command.args)
    args.push_back(rankMemory.address(arg));
  if (command.threads > 0)
    return Error(internalError("nothing launches the kernel " + command.symbol));
  CLEAVE_RT_ASSIGN_OR_RETURN(const KernelFunction function, findKernel(kernels, command.symbol));
  const int64_t extent = command.extent, grain = command.grain;
  const int64_t tasks = (extent + grain - 1) / grain;
  return Action([this, function, args = std::move(args), extent, grain, tasks] {
    return runTasks(pool, tasks, [&](int64_t task, unsigned) {
      function(args.data(), task * grain, std::min(extent, (task + 1) * grain));
    });
  });
}

StatusOr<Executor::Action> Executor::prepareMatmul(const MatmulCommand &command) {
  MatmulProblem problem;
  problem.m = command.m;
  problem.n = command.n;
  problem.k = command.k;
  problem.a = stridesOf(command.a);
  problem.b = stridesOf(command.b);
  problem.c = stridesOf(command.c);
  problem.accumulate = command.accumulate;
  problem.types = {command.operandType == DataType::BF16, command.resultType == DataType::BF16};
  for (const MatrixBatch &batch : command.batch)
    problem.batch.push_back({batch.count, batch.strideA, batch.strideB, batch.strideC});
  CLEAVE_RT_ASSIGN_OR_RETURN(const MatmulPlan *plan, matmul.prepare(problem));
  const void *a = rankMemory.address(command.a.region);
  const void *b = rankMemory.address(command.b.region);
  void *c = rankMemory.address(command.c.region);
  return Action([this, plan, a, b, c] { return matmul.run(*plan, a, b, c); });
}

template <typename Command, typename Plan>
Executor::Action Executor::runPicked(const Command &command, Plan plan) {
  const void *a = rankMemory.address(command.a), *b = rankMemory.address(command.b);
  const int32_t *index = rankMemory.ints(command.index);
  const int32_t *offset = command.offset ? rankMemory.ints(*command.offset) : nullptr;
  float *c = rankMemory.floats(command.c);
  return [this, plan = std::move(plan), a, b, index, offset, c] {
    return picked.run(plan, a, b, index, offset, c);
  };
}

StatusOr<Executor::Action> Executor::preparePicked(const PickedMatmulCommand &command) {
  PickedMatmulProblem problem{
      command.rows,          command.n, command.k, command.matrices, command.share,
      command.n * command.k, {}};
  problem.b = command.transposed ? MatrixStrides{1, command.k} : MatrixStrides{command.n, 1};
  problem.narrow = command.operandType == DataType::BF16;
  CLEAVE_RT_ASSIGN_OR_RETURN(PickedMatmulPlan plan, picked.prepare(problem));
  return runPicked(command, std::move(plan));
}

StatusOr<Executor::Action> Executor::preparePicked(const PickedOuterCommand &command) {
  CLEAVE_RT_ASSIGN_OR_RETURN(
      PickedOuterPlan plan,
      picked.prepare(PickedOuterProblem{command.rows, command.m, command.n, command.matrices,
                                        command.shareA, command.shareB, command.accumulate,
                                        command.operandType == DataType::BF16}));
  return runPicked(command, std::move(plan));
}

Executor::Action Executor::prepareZero(const ZeroCommand &command) {
  std::byte *at = rankMemory.address(command.region);
  const int64_t bytes = command.region.bytes;
  return [this, at, bytes] {
    return runTasks(pool, pieces(bytes), [&](int64_t task, unsigned) {
      const int64_t start = task * pieceBytes;
      std::memset(at + start, 0, static_cast<size_t>(std::min(pieceBytes, bytes - start)));
    });
  };
}

Executor::Action Executor::prepareCopy(const CopyCommand &command) {
  const std::byte *from = rankMemory.address(command.source);
  std::byte *to = rankMemory.address(command.target);
  const int64_t bytes = command.source.bytes;
  return [this, from, to, bytes] {
    return runTasks(pool, pieces(bytes), [&](int64_t task, unsigned) {
      const int64_t start = task * pieceBytes;
      std::memcpy(to + start, from + start,
                  static_cast<size_t>(std::min(pieceBytes, bytes - start)));
    });
  };
}

Status Executor::failed(size_t entry, size_t index, const Status &status) const {
  const Command &command = unrolled[entry][index];
  Error error = status.error();
  error.notes.push_back(
      {{},
       fmt::format("on rank {}, {} command {}: {}{}{}", ownRank, program.entryName(entry), index,
                   nameOf(command), command.label.empty() ? "" : " of ", command.label)});
  return error;
}

size_t Executor::behindWritten(size_t entry, const Region &region) const {
  const std::vector<Command> &list = unrolled[entry];
  for (size_t i = 0; i < list.size(); ++i)
    if (const auto *copy = std::get_if<CopyCommand>(&list[i].what))
      if (copy->target.segment == region.segment && copy->target.offset == region.offset)
        return i + 1;
  return list.size();
}

bool Executor::writesBefore(EntryKind entry, const Region &first, const Region &second) const {
  const size_t index = Program::entryIndex(entry);
  return behindWritten(index, first) < behindWritten(index, second);
}

Status Executor::runUntilWritten(EntryKind entry, const Region &region) {
  const size_t index = Program::entryIndex(entry);
  return runList(index, 0, 0, behindWritten(index, region));
}

Status Executor::runBehindWritten(EntryKind entry, const Region &region) {
  const size_t index = Program::entryIndex(entry);
  return runList(index, 0, behindWritten(index, region), unrolled[index].size());
}

void Executor::watch(size_t entry, int64_t slot, size_t index) {
  const Command &command = unrolled[entry][index];
  const bool isBad =
      !bad && hasBadResult(slot == 0 ? command : shifted(command, rankMemory.distancesTo(slot)),
                           rankMemory);
  if (isBad)
    bad = BadResult{entry, index, watched};
  ++watched;
}

Status Executor::runList(size_t entry, int64_t slot, size_t first, size_t last) {
  const std::vector<Action> &list = actions[entry][static_cast<size_t>(slot)];
  std::vector<CommandTime> &timed = times[entry];
  for (size_t i = first; i < last; ++i) {
    const double start = options.profile ? now() : 0;
    Status status = list[i]();
    if (status.ok() && (options.profile || watching || i + 1 == last))
      status = finishDevice();
    if (!status.ok()) {
      Status noted = failed(entry, i, status);
      endBeside(noted.error());
      return noted;
    }
    if (options.profile) {
      timed[i].seconds += now() - start;
      ++timed[i].calls;
    }
    if (watching)
      watch(entry, slot, i);
  }
  return {};
}

MemoryUse Executor::memoryUse() const {
  return {rankMemory.totalBytes(),
          collectives->stagingBytes() + (beside ? beside->collectives->stagingBytes() : 0),
          matmul.scratchBytes() + picked.scratchBytes()};
}

} // namespace cleave::rt
