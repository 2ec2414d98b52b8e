//===- Outline.cpp - Groups become kernel functions ------------------------===//

#include "Kernel.h"
#include "Units.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::fusion;

/// The text of a kernel but for its name.
static std::string textOf(func::FuncOp kernel) {
  std::string name = kernel.getSymName().str(), text;
  kernel.setSymName("kernel");
  llvm::raw_string_ostream out(text);
  kernel->print(out, OpPrintingFlags().useLocalScope().assumeVerified());
  kernel.setSymName(name);
  return text;
}

KernelTable::KernelTable(ModuleOp module) : module(module) {
  for (func::FuncOp kernel : module.getOps<func::FuncOp>())
    symbols.try_emplace(textOf(kernel), kernel.getSymName());
}

std::string KernelTable::add(OwningOpRef<func::FuncOp> kernel, const std::string &name) {
  auto [it, fresh] = symbols.try_emplace(textOf(*kernel));
  if (!fresh)
    return it->second;
  std::string symbol = name;
  for (int n = 2; SymbolTable::lookupSymbolIn(module, symbol); ++n)
    symbol = name + "_" + std::to_string(n);
  kernel->setSymName(symbol);
  module.push_back(kernel.release());
  return it->second = symbol;
}

namespace {

class Outliner {
public:
  Outliner(Block &flat, KernelTable &table) : flat(flat), table(table) {}

  FailureOr<SmallVector<KernelGroup>> run() {
    llvm::MapVector<int64_t, KernelGroup> groups;
    for (Operation &op : flat)
      if (auto number = op.getAttrOfType<IntegerAttr>(kFusionGroupAttr))
        groups[number.getInt()].ops.push_back(&op);
    if (failed(checkConvex(groups)))
      return failure();
    SmallVector<KernelGroup> outlined;
    for (auto &[number, group] : groups) {
      if (failed(outline(group)))
        return failure();
      if (!group.outputs.empty())
        outlined.push_back(std::move(group));
    }
    return outlined;
  }

private:
  /// The order of the function has no operator between the members of a group, or
  /// none that lies on a path between them.
  LogicalResult checkConvex(llvm::MapVector<int64_t, KernelGroup> &groups) {
    Units units(flat);
    for (auto &[number, group] : groups)
      for (Operation *op : llvm::drop_begin(group.ops)) {
        unsigned target = units.unitOf(units.find(group.ops.front()));
        unsigned own = units.unitOf(units.find(op));
        if (!units.mayMerge(own, target))
          return op->emitOpError() << "is in fusion group " << number
                                   << ", but depends on it through an operator outside";
        units.merge(own, target);
      }
    return success();
  }

  LogicalResult outline(KernelGroup &group) {
    // What nobody uses any more needs no kernel.
    llvm::erase_if(group.ops, [](Operation *op) { return op->use_empty(); });
    if (group.ops.empty())
      return success();
    std::string why;
    std::optional<Rows> rows = Rows::plan(group.ops, &why);
    if (!rows)
      return group.ops.front()->emitOpError() << "cannot be in its fusion group: " << why;
    collectOutputs(group, *rows);
    collectInputs(group);
    OwningOpRef<func::FuncOp> kernel = buildKernel(group, *rows);
    measure(group, *rows, *kernel);
    group.symbol = table.add(std::move(kernel), nameOf(group));
    return success();
  }

  void collectOutputs(KernelGroup &group, const Rows &rows) {
    for (Operation *op : group.ops)
      for (OpResult r : usedResults(op)) {
        auto outside = [&](Operation *user) { return !llvm::is_contained(group.ops, user); };
        if (!llvm::any_of(r.getUsers(), outside))
          continue;
        Value old = rows.none() ? Value() : inPlaceOf(group, r);
        auto taken = [&](const KernelOutput &other) { return other.inPlace == old; };
        if (old && llvm::any_of(group.outputs, taken))
          old = Value();
        group.outputs.push_back({r, old});
      }
  }

  void collectInputs(KernelGroup &group) {
    llvm::SmallDenseSet<Value> seen;
    for (const KernelOutput &output : group.outputs)
      if (output.inPlace)
        seen.insert(output.inPlace);
    for (Operation *op : group.ops)
      for (Value v : op->getOperands())
        if (!llvm::is_contained(group.ops, v.getDefiningOp()) && seen.insert(v).second)
          group.inputs.push_back({v, std::nullopt});
    for (Operation *op : group.ops)
      for (const BodyInput &extra : cast<FusionOpInterface>(op).getBodyInputs())
        if (llvm::none_of(group.inputs,
                          [&](const KernelInput &in) { return in.extra && *in.extra == extra; }))
          group.inputs.push_back({Value(), extra});
  }

  /// The operand whose buffer `result` may take over: one that nobody else in the
  /// group reads and nobody after it, where the group itself does not read the result
  /// (it may compute that twice). A kept tensor only if the result replaces it.
  Value inPlaceOf(const KernelGroup &group, OpResult result) {
    Operation *op = result.getOwner();
    int operand = cast<FusionOpInterface>(op).getInPlaceOperand(result.getResultNumber());
    if (operand < 0)
      return {};
    Value old = op->getOperand(operand);
    Operation *source = old.getDefiningOp();
    auto isMember = [&](Operation *other) { return llvm::is_contained(group.ops, other); };
    // What comes from around a repeat is needed again in the next iteration.
    if (!source || source->getBlock() != op->getBlock() || isMember(source) ||
        old.getType() != result.getType() || llvm::count(op->getOperands(), old) != 1 ||
        llvm::any_of(result.getUsers(), isMember))
      return {};
    for (Operation *user : old.getUsers())
      if (user != op && (isMember(user) ||
                         !flat.findAncestorOpInBlock(*user)->isBeforeInBlock(group.ops.front())))
        return {};
    auto read = dyn_cast<StateOpInterface>(source);
    if (!read)
      return isa<RepeatOpInterface>(source) ? Value() : old;
    for (Operation *user : result.getUsers())
      if (auto write = dyn_cast<StateOpInterface>(user);
          write && write.getStateAccess() == StateAccess::Write &&
          write.getStateSymbol() == read.getStateSymbol() &&
          write.getStateSlot() == read.getStateSlot() &&
          write.getStateRows() == read.getStateRows())
        return old;
    return {};
  }

  /// "k_mlp_norm" from the path of the last operator that has one.
  static std::string nameOf(const KernelGroup &group) {
    std::string name = group.ops.back()->getName().getStringRef().str();
    for (Operation *op : group.ops)
      if (auto path = op->getAttrOfType<StringAttr>("nn.path"))
        name = path.getValue().str();
    for (char &c : name)
      if (!llvm::isAlnum(c))
        c = '_';
    return "k_" + name;
  }

  Block &flat;
  KernelTable &table;
};

} // namespace

FailureOr<SmallVector<KernelGroup>> cleave::outlineKernels(Block &flat, KernelTable &kernels) {
  kernels.getModule()
      .getContext()
      ->loadDialect<arith::ArithDialect, linalg::LinalgDialect, math::MathDialect,
                    tensor::TensorDialect>();
  return Outliner(flat, kernels).run();
}
