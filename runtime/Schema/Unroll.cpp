// Repeats written out, iteration by iteration.
#include "runtime/Schema/Unroll.h"

#include "runtime/Base/FunctionRef.h"

#include <limits>
#include <map>

namespace cleave::rt {
namespace {

/// offset + i · stride, or the end of int64 that it passes.
int64_t moved(int64_t offset, int64_t stride, int64_t i) {
  int64_t distance = 0, result = 0;
  if (__builtin_mul_overflow(stride, i, &distance) ||
      __builtin_add_overflow(offset, distance, &result))
    return stride < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  return result;
}

/// Calls `move(region)` for every region of a command.
struct Mover {
  FunctionRef<void(Region &)> move;

  void operator()(KernelCommand &kernel) const {
    for (Region &arg : kernel.args)
      move(arg);
  }
  void operator()(MatmulCommand &matmul) const {
    move(matmul.a.region);
    move(matmul.b.region);
    move(matmul.c.region);
  }
  void operator()(PickedMatmulCommand &picked) const { movePicked(picked); }
  void operator()(PickedOuterCommand &picked) const { movePicked(picked); }
  void operator()(ZeroCommand &zero) const { move(zero.region); }
  void operator()(RepeatCommand &) const {}
  void operator()(AwaitCommand &) const {}
  void operator()(BesideCommand &bucket) const {
    for (Command &exchange : bucket.exchanges)
      std::visit(*this, exchange.what);
  }
  template <typename T> void operator()(T &command) const {
    move(command.source);
    move(command.target);
  }

private:
  template <typename T> void movePicked(T &picked) const {
    for (Region *region : {&picked.a, &picked.b, &picked.index, &picked.c})
      move(*region);
    if (picked.offset)
      move(*picked.offset);
  }
};

/// The number of a bucket; null for what has none.
int64_t *numberOf(Command &command) {
  if (auto *bucket = std::get_if<BesideCommand>(&command.what))
    return &bucket->number;
  if (auto *await = std::get_if<AwaitCommand>(&command.what))
    return &await->number;
  return nullptr;
}

/// `label` with the layer in place of every "*".
std::string completed(const std::string &label, int64_t layer) {
  std::string text;
  for (char c : label) {
    if (c == '*')
      text += std::to_string(layer);
    else
      text += c;
  }
  return text;
}

} // namespace

Command inIteration(const RepeatCommand &repeat, const Command &command, int64_t i) {
  Command result = command;
  std::visit(Mover{[i](Region &region) {
               const int64_t turns = region.period > 0 ? i % region.period : i;
               region.offset = moved(region.offset, region.stride, turns);
               region.stride = region.period = 0;
             }},
             result.what);
  const int64_t layer = moved(repeat.firstLayer, repeat.layerStep, i);
  result.label = completed(command.label, layer);
  if (auto *bucket = std::get_if<BesideCommand>(&result.what))
    for (Command &exchange : bucket->exchanges)
      exchange.label = completed(exchange.label, layer);
  result.ahead = 0;
  return result;
}

Command shifted(const Command &command, std::span<const int64_t> bytesOfSegment) {
  Command result = command;
  std::visit(Mover{[&](Region &region) { region.offset += bytesOfSegment[region.segment]; }},
             result.what);
  return result;
}

std::vector<Command> unroll(const std::vector<Command> &commands) {
  std::vector<Command> flat;
  std::map<std::pair<int64_t, int64_t>, int64_t> numbers;
  auto add = [&](Command command, int64_t iteration) {
    if (int64_t *number = numberOf(command))
      *number = numbers.try_emplace({*number, iteration}, static_cast<int64_t>(numbers.size()))
                    .first->second;
    flat.push_back(std::move(command));
  };
  for (const Command &command : commands) {
    if (const auto *repeat = std::get_if<RepeatCommand>(&command.what))
      forEachTurn(*repeat, [&](const Command &repeated, int64_t i) {
        add(inIteration(*repeat, repeated, i), i);
      });
    else
      add(command, 0);
  }
  return flat;
}

EntryLists unrollEntries(const Program &program) {
  EntryLists flat;
  for (size_t entry = 0; entry < program.entryLists(); ++entry)
    flat.push_back(unroll(program.entryList(entry)));
  return flat;
}

} // namespace cleave::rt
