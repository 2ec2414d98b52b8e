//===- Watch.cpp - What the ranks of a place compute, value by value -------===//

#include "lib/Verify/Watch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace cleave {

Watch::Watch(Part &part, PlacedOps ops, OnValue onValue, OnGradient onGradient)
    : part(part), ops(std::move(ops)), onValue(std::move(onValue)),
      onGradient(std::move(onGradient)) {
  part.options.observer = [this](Operation *op, ArrayRef<const RankTensors *> results,
                                 ArrayRef<Iteration> iterations) {
    observe(op, results, iterations);
  };
}

/// The number of the layer that runs, or -1.
static int64_t layerOf(ArrayRef<Iteration> iterations) {
  for (const Iteration &iteration : llvm::reverse(iterations)) {
    auto repeat = dyn_cast<nn::RepeatOp>(iteration.repeat);
    if (!repeat || !repeat.getLayers())
      continue;
    const ArrayRef<int64_t> layers = *repeat.getLayers();
    return layers[0] +
           layers[1] * cast<RepeatOpInterface>(iteration.repeat).getSliceIndex(iteration.number);
  }
  return -1;
}

/// Iterations of the repeats that are no layers.
static int64_t piecesOf(ArrayRef<Iteration> iterations) {
  int64_t pieces = 1;
  for (const Iteration &iteration : iterations)
    if (auto repeat = dyn_cast<nn::RepeatOp>(iteration.repeat); !repeat || !repeat.getLayers())
      pieces *= cast<RepeatOpInterface>(iteration.repeat).getIterations();
  return pieces;
}

void Watch::observe(Operation *op, ArrayRef<const RankTensors *> results,
                    ArrayRef<Iteration> iterations) {
  if (auto state = dyn_cast<StateOpInterface>(op); state && onGradient) {
    if (state.getStateAccess() == StateAccess::Accumulate && state.getStateSlot() == "gradient")
      onGradient(state.getStateName(iterations.empty() ? 0 : iterations.back().number));
    return;
  }
  const Placed *placed = ops.lookup(op);
  if (!placed)
    return;
  const int64_t layer = layerOf(iterations);
  const int64_t before = counts[{placed->origin, layer, part.micro}]++;
  const StringRef function = op->getParentOfType<func::FuncOp>().getName();
  for (auto [i, blocks] : llvm::enumerate(results))
    onValue(part, {placed->origin, static_cast<unsigned>(i), layer, part.micro, before,
                   piecesOf(iterations), function, *placed, *blocks});
}

} // namespace cleave
