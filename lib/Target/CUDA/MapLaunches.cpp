//===- MapLaunches.cpp - a program's kernels on a GPU ----------------------===//

#include "cleave/Target/CUDA/MapLaunches.h"
#include "ProductText.h"
#include "TextFiles.h"
#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace cleave::cuda {

static std::string replaceAll(std::string text, StringRef from, StringRef to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

namespace {
/// Kernels of commands that are no launches yet: one for all with the same text.
class OwnKernels {
public:
  explicit OwnKernels(ModuleOp module) : symbols(module) {}

  /// Puts a launch in place of `op`, which reads `inputs` and writes `output`.
  template <class Op, class Text>
  void replace(Op op, const Text &text, ArrayRef<Attribute> args, Type written) {
    Form &form = forms[text.text];
    if (form.symbol.empty()) {
      form.symbol = nameFor(op);
      form.blocks = text.blocks;
      form.threads = text.threads;
    }
    form.labels.insert(op.getLabel());
    OpBuilder builder(op);
    exec::LaunchOp::create(builder, op.getLoc(), form.symbol, builder.getArrayAttr(args),
                           text.blocks, /*grain=*/1, builder.getI64IntegerAttr(text.threads),
                           /*shared=*/IntegerAttr(), builder.getTypeArrayAttr({written}),
                           op.getLabel(), op.getBytes(), op.getFlops(), op.getAhead());
    op.erase();
  }

  bool empty() const { return forms.empty(); }
  void append(Text &result) const {
    for (const auto &[text, form] : forms) {
      result.source += "\n";
      for (StringRef label : form.labels)
        result.source += "// " + label.str() + "\n";
      result.source += "// <<<" + std::to_string(form.blocks) + ", " +
                       std::to_string(form.threads) + ">>>\n" +
                       replaceAll(text, "$name", form.symbol);
      result.launches.push_back({form.symbol, form.blocks, form.threads});
    }
  }

private:
  struct Form {
    std::string symbol;
    int64_t blocks = 1;
    unsigned threads = 1;
    llvm::SetVector<StringRef> labels;
  };

  /// A name that is free, with a declaration that the launches refer to.
  std::string nameFor(Operation *op) {
    OpBuilder builder = OpBuilder::atBlockEnd(&symbols.getOp()->getRegion(0).front());
    auto pointer = LLVM::LLVMPointerType::get(op->getContext());
    Type i64 = builder.getI64Type();
    auto declared =
        func::FuncOp::create(builder, op->getLoc(), "product_" + std::to_string(forms.size() - 1),
                             builder.getFunctionType({pointer, i64, i64}, {}));
    declared.setPrivate();
    return symbols.insert(declared).str();
  }

  SymbolTable symbols;
  llvm::MapVector<std::string, Form, std::map<std::string, unsigned>> forms;
};
} // namespace

/// The grids of kernels that the text has, for launches that are the processor's so far.
static void mapGrids(ModuleOp module, ArrayRef<Launch> launches) {
  llvm::StringMap<const Launch *> grids;
  for (const Launch &launch : launches)
    grids[launch.kernel] = &launch;
  module.walk([&](exec::LaunchOp op) {
    const auto it = grids.find(op.getKernel());
    if (it == grids.end())
      return;
    op.setExtent(it->second->blocks);
    op.setGrain(1);
    op.setThreads(it->second->threads);
  });
}

FailureOr<Text> mapLaunches(ModuleOp module, const MapOptions &options) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  for (func::FuncOp kernel : module.getOps<func::FuncOp>())
    builder.clone(*kernel);
  Text own;
  if (!options.libraries) {
    OwnKernels made(module);
    SmallVector<exec::MatmulOp> products;
    module.walk([&](exec::MatmulOp op) { products.push_back(op); });
    for (exec::MatmulOp op : products)
      if (std::optional<ProductText> text = textOf(op))
        made.replace(op, *text, {op.getA(), op.getB(), op.getC()}, op.getResultType());
    if (!made.empty())
      own.source = "\n" + ptxText.str() + "\n" + productText.str();
    made.append(own);
  }
  FailureOr<Text> text = emitCuda(*kernels, own);
  if (succeeded(text))
    mapGrids(module, text->launches);
  return text;
}

} // namespace cleave::cuda
