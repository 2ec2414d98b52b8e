//===- Origins.cpp - Which operator of a model computes a value ------------===//

#include "lib/Verify/Origins.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace cleave {

/// A location that carries a number.
using NumberedLoc = FusedLocWith<IntegerAttr>;

/// What argument `i` of `kind` is called.
static std::string nameOfArgument(func::FuncOp kind, unsigned i) {
  if (!kind || i >= kind.getNumArguments())
    return "";
  for (StringRef key : {"nn.parameter", "nn.name"})
    if (auto name = kind.getArgAttrOfType<StringAttr>(i, key))
      return name.str();
  return "";
}

std::vector<Origin> numberOperators(ModuleOp model) {
  std::vector<Origin> origins;
  Builder b(model.getContext());
  for (auto joint : model.getOps<func::FuncOp>()) {
    auto of = joint->getAttrOfType<FlatSymbolRefAttr>("nn.joint");
    if (!of)
      continue;
    auto kind = model.lookupSymbol<func::FuncOp>(of.getValue());
    for (Operation &op : joint.getBody().getOps()) {
      auto path = op.getAttrOfType<StringAttr>("nn.path");
      if (!path)
        continue;
      Origin origin{of.getValue().str(), path.str(), op.getName().getStringRef().str(), {}};
      for (Value operand : op.getOperands()) {
        if (Operation *maker = operand.getDefiningOp())
          origin.operands.emplace_back(originOf(maker).value_or(-1), "");
        else
          origin.operands.emplace_back(
              -1, nameOfArgument(kind, cast<BlockArgument>(operand).getArgNumber()));
      }
      const auto number = static_cast<int64_t>(origins.size());
      op.setLoc(FusedLoc::get({op.getLoc()}, b.getI64IntegerAttr(number), b.getContext()));
      origins.push_back(std::move(origin));
    }
  }
  return origins;
}

std::optional<int64_t> originOf(Operation *op) {
  auto loc = op->getLoc()->findInstanceOf<NumberedLoc>();
  return loc ? std::optional<int64_t>(loc.getMetadata().getInt()) : std::nullopt;
}

} // namespace cleave
