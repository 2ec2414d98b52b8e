//===- Stages.cpp - The stages of a pipeline, interpreted side by side -----===//

#include "Stages.h"
#include "cleave/Support/Diagnostics.h"
#include "runtime/Schema/TokenOrder.h"
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

using namespace mlir;
namespace cleave::test {

Part::Part(ModuleOp module) : module(module), mesh(*module.getOps<dist::MeshOp>().begin()) {
  options.ranks = static_cast<unsigned>(mesh.ranks());
}

/// The rows of every sequence in zig-zag order over `blocks`.
static HostTensor inZigzag(const HostTensor &whole, int64_t blocks) {
  const int64_t length = whole.shape[1];
  const std::vector<int64_t> order = rt::zigzagOrder(length, blocks);
  HostTensor out(whole.shape);
  for (int64_t i = 0; i < whole.size(); ++i)
    out.data[i] = whole.data[i / length * length + order[i % length]];
  return out;
}

RankTensors Part::cutFor(StringRef entry, unsigned i, const HostTensor &whole) const {
  auto function = ModuleOp(module).lookupSymbol<func::FuncOp>(entry);
  auto sharding = function.getArgAttrOfType<dist::ShardingAttr>(i, "dist.sharding");
  auto zigzag = function.getArgAttrOfType<IntegerAttr>(i, "nn.zigzag");
  const HostTensor placed = zigzag ? inZigzag(whole, zigzag.getInt()) : whole;
  RankTensors blocks;
  for (int64_t r = 0; r < mesh.ranks(); ++r)
    blocks.push_back(dist::cutBlock(placed, sharding, mesh, r));
  return blocks;
}

std::vector<RankTensors> Part::call(StringRef entry, ArrayRef<RankTensors> arguments) {
  auto function = module.lookupSymbol<func::FuncOp>(entry);
  std::vector<RankTensors> results;
  rt::Status done = withDiagnostics(*module.getContext(), [&]() -> LogicalResult {
    auto run =
        interpret(cast<FunctionOpInterface>(function.getOperation()), arguments, state, options);
    if (failed(run))
      return failure();
    results = std::move(*run);
    return success();
  });
  if (!done.ok())
    throw std::runtime_error(rt::renderText(done.error()));
  return results;
}

namespace {
/// Where the threads of all places meet to add up values.
class Meeting {
public:
  explicit Meeting(size_t places) : calls(places) {}

  FailureOr<RankTensors> add(size_t place, ArrayRef<int64_t> ranks, const RankTensors &value) {
    std::unique_lock<std::mutex> lock(mutex);
    const std::vector<int64_t> members(ranks.begin(), ranks.end());
    Sum &sum = sums[{members, calls[place][members]++}];
    sum.terms[static_cast<int64_t>(place)] = value;
    changed.notify_all();
    changed.wait(lock, [&] { return broken || sum.terms.size() == members.size(); });
    if (sum.terms.size() != members.size())
      return failure();
    RankTensors total = sum.terms.at(members.front());
    for (int64_t member : ArrayRef(members).drop_front())
      for (auto [to, from] : llvm::zip(total, sum.terms.at(member)))
        for (auto [x, y] : llvm::zip(to.data, from.data))
          x += y;
    return total;
  }

  void breakUp() {
    std::lock_guard<std::mutex> lock(mutex);
    broken = true;
    changed.notify_all();
  }

private:
  struct Sum {
    std::map<int64_t, RankTensors> terms;
  };
  std::mutex mutex;
  std::condition_variable changed;
  bool broken = false;
  /// How often each place has met each list of places.
  std::vector<std::map<std::vector<int64_t>, int64_t>> calls;
  std::map<std::pair<std::vector<int64_t>, int64_t>, Sum> sums;
};

/// A step on its way through the stages.
class Player {
public:
  Player(const pipe::Table &table, std::vector<std::unique_ptr<Part>> &parts, BatchSource batch)
      : table(table), parts(parts), batch(batch), slots(parts.size()), next(parts.size(), 0) {}

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < parts.size(); ++rank)
        while (next[rank] < table.ranks[rank].actions.size() &&
               act(rank, table.ranks[rank].actions[next[rank]])) {
          ++next[rank];
          moved = true;
        }
    }
    for (size_t rank = 0; rank < parts.size(); ++rank)
      if (next[rank] < table.ranks[rank].actions.size())
        throw std::runtime_error("the schedule stands still");
  }

