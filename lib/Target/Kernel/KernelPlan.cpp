//===- KernelPlan.cpp - find the roots of a kernel ------------------------===//
//
// Walks from the results of a kernel through its elementwise ops to arguments
// and reductions. The result is the list of roots with their loops, what they
// read and how they depend on each other; KernelSchedule.cpp orders them.
//
//===----------------------------------------------------------------------===//

#include "cleave/Target/Kernel/Contract.h"
#include "lib/Target/Kernel/KernelSchedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <set>

using namespace mlir;

namespace cleave::target {

/// Finds the roots. Position 0 of every result is the outer dimension; where it
/// sits in a reduction that feeds them follows from the maps on the way.
class Planner {
public:
  explicit Planner(Kernel &kernel) : kernel(kernel) {}
  LogicalResult run();

private:
  LogicalResult readSignature();
  LogicalResult addOutput(Value value, StridedView view, unsigned arg);
  LogicalResult addInsertedSlice(tensor::InsertSliceOp insert, StridedView view, unsigned arg);
  LogicalResult addElementwise(Value value, std::optional<StridedView> dest);
  FailureOr<Root *> addReduction(linalg::GenericOp op, std::optional<unsigned> outerLoop);
  FailureOr<std::optional<unsigned>> outerLoopOf(linalg::GenericOp op, unsigned resultNo,
                                                 ArrayRef<LinearExpr> index);
  void setReductionLoops(Root &root, std::optional<unsigned> outerLoop);

  LogicalResult walkElement(Root &root, Element element);
  LogicalResult walkBody(Root &root, linalg::GenericOp op, ArrayRef<LinearExpr> loops);
  LogicalResult walkExtract(Root &root, linalg::GenericOp op, tensor::ExtractOp extract,
                            ArrayRef<LinearExpr> loops);
  LogicalResult storeHeavyValues();
  void assignBuffers();

  Kernel &kernel;
  std::set<std::pair<void *, IndexList>> visited; ///< within the root being walked
  llvm::DenseMap<Operation *, std::optional<unsigned>> outerLoops;
  HeavyUses heavyUses;
};

LogicalResult Planner::readSignature() {
  func::FuncOp func = kernel.func;
  auto outputs = func->getAttrOfType<IntegerAttr>(kOutputsAttr);
  auto space = func->getAttrOfType<IntegerAttr>(kSpaceAttr);
  if (!outputs || !space || space.getInt() < 1)
    return func.emitError("needs ") << kOutputsAttr << " and a positive " << kSpaceAttr;
  kernel.numOutputs = outputs.getInt();
  kernel.space = space.getInt();
  FunctionType type = func.getFunctionType();
  if (!func.getBody().hasOneBlock() || kernel.numOutputs != type.getNumResults() ||
      kernel.numOutputs > type.getNumInputs())
    return func.emitError("must be one block that returns its ") << kernel.numOutputs << " outputs";
  for (Type arg : type.getInputs()) {
    auto tensor = dyn_cast<RankedTensorType>(arg);
    Type element = tensor ? tensor.getElementType() : arg;
    if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding() ||
        !(element.isF32() || element.isBF16() || element.isInteger(32)))
      return func.emitError("arguments must be static f32, bf16 or i32 tensors, not ") << arg;
    if (llvm::is_contained(tensor.getShape(), 0))
      return func.emitError("an argument has no elements: ") << arg;
  }
  for (auto [result, dest] :
       llvm::zip_equal(type.getResults(), type.getInputs().take_back(kernel.numOutputs))) {
    auto tensor = dyn_cast<RankedTensorType>(result);
    if (result != dest || tensor.getRank() == 0 || tensor.getDimSize(0) != kernel.space)
      return func.emitError("the result ")
             << result << " must match its destination " << dest
             << " and have the outer dimension (" << kernel.space << ") first";
  }
  return success();
}

LogicalResult Planner::run() {
  if (failed(readSignature()))
    return failure();
  auto ret = cast<func::ReturnOp>(kernel.func.front().getTerminator());
  unsigned firstDest = kernel.func.getNumArguments() - kernel.numOutputs;
  for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
    StridedView view;
    view.arg = firstDest + i;
    ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
    view.strides.resize(shape.size());
    int64_t stride = 1;
    for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim])
      view.strides[dim] = stride;
    if (failed(addOutput(value, view, view.arg)))
      return failure();
  }
  if (failed(storeHeavyValues()))
    return failure();
  assignBuffers();
  return scheduleNests(kernel);
}

