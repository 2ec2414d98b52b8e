//===- LibraryKernels.cpp - Generators of kernels, by name -----------------===//

#include "cleave/Target/CPU/LibraryKernels.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
namespace cleave::cpu {

using Generator = FailureOr<AttentionKernel> (*)(ModuleOp, StringRef, const AttentionSizes &,
                                                 const Profile &);

static Generator findGenerator(StringRef name) {
  static constexpr std::pair<const char *, Generator> all[] = {
      {"attention.forward", buildAttentionForward},
      {"attention.backward_query", buildAttentionBackwardQuery},
      {"attention.backward_key_value", buildAttentionBackwardKeyValue}};
  for (auto [known, generator] : all)
    if (name == known)
      return generator;
  return nullptr;
}

static AttentionSizes attentionSizes(const LibraryKernel &request) {
  auto size = [&](StringRef name) { return static_cast<int64_t>(request.size(name, 1)); };
  return {size("batch"),
          size("sequence"),
          size("kv_head"),
          size("group"),
          size("head_dim"),
          request.size("scale", 1),
          static_cast<int64_t>(request.size("window", 0)),
          request.size("cap", 0),
          static_cast<int64_t>(request.size("key_sequence", 0)),
          static_cast<int64_t>(request.size("value_dim", 0)),
          request.size("sinks", 0) != 0,
          static_cast<unsigned>(request.size("narrow", 0))};
}

/// The sizes as text, every digit: equal for equal kernels.
static std::string sizesKey(const LibraryKernel &request) {
  std::string key;
  for (auto [name, value] : request.sizes)
    key += llvm::formatv("{0}={1:f17} ", name, value).str();
  return key;
}

/// "attention_forward_0": the generator and a number for the sizes.
static std::string symbolFor(ModuleOp module, const LibraryKernel &request, bool &found) {
  std::string key = sizesKey(request);
  std::string stem = request.generator.str();
  std::replace(stem.begin(), stem.end(), '.', '_');
  for (int n = 0;; ++n) {
    std::string symbol = stem + "_" + std::to_string(n);
    Operation *there = module.lookupSymbol(symbol);
    auto made = there ? there->getAttrOfType<StringAttr>("cleave.sizes") : StringAttr();
    found = made && made.getValue() == key;
    if (!there || found)
      return symbol;
  }
}

FailureOr<AttentionKernel> addLibraryKernel(ModuleOp module, const LibraryKernel &request,
                                            const Profile &profile) {
  Generator generator = findGenerator(request.generator);
  if (!generator)
    return module.emitError() << "there is no generator of kernels called '" << request.generator
                              << "'";
  bool found = false;
  std::string symbol = symbolFor(module, request, found);
  // Only the description is wanted of a kernel that is there already.
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(module.getLoc());
  auto kernel = generator(found ? *scratch : module, symbol, attentionSizes(request), profile);
  if (failed(kernel) || found)
    return kernel;
  module.lookupSymbol(symbol)->setAttr("cleave.sizes",
                                       StringAttr::get(module.getContext(), sizesKey(request)));
  return kernel;
}

} // namespace cleave::cpu