private:
  using Slot = std::map<std::string, RankTensors>;

  /// False where it has to wait.
  bool act(size_t rank, const pipe::Action &action) {
    Slot &slot = slots[rank][action.slot];
    const std::string number = "." + std::to_string(action.ownStage());
    switch (action.kind) {
    case pipe::ActionKind::Forward:
      compute(rank, "forward" + number, action.micro, slot);
      return true;
    case pipe::ActionKind::Backward:
      compute(rank, "backward" + number, action.micro, slot);
      return true;
    case pipe::ActionKind::WeightGradient:
      compute(rank, "weights" + number, action.micro, slot);
      return true;
    case pipe::ActionKind::SendActivation:
      send(rank, action, slot, "output", "input");
      return true;
    case pipe::ActionKind::SendGradient:
      send(rank, action, slot, "input_gradient", "output_gradient");
      return true;
    default:
      return receive(rank, action, slot);
    }
  }

  void compute(size_t rank, const std::string &entry, int64_t micro, Slot &slot) {
    Part &part = *parts[rank];
    auto function = part.module.lookupSymbol<func::FuncOp>(entry);
    std::vector<RankTensors> arguments;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto name = function.getArgAttrOfType<StringAttr>(i, "nn.name").str();
      if (auto it = slot.find(name); it != slot.end())
        arguments.push_back(it->second);
      else
        arguments.push_back(part.cutFor(entry, i, batch(name, micro)));
    }
    auto results = part.call(entry, arguments);
    for (auto [i, value] : llvm::enumerate(results))
      slot[function.getResultAttrOfType<StringAttr>(i, "nn.name").str()] = std::move(value);
  }

  void send(size_t rank, const pipe::Action &action, Slot &slot, StringRef from, StringRef to) {
    Slot message;
    for (auto &[name, value] : slot)
      if (StringRef(name).split('.').first == from)
        message[(to + "." + StringRef(name).split('.').second).str()] = value;
    channels[pipe::channelOf(action, static_cast<int64_t>(rank))].push_back(std::move(message));
  }

  bool receive(size_t rank, const pipe::Action &action, Slot &slot) {
    auto &channel = channels[pipe::channelOf(action, static_cast<int64_t>(rank))];
    if (channel.empty())
      return false;
    for (auto &[name, value] : channel.front())
      slot[name] = std::move(value);
    channel.erase(channel.begin());
    return true;
  }

  const pipe::Table &table;
  std::vector<std::unique_ptr<Part>> &parts;
  BatchSource batch;
  std::vector<std::map<int64_t, Slot>> slots;
  std::vector<size_t> next;
  std::map<pipe::Channel, std::vector<Slot>> channels;
};
} // namespace

void playSchedule(const pipe::Table &table, std::vector<std::unique_ptr<Part>> &parts,
                  BatchSource batch) {
  Player(table, parts, batch).run();
}

std::vector<std::vector<RankTensors>> callTogether(std::vector<std::unique_ptr<Part>> &parts,
                                                   StringRef entry,
                                                   ArrayRef<HostTensor> arguments) {
  Meeting meeting(parts.size());
  std::vector<std::vector<RankTensors>> results(parts.size());
  std::vector<std::string> errors(parts.size());
  auto run = [&](size_t place) {
    Part &part = *parts[place];
    part.options.sumOverStages = [&, place](ArrayRef<int64_t> ranks, const RankTensors &value) {
      return meeting.add(place, ranks, value);
    };
    std::vector<RankTensors> blocks;
    for (auto [i, whole] : llvm::enumerate(arguments))
      blocks.push_back(part.cutFor(entry, i, whole));
    try {
      results[place] = part.call(entry, blocks);
    } catch (const std::exception &error) {
      errors[place] = error.what();
      meeting.breakUp();
    }
  };
  std::vector<std::thread> threads;
  for (size_t place = 1; place < parts.size(); ++place)
    threads.emplace_back(run, place);
  run(0);
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &error : errors)
    if (!error.empty())
      throw std::runtime_error(error);
  return results;
}

} // namespace cleave::test
