//===- StateBytes.cpp - What a rank holds between steps --------------------===//

#include "cleave/Planner/Planner.h"
#include "dialects/NN/NN.h"
#include "lib/Planner/Stages.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
namespace cleave {

/// Bytes of the value, the gradient and both moments of one tensor of a parameter.
static int64_t bytesOf(nn::ParameterOp parameter, ArrayRef<DictionaryAttr> places,
                       const plan::AxisTable &axes) {
  int64_t bytes = 0;
  auto type = parameter.getTensorType();
  for (DictionaryAttr dims : {places[0], places[1], places[2], places[2]}) {
    int64_t elements = 1;
    for (auto [name, size] : llvm::zip(nn::dimNames(type), type.getShape())) {
      int64_t parts = axes.ways(dims, name.getValue());
      elements *= (size + parts - 1) / parts;
    }
    bytes += 4 * elements;
  }
  return bytes;
}

/// The most that a rank of the pipeline holds. Each of its stages has the tensors that
/// its layers read; those of several of its stages are held once.
static int64_t bytesOfStages(plan::PipelineOp pipeline, int64_t ranks, ModuleOp model,
                             const llvm::StringMap<int64_t> &bytesOfSymbol) {
  const std::vector<Layer> layers = *layersOf(model);
  std::vector<llvm::StringSet<>> held(ranks);
  SmallVector<int64_t> bytes(ranks, 0);
  ArrayRef<Layer> left = layers;
  for (auto [stage, size] : llvm::enumerate(stageSizes(pipeline))) {
    const auto rank = static_cast<int64_t>(stage) % ranks;
    for (const Layer &layer : left.take_front(size))
      for (const Layer::Tensor &tensor : layer.tensors)
        if (held[rank].insert(tensor.name).second)
          bytes[rank] += bytesOfSymbol.lookup(tensor.symbol);
    left = left.drop_front(size);
  }
  return *llvm::max_element(bytes);
}

int64_t stateBytesPerRank(plan::SolutionOp solution, ModuleOp model) {
  plan::AxisTable axes(solution);
  // A parameter of a layer is placed by its name in the layer, which ends its symbol.
  auto placesOf = [&](StringRef symbol) -> SmallVector<DictionaryAttr> {
    for (auto p : solution.getOps<plan::ParameterOp>())
      if (symbol.ends_with(p.getName()))
        return p.getPlaces();
    return {{}, {}, {}};
  };
  int64_t sum = 0;
  llvm::StringMap<int64_t> bytesOfSymbol;
  for (auto p : model.getOps<nn::ParameterOp>()) {
    const int64_t bytes = bytesOf(p, placesOf(p.getSymName()), axes);
    bytesOfSymbol[p.getSymName()] = bytes;
    sum += bytes * p.getCount();
  }
  auto pipeline = plan::entry<plan::PipelineOp>(solution);
  if (!pipeline)
    return sum;
  return bytesOfStages(pipeline, axes.size(axes.expand(pipeline.getAxis())), model, bytesOfSymbol);
}

} // namespace cleave
