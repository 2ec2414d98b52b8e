// Repeats written out, iteration by iteration.
#include "runtime/Schema/Unroll.h"

#include "runtime/Base/FunctionRef.h"

#include <limits>

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
               region.offset = moved(region.offset, region.stride, i);
               region.stride = 0;
             }},
             result.what);
  result.label = completed(command.label, moved(repeat.firstLayer, repeat.layerStep, i));
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
  for (const Command &command : commands) {
    const auto *repeat = std::get_if<RepeatCommand>(&command.what);
    if (!repeat) {
      flat.push_back(command);
      continue;
    }
    for (int64_t i = 0; i < repeat->count; ++i)
      for (const Command &repeated : repeat->body)
        flat.push_back(inIteration(*repeat, repeated, i));
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
