//===- Training.cpp - A distributed program, interpreted step by step ------===//

#include "cleave/Verify/Training.h"
#include "cleave/Support/Diagnostics.h"
#include "lib/Verify/Play.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/Schema/TokenOrder.h"
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

using namespace mlir;
namespace cleave {

SmallVector<ModuleOp> programsIn(ModuleOp module) {
  SmallVector<ModuleOp> parts(module.getOps<ModuleOp>());
  return parts.empty() ? SmallVector<ModuleOp>{module} : parts;
}

Part::Part(ModuleOp module, ModuleOp facts)
    : module(module), facts(facts), mesh(*facts.getOps<dist::MeshOp>().begin()) {
  options.ranks = static_cast<unsigned>(mesh.ranks());
  for (auto function : facts.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto blocks = function.getArgAttrOfType<IntegerAttr>(i, "nn.zigzag"))
        zigzag = blocks.getInt();
}

std::vector<int64_t> Part::orderOf(int64_t length) const { return rt::zigzagOrder(length, zigzag); }

RankTensors Part::cut(const HostTensor &whole, dist::ShardingAttr sharding) const {
  RankTensors blocks;
  for (int64_t r = 0; r < mesh.ranks(); ++r)
    blocks.push_back(dist::cutBlock(whole, sharding, mesh, r));
  return blocks;
}

RankTensors Part::cutFor(StringRef entry, unsigned i, const HostTensor &whole) {
  auto function = facts.lookupSymbol<func::FuncOp>(entry);
  auto sharding = function.getArgAttrOfType<dist::ShardingAttr>(i, "dist.sharding");
  if (!function.getArgAttr(i, "nn.zigzag"))
    return cut(whole, sharding);
  const int64_t length = whole.shape[1];
  const std::vector<int64_t> order = orderOf(length);
  HostTensor placed(whole.shape);
  for (int64_t at = 0; at < whole.size(); ++at)
    placed.data[at] = whole.data[at / length * length + order[at % length]];
  return cut(placed, sharding);
}

dist::ShardingAttr Part::shardingOf(nn::ParameterOp parameter, StringRef slot) const {
  auto sharding = parameter->getAttrOfType<dist::ShardingAttr>(("dist." + slot).str());
  return sharding ? sharding : dist::ShardingAttr::replicated(parameter.getContext(), 0);
}

rt::StatusOr<HostTensor> Part::joined(nn::ParameterOp parameter, const std::string &name,
                                      StringRef slot) const {
  const RankTensors *blocks = state.find(name, slot);
  if (!blocks)
    return rt::internalError("nothing is stored as " + slot.str() + " of " + name);
  SmallVector<const HostTensor *> pointers;
  for (const HostTensor &t : *blocks)
    pointers.push_back(&t);
  return dist::joinBlocks(pointers, parameter.getTensorType().getShape(),
                          shardingOf(parameter, slot), mesh);
}

rt::StatusOr<std::vector<RankTensors>> Part::call(StringRef entry,
                                                  ArrayRef<RankTensors> arguments) {
  auto function = module.lookupSymbol<func::FuncOp>(entry);
  if (!function)
    return rt::internalError("the program has no entry @" + entry.str());
  std::vector<RankTensors> results;
  CLEAVE_RT_RETURN_IF_ERROR(withDiagnostics(*module.getContext(), [&]() -> LogicalResult {
    auto run =
        interpret(cast<FunctionOpInterface>(function.getOperation()), arguments, state, options);
    if (failed(run))
      return failure();
    results = std::move(*run);
    return success();
  }));
  return results;
}

namespace {
/// Where the threads of all places meet to add up values. That a place does not come is
/// noticed when no other one can go on.
class Meeting {
public:
  explicit Meeting(size_t places) : busy(places), calls(places) {}

  FailureOr<RankTensors> add(size_t place, ArrayRef<int64_t> ranks, const RankTensors &value) {
    std::unique_lock<std::mutex> lock(mutex);
    const std::vector<int64_t> members(ranks.begin(), ranks.end());
    Sum &sum = sums[{members, calls[place][members]++}];
    sum.terms[static_cast<int64_t>(place)] = value;
    auto complete = [&] {
      return llvm::all_of(members, [&](int64_t m) { return sum.terms.contains(m); });
    };
    if (complete()) {
      busy += sum.waiting;
      sum.waiting = 0;
      changed.notify_all();
    } else {
      ++sum.waiting;
      stop();
      changed.wait(lock, [&] { return broken || complete(); });
      if (!complete())
        return failure();
    }
    RankTensors total = sum.terms.at(members.front());
    for (int64_t member : ArrayRef(members).drop_front())
      for (auto [to, from] : llvm::zip(total, sum.terms.at(member)))
        for (auto [x, y] : llvm::zip(to.data, from.data))
          x += y;
    return total;
  }

  /// A place is done, well or not.
  void leave(bool well) {
    std::lock_guard<std::mutex> lock(mutex);
    broken |= !well;
    stop();
  }

private:
  struct Sum {
    std::map<int64_t, RankTensors> terms;
    size_t waiting = 0;
  };