LogicalResult Planner::addOutput(Value value, StridedView view, unsigned arg) {
  if (value == kernel.func.getArgument(arg))
    return success(); // keeps its old contents
  Operation *def = value.getDefiningOp();
  if (isa_and_nonnull<tensor::EmptyOp>(def))
    return success(); // may hold anything
  if (auto insert = dyn_cast_or_null<tensor::InsertSliceOp>(def))
    return addInsertedSlice(insert, view, arg);
  if (auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(def)) {
    ArrayRef<int64_t> shape = collapse.getSrcType().getShape();
    StridedView wide = view;
    wide.strides.assign(shape.size(), 0);
    for (auto [i, group] : llvm::enumerate(collapse.getReassociationIndices())) {
      int64_t stride = view.strides[i];
      for (int64_t dim : llvm::reverse(group)) {
        wide.strides[dim] = stride;
        stride *= shape[dim];
      }
    }
    if (shape[0] != kernel.space)
      return collapse.emitError("the outer dimension of a kernel must stay on its own");
    return addOutput(collapse.getSrc(), wide, arg);
  }
  auto op = dyn_cast_or_null<linalg::GenericOp>(def);
  if (!op || !isReduction(op))
    return addElementwise(value, view);

  unsigned resultNo = cast<OpResult>(value).getResultNumber();
  AffineMap map = op.getIndexingMapMatchingResult(op->getResult(resultNo));
  auto outer = dyn_cast<AffineDimExpr>(map.getResult(0));
  if (!outer)
    return op.emitError("the outer dimension must be a loop of the op that makes a result");
  FailureOr<Root *> root = addReduction(op, outer.getPosition());
  if (failed(root))
    return failure();
  if ((*root)->values[resultNo].dest)
    return addElementwise(value, view); // returned twice: the second is a copy
  (*root)->values[resultNo].dest = view;
  return success();
}

LogicalResult Planner::addInsertedSlice(tensor::InsertSliceOp insert, StridedView view,
                                        unsigned arg) {
  RankedTensorType source = insert.getSourceType(), dest = insert.getDestType();
  ArrayRef<int64_t> offsets = insert.getStaticOffsets(), sizes = insert.getStaticSizes(),
                    strides = insert.getStaticStrides();
  if (ShapedType::isDynamicShape(offsets) || ShapedType::isDynamicShape(strides) ||
      ShapedType::isDynamicShape(sizes) || source.getRank() != dest.getRank() ||
      sizes[0] != dest.getDimSize(0) || llvm::any_of(strides, [](int64_t s) { return s != 1; }))
    return insert.emitError("a result may only be assembled from constant slices of whole rows");
  // Slices are stored in no promised order, so no two may overlap.
  for (auto under = insert.getDest().getDefiningOp<tensor::InsertSliceOp>(); under;
       under = under.getDest().getDefiningOp<tensor::InsertSliceOp>()) {
    bool apart = false;
    for (auto [a, n, b, m] :
         llvm::zip_equal(offsets, sizes, under.getStaticOffsets(), under.getStaticSizes()))
      apart |= a + n <= b || b + m <= a;
    if (!apart)
      return insert.emitError("overlaps another slice of the same result");
  }
  if (failed(addOutput(insert.getDest(), view, arg)))
    return failure();
  StridedView part = view;
  for (auto [offset, stride] : llvm::zip_equal(offsets, view.strides))
    part.offset += offset * stride;
  return addOutput(insert.getSource(), part, arg);
}

LogicalResult Planner::addElementwise(Value value, std::optional<StridedView> dest) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() == 0 || type.getDimSize(0) != kernel.space)
    return emitError(value.getLoc(), "the outer dimension of a kernel must come first in ") << type;
  Root &root = kernel.roots.emplace_back();
  RootValue &slot = root.values.emplace_back();
  slot.value = value;
  slot.dest = std::move(dest);
  slot.index.push_back(LinearExpr::dim(0));
  for (int64_t extent : type.getShape().drop_front()) {
    if (extent != 1)
      root.extents.push_back(extent);
    slot.index.push_back(extent == 1 ? LinearExpr(0) : LinearExpr::dim(root.extents.size()));
  }
  root.firstReduction = root.extents.size();
  visited.clear();
  if (failed(walkElement(root, {value, slot.index})))
    return failure();
  kernel.rootOf.try_emplace(value, &root, 0u);
  return success();
}

