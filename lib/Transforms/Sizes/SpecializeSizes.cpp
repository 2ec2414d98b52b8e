//===- SpecializeSizes.cpp - Named sizes become constants ------------------===//

#include "cleave/Transforms/Sizes/Sizes.h"

#include "dialects/NN/NN.h"
#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;

namespace cleave {
#define GEN_PASS_DEF_SPECIALIZESIZESPASS
#include "lib/Transforms/Sizes/Passes.h.inc"
} // namespace cleave

using namespace cleave;

LogicalResult cleave::specializeSizes(Operation *root,
                                      const std::map<std::string, int64_t> &sizes) {
  for (const auto &[name, size] : sizes)
    if (size <= 0)
      return root->emitError() << "cannot have " << size << " elements along '" << name
                               << "'; give a positive size";
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](RankedTensorType type) -> std::optional<Type> {
    if (type.hasStaticShape() || !nn::isNamedTensor(type))
      return std::nullopt;
    SmallVector<int64_t> shape(type.getShape());
    for (auto [size, name] : llvm::zip(shape, nn::dimNames(type)))
      if (auto it = sizes.find(name.str()); ShapedType::isDynamic(size) && it != sizes.end())
        size = it->second;
    return RankedTensorType::get(shape, type.getElementType(), type.getEncoding());
  });
  replacer.recursivelyReplaceElementsIn(root, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  return success();
}

namespace {
struct SpecializeSizesPass : cleave::impl::SpecializeSizesPassBase<SpecializeSizesPass> {
  using SpecializeSizesPassBase::SpecializeSizesPassBase;

  void runOnOperation() override {
    std::map<std::string, int64_t> bySize;
    for (StringRef entry : sizes) {
      auto [name, text] = entry.split(':');
      int64_t size = 0;
      if (name.empty() || text.getAsInteger(10, size)) {
        getOperation().emitError()
            << "cannot read the size '" << entry << "'; write name:size, such as batch:8";
        return signalPassFailure();
      }
      bySize[name.str()] = size;
    }
    if (failed(specializeSizes(getOperation(), bySize)))
      signalPassFailure();
  }
};
} // namespace