  /// One place less computes; where none is left, those that wait wait for ever.
  void stop() {
    broken |= --busy == 0;
    if (broken)
      changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool broken = false;
  /// Places that neither wait nor are done.
  size_t busy;
  /// How often each place has met each list of places.
  std::vector<std::map<std::vector<int64_t>, int64_t>> calls;
  std::map<std::pair<std::vector<int64_t>, int64_t>, Sum> sums;
};
} // namespace

Training::Training(ModuleOp program, ModuleOp facts) : program(program) {
  auto parts = programsIn(program), said = programsIn(facts ? facts : program);
  for (auto [part, fact] : llvm::zip(parts, said))
    places.push_back(std::make_unique<Part>(part, fact));
}

rt::Status Training::load(WeightSource weights) {
  for (auto &part : places)
    for (auto p : part->parameters())
      for (int64_t i = 0; i < p.getCount(); ++i) {
        const std::string name = p.getTensorName(i);
        CLEAVE_RT_ASSIGN_OR_RETURN(const HostTensor whole, weights(p, name));
        part->state.set(name, "value", part->cut(whole, part->shardingOf(p, "value")));
        const HostTensor zeros(whole.shape, 0.0);
        for (StringRef moment : {"moment1", "moment2"})
          part->state.set(name, moment, part->cut(zeros, part->shardingOf(p, moment)));
      }
  return rt::Status::success();
}

void Training::begin() {
  for (auto &part : places) {
    part->state.clearSlot("gradient");
    for (auto kept : part->facts.getOps<nn::AccumulatorOp>()) {
      auto given = kept->getAttrOfType<dist::ShardingAttr>("dist.value");
      const int64_t dims = kept.getTensorType().getRank();
      part->state.set(
          kept.getSymName(), "value",
          part->cut(HostTensor(kept.getTensorType().getShape(), 0.0),
                    given ? given : dist::ShardingAttr::replicated(kept.getContext(), dims)));
    }
  }
}

rt::Status Training::accumulate(int64_t microBatches, BatchSource batch) {
  for (int64_t m = 0; m < microBatches; ++m)
    CLEAVE_RT_RETURN_IF_ERROR(callTogether("count", {batch("targets", m)}).status());
  CLEAVE_RT_RETURN_IF_ERROR(survey(microBatches, batch));
  CLEAVE_RT_RETURN_IF_ERROR(callTogether("prepare", {}).status());
  if (auto schedules = program.getOps<pipe::ScheduleOp>(); !schedules.empty())
    return playSchedule((*schedules.begin()).getTable(), places, batch);
  for (int64_t m = 0; m < microBatches; ++m) {
    places[0]->micro = m;
    const bool isLast = m + 1 == microBatches && program.lookupSymbol("last");
    CLEAVE_RT_RETURN_IF_ERROR(
        callTogether(isLast ? "last" : "microbatch",
                     {batch("tokens", m), batch("targets", m), batch("positions", m)})
            .status());
  }
  return rt::Status::success();
}

rt::Status Training::survey(int64_t microBatches, BatchSource batch) {
  const bool isPipeline = !program.getOps<pipe::ScheduleOp>().empty();
  if (!isPipeline && !program.lookupSymbol("survey"))
    return rt::Status::success();
  for (int64_t m = 0; m < microBatches; ++m) {
    if (isPipeline) {
      CLEAVE_RT_RETURN_IF_ERROR(playSurvey(places, m, batch));
      continue;
    }
    places[0]->micro = m;
    CLEAVE_RT_RETURN_IF_ERROR(
        callTogether("survey", {batch("tokens", m), batch("targets", m), batch("positions", m)})
            .status());
  }
  return rt::Status::success();
}

rt::StatusOr<std::vector<Training::Updated>> Training::update(double rate, double correction1,
                                                              double correction2) {
  auto scalar = [](double x) { return HostTensor({}, x); };
  CLEAVE_RT_ASSIGN_OR_RETURN(
      auto results,
      callTogether("update", {scalar(rate), scalar(correction1), scalar(correction2)}));
  std::vector<Updated> updated;
  for (auto &place : results)
    updated.push_back(
        {place[0][0].data[0], place[1][0].data[0], place[place.size() > 2 ? 2 : 0][0].data[0]});
  return updated;
}

rt::StatusOr<std::vector<std::vector<RankTensors>>>
Training::callTogether(StringRef entry, ArrayRef<HostTensor> arguments) {
  Meeting meeting(places.size());
  std::vector<std::vector<RankTensors>> results(places.size());
  std::vector<rt::Status> ended(places.size());
  auto run = [&](size_t place) {
    Part &part = *places[place];
    part.options.sumOverStages = [&, place](ArrayRef<int64_t> ranks, const RankTensors &value) {
      return meeting.add(place, ranks, value);
    };
    std::vector<RankTensors> blocks;
    for (auto [i, whole] : llvm::enumerate(arguments))
      blocks.push_back(part.cutFor(entry, i, whole));
    auto run = part.call(entry, blocks);
    ended[place] = run.status();
    if (run.ok())
      results[place] = std::move(*run);
    meeting.leave(run.ok());
  };
  std::vector<std::thread> threads;
  for (size_t place = 1; place < places.size(); ++place)
    threads.emplace_back(run, place);
  run(0);
  for (std::thread &thread : threads)
    thread.join();
  for (const rt::Status &status : ended)
    CLEAVE_RT_RETURN_IF_ERROR(status);
  return results;
}

} // namespace cleave