void Planner::setReductionLoops(Root &root, std::optional<unsigned> outerLoop) {
  linalg::GenericOp op = root.reduction;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  root.loops.assign(ranges.size(), LinearExpr(0));
  auto addLoop = [&](unsigned loop) {
    if (outerLoop == loop) {
      root.loops[loop] = LinearExpr::dim(0);
    } else if (ranges[loop] != 1 && root.loops[loop].isConstant()) {
      root.extents.push_back(ranges[loop]);
      root.loops[loop] = LinearExpr::dim(root.extents.size());
    }
  };
  for (AffineExpr expr : op.getIndexingMapMatchingResult(op->getResult(0)).getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      addLoop(dim.getPosition());
  root.firstReduction = root.extents.size();
  for (unsigned loop = 0; loop < ranges.size(); ++loop)
    if (kinds[loop] == utils::IteratorType::reduction)
      addLoop(loop);
}

FailureOr<Root *> Planner::addReduction(linalg::GenericOp op, std::optional<unsigned> outerLoop) {
  auto known = kernel.rootOf.find(op->getResult(0));
  if (known != kernel.rootOf.end()) {
    if (outerLoops[op] != outerLoop)
      return op.emitError("is used along two different outer dimensions");
    return known->second.first;
  }
  for (int64_t range : op.getStaticLoopRanges())
    if (range < 1)
      return op.emitError("loops of a kernel must have constant, positive extents");
  Root root;
  root.reduction = op;
  root.overRows = outerLoop.has_value();
  setReductionLoops(root, outerLoop);
  for (OpResult result : op->getResults()) {
    AffineMap map = op.getIndexingMapMatchingResult(result);
    bool parallelOnly = llvm::all_of(map.getResults(), [&](AffineExpr expr) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      return dim && op.getIteratorTypesArray()[dim.getPosition()] == utils::IteratorType::parallel;
    });
    if (!parallelOnly || map.getNumResults() != op.getNumParallelLoops())
      return op.emitError("every result of a reduction must be indexed by all its parallel loops");
    root.reassociable &= matchCombiner(op, result.getResultNumber()) != nullptr;
    unsigned initOperand = op.getNumDpsInputs() + result.getResultNumber();
    FailureOr<IndexList> index = operandIndex(op, initOperand, root.loops);
    if (failed(index))
      return failure();
    RootValue slot;
    slot.value = result;
    slot.index = *index;
    if (root.firstReduction != 0) {
      int64_t size = 1;
      slot.bufferStrides.assign(index->size(), 0);
      ArrayRef<int64_t> shape = cast<RankedTensorType>(result.getType()).getShape();
      for (size_t dim = shape.size(); dim-- > 0;) {
        if ((*index)[dim].isDim(0))
          continue;
        slot.bufferStrides[dim] = size;
        size *= shape[dim];
      }
      slot.bufferSize = size;
    }
    root.values.push_back(slot);
  }
  if (outerLoop && matchScatter(op, *outerLoop))
    root.scatter = true;

  auto outerVisited = std::exchange(visited, {});
  outerLoops[op] = outerLoop;
  Root &stored = kernel.roots.emplace_back(std::move(root));
  if (failed(walkBody(stored, op, stored.loops)))
    return failure();
  visited = std::move(outerVisited);
  for (auto [i, slot] : llvm::enumerate(stored.values))
    kernel.rootOf.try_emplace(slot.value, &stored, i);
  return &stored;
}

FailureOr<std::optional<unsigned>> Planner::outerLoopOf(linalg::GenericOp op, unsigned resultNo,
                                                        ArrayRef<LinearExpr> index) {
  AffineMap map = op.getIndexingMapMatchingResult(op->getResult(resultNo));
  std::optional<unsigned> outer;
  for (auto [i, expr] : llvm::enumerate(index)) {
    if (expr.coefficient(0) == 0)
      continue;
    auto dim = dyn_cast<AffineDimExpr>(map.getResult(i));
    if (outer || !expr.isDim(0) || !dim)
      return op.emitError("one row of the kernel needs this reduction of other rows");
    outer = dim.getPosition();
  }
  return outer;
}

LogicalResult Planner::walkElement(Root &root, Element element) {
  FailureOr<Element> resolved = resolveElement(std::move(element));
  if (failed(resolved))
    return failure();
  Value value = resolved->value;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    if (arg.getOwner() != &kernel.func.front())
      return kernel.func.emitError("a tensor of an inner region is used");
    ArrayRef<int64_t> shape = cast<RankedTensorType>(arg.getType()).getShape();
    root.loads.push_back({arg.getArgNumber(), denseAddress(shape, resolved->index), {}});
    return success();
  }
  Operation *def = value.getDefiningOp();
  if (isa<linalg::FillOp>(def))
    return success();
  if (auto constant = dyn_cast<arith::ConstantOp>(def); constant) {
    if (isa<SplatElementsAttr>(constant.getValue()))
      return success();
    return constant.emitError("a constant tensor in a kernel must have equal elements; pass a "
                              "table as an argument");
  }
  auto op = dyn_cast<linalg::GenericOp>(def);
  if (!op)
    return def->emitError("a kernel cannot compute elements of '") << def->getName() << "'";

  unsigned resultNo = cast<OpResult>(value).getResultNumber();
  if (isReduction(op)) {
    FailureOr<std::optional<unsigned>> outer = outerLoopOf(op, resultNo, resolved->index);
    if (failed(outer))
      return failure();
    FailureOr<Root *> reduction = addReduction(op, *outer);
    if (failed(reduction))
      return failure();
    // A reduction that no row changes runs once, before the rows.
    if (root.overRows == (*reduction)->overRows)
      root.level = std::max(root.level, (*reduction)->level + 1);
    return success();
  }
  if (!visited.insert({op.getOperation(), resolved->index}).second)
    return success();
  if (countHeavyOps(op) != 0)
    heavyUses[value].push_back({&root, resolved->index});
  FailureOr<IndexList> loops = loopsOfElement(op, resultNo, resolved->index);
  if (failed(loops))
    return failure();
  return walkBody(root, op, *loops);
}

