// Repeats written out, iteration by iteration.
#include "runtime/Schema/Unroll.h"

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

/// Moves every region of a command.
struct Mover {
  int64_t iteration;

  void operator()(KernelCommand &kernel) const {
    for (Region &arg : kernel.args)
      move(arg);
  }
  void operator()(MatmulCommand &matmul) const {
    move(matmul.a.region);
    move(matmul.b.region);
    move(matmul.c.region);
  }
  void operator()(ZeroCommand &zero) const { move(zero.region); }
  void operator()(RepeatCommand &) const {}
  template <typename T> void operator()(T &command) const {
    move(command.source);
    move(command.target);
  }

private:
  void move(Region &region) const {
    region.offset = moved(region.offset, region.stride, iteration);
    region.stride = 0;
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
  std::visit(Mover{i}, result.what);
  result.label = completed(command.label, moved(repeat.firstLayer, repeat.layerStep, i));
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

Entries unroll(const Entries &entries) {
  Entries flat;
  for (size_t e = 0; e < entryCount; ++e)
    flat[e] = unroll(entries[e]);
  return flat;
}

} // namespace cleave::rt
