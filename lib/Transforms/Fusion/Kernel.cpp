//===- Kernel.cpp - The function of one group ------------------------------===//

#include "Kernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::fusion;

/// Types without names, casts between equal types gone, dead operations too.
static void strip(func::FuncOp kernel) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([](RankedTensorType type) -> std::optional<Type> {
    if (!type.getEncoding())
      return std::nullopt;
    return RankedTensorType::get(type.getShape(), type.getElementType());
  });
  replacer.recursivelyReplaceElementsIn(kernel, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(kernel.front()))) {
    if (auto cast = dyn_cast<tensor::CastOp>(op);
        cast && cast.getType() == cast.getSource().getType())
      cast.replaceAllUsesWith(cast.getSource());
    if (isOpTriviallyDead(&op))
      op.erase();
  }
}

/// The types of the kernel's arguments, inputs first.
static SmallVector<Type> argumentTypes(const KernelGroup &group, const Rows &rows) {
  SmallVector<Type> types;
  for (const KernelInput &input : group.inputs)
    types.push_back(input.value ? rows.merged(cast<RankedTensorType>(input.value.getType()))
                                : input.extra->type);
  for (const KernelOutput &output : group.outputs)
    types.push_back(rows.mergedResult(cast<RankedTensorType>(output.value.getType())));
  return types;
}

/// Builds one operator's body at `b`; `known` maps the group's values.
static void buildOp(OpBuilder &b, FusionOpInterface op, const Rows &rows, IRMapping &known,
                    llvm::function_ref<Value(const BodyInput &)> extra) {
  SmallVector<Value> operands;
  for (Value v : op->getOperands())
    operands.push_back(known.lookup(v));
  for (const BodyInput &input : op.getBodyInputs())
    operands.push_back(extra(input));
  SmallVector<RankedTensorType> types;
  for (OpResult r : op->getResults())
    types.push_back(r.use_empty() ? RankedTensorType()
                                  : rows.mergedResult(cast<RankedTensorType>(r.getType())));
  for (auto [result, value] : llvm::zip(op->getResults(), op.buildBody(b, operands, types)))
    if (value)
      known.map(result, value);
}

OwningOpRef<func::FuncOp> cleave::fusion::buildKernel(const KernelGroup &group, const Rows &rows) {
  Operation *first = group.ops.front();
  MLIRContext *context = first->getContext();
  SmallVector<Type> arguments = argumentTypes(group, rows);
  auto results = ArrayRef(arguments).take_back(group.outputs.size());
  auto kernel = func::FuncOp::create(first->getLoc(), "kernel",
                                     FunctionType::get(context, arguments, results));
  Block *block = kernel.addEntryBlock();
  OpBuilder b = OpBuilder::atBlockEnd(block);
  kernel->setAttr("cleave.outputs", b.getI64IntegerAttr(group.outputs.size()));
  kernel->setAttr("cleave.space", b.getI64IntegerAttr(rows.extent()));

  IRMapping known;
  for (auto [i, input] : llvm::enumerate(group.inputs))
    if (input.value)
      known.map(input.value, block->getArgument(i));
  for (auto [i, output] : llvm::enumerate(group.outputs))
    if (output.inPlace)
      known.map(output.inPlace, block->getArgument(group.inputs.size() + i));
  auto extra = [&](const BodyInput &wanted) -> Value {
    for (auto [i, input] : llvm::enumerate(group.inputs))
      if (input.extra && *input.extra == wanted)
        return block->getArgument(i);
    llvm_unreachable("a body input has no argument");
  };
  for (Operation *op : group.ops)
    buildOp(b, cast<FusionOpInterface>(op), rows, known, extra);
  SmallVector<Value> returned;
  for (const KernelOutput &output : group.outputs)
    returned.push_back(known.lookup(output.value));
  func::ReturnOp::create(b, first->getLoc(), returned);
  strip(kernel);
  return kernel;
}

static int64_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8;
}

/// Operations on elements in one run of the whole kernel.
static int64_t countFlops(func::FuncOp kernel) {
  int64_t flops = 0;
  kernel.walk([&](linalg::GenericOp op) {
    int64_t iterations = 1, each = 0;
    for (int64_t range : op.getStaticLoopRanges())
      iterations *= range;
    for (Operation &inner : *op.getBody())
      each += isa<arith::ArithDialect, math::MathDialect>(inner.getDialect()) &&
              isa<FloatType>(inner.getNumResults() ? inner.getResult(0).getType() : Type()) &&
              !isa<arith::ConstantOp>(inner);
    flops += iterations * each;
  });
  return flops;
}

/// Rows of one task: enough elements to be worth a start, and whole cache lines
/// where rows are the columns of an input.
static int64_t grainOf(const KernelGroup &group, const Rows &rows) {
  constexpr int64_t kElements = 8192, kColumns = 64;
  int64_t elements = kElements, least = 1;
  for (const KernelInput &input : group.inputs) {
    auto type = input.value ? dyn_cast<RankedTensorType>(input.value.getType()) : nullptr;
    if (!type)
      continue;
    RankedTensorType merged = rows.merged(type);
    int dim = rows.rowDim(type);
    if (dim > 0 && dim + 1 == merged.getRank())
      least = kColumns;
    // Every task of a scatter looks at all the indices.
    if (dim < 0 && type.getElementType().isInteger(32))
      elements = std::max(elements, 8 * type.getNumElements());
  }
  int64_t perRow = std::max<int64_t>(1, group.bytes / 4 / rows.extent());
  int64_t grain = std::max(least, elements / perRow);
  if (grain > kColumns)
    grain -= grain % kColumns;
  return std::clamp<int64_t>(grain, 1, rows.extent());
}

void cleave::fusion::measure(KernelGroup &group, const Rows &rows, func::FuncOp kernel) {
  int64_t written = 0, read = 0;
  for (const KernelOutput &output : group.outputs)
    written += bytesOf(output.value.getType()) * (output.inPlace ? 2 : 1);
  for (const KernelInput &input : group.inputs)
    read += bytesOf(input.value ? input.value.getType() : Type(input.extra->type));
  // Of a table only the picked rows are read, no more than is written.
  for (Operation *op : group.ops)
    for (OpOperand &operand : op->getOpOperands())
      if (cast<FusionOpInterface>(op).needsWholeOperand(operand.getOperandNumber()))
        read -= std::max<int64_t>(0, bytesOf(operand.get().getType()) - written);
  group.extent = rows.extent();
  group.bytes = read + written;
  group.flops = countFlops(kernel);
  group.grain = grainOf(group, rows);
}