LogicalResult Planner::walkBody(Root &root, linalg::GenericOp op, ArrayRef<LinearExpr> loops) {
  root.heavyOps += countHeavyOps(op);
  for (OpOperand &operand : op->getOpOperands()) {
    bool init = operand.getOperandNumber() >= op.getNumDpsInputs();
    if (!op.payloadUsesValueFromOperand(&operand))
      continue;
    if (auto empty = operand.get().getDefiningOp<tensor::EmptyOp>())
      return op.emitError(init ? "accumulates into an uninitialised tensor"
                               : "reads an uninitialised tensor");
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue; // a scalar operand
    FailureOr<IndexList> index = operandIndex(op, operand.getOperandNumber(), loops);
    if (failed(index) || failed(walkElement(root, {operand.get(), *index})))
      return failure();
  }
  for (Operation &inner : *op.getBody()) {
    if (inner.getNumRegions() != 0)
      return inner.emitError("control flow inside a kernel's element is not supported");
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner))
      if (failed(walkExtract(root, op, extract, loops)))
        return failure();
  }
  return success();
}

/// `value` of a body as a linear expression of the loops, if it is one.
static std::optional<LinearExpr> linearIndex(Value value, ArrayRef<LinearExpr> loops) {
  if (auto cast = value.getDefiningOp<arith::IndexCastOp>())
    return linearIndex(cast.getIn(), loops);
  if (auto index = value.getDefiningOp<linalg::IndexOp>())
    return loops[index.getDim()];
  if (auto constant = value.getDefiningOp<arith::ConstantIndexOp>())
    return LinearExpr(constant.value());
  return std::nullopt;
}

LogicalResult Planner::walkExtract(Root &root, linalg::GenericOp op, tensor::ExtractOp extract,
                                   ArrayRef<LinearExpr> loops) {
  BlockArgument arg = denseArgument(extract.getTensor());
  if (!arg || arg.getOwner() != &kernel.func.front())
    return extract.emitError("a kernel may only gather from its arguments");
  IndexList index;
  Load load;
  load.arg = arg.getArgNumber();
  for (Value value : extract.getIndices()) {
    std::optional<LinearExpr> linear = linearIndex(value, loops);
    index.push_back(linear.value_or(LinearExpr(0)));
    if (linear)
      continue;
    // Data decides: count on no order along any loop the index operands use.
    for (OpOperand &operand : op->getOpOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.get().getType());
      if (!type || !type.getElementType().isInteger(32) ||
          !op.payloadUsesValueFromOperand(&operand))
        continue;
      FailureOr<IndexList> at = operandIndex(op, operand.getOperandNumber(), loops);
      if (failed(at))
        return failure();
      for (const LinearExpr &expr : *at)
        for (auto [dim, coefficient] : expr.terms())
          load.irregular.insert(dim);
    }
  }
  load.address = denseAddress(extract.getTensor().getType().getShape(), index);
  root.loads.push_back(std::move(load));
  return success();
}

/// Costly values needed by nests of several levels are computed once per row.
LogicalResult Planner::storeHeavyValues() {
  for (Value value : valuesWorthStoring(kernel, heavyUses)) {
    if (failed(addElementwise(value, std::nullopt)))
      return failure();
    placeStoredValue(kernel, kernel.roots.back(), heavyUses[value]);
  }
  return success();
}

void Planner::assignBuffers() {
  for (Root &root : kernel.roots)
    for (RootValue &slot : root.values) {
      if (slot.dest || slot.bufferSize == 0)
        continue;
      slot.buffer = kernel.bufferSizes.size();
      kernel.bufferSizes.push_back(slot.bufferSize);
    }
}

FailureOr<std::unique_ptr<Kernel>> Kernel::plan(func::FuncOp func, const PlanSettings &settings) {
  auto kernel = std::make_unique<Kernel>();
  kernel->func = func;
  kernel->lanes = settings.lanes;
  kernel->rowBytes = settings.rowBytes;
  if (failed(Planner(*kernel).run()))
    return failure();
  return kernel;
}

} // namespace cleave::target
