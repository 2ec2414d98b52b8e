//===- KernelEmitter.cpp - a planned kernel as loops over vectors ---------===//
//
// The function, the loop over rows and the loops of a nest. What a reduction does
// with its accumulators is in ReductionEmitter.cpp.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace cleave::cpu {

KernelEmitter::KernelEmitter(const Kernel &kernel)
    : kernel(kernel), builder(kernel.func->getContext()), loc(kernel.func->getLoc()) {}

/// Makes the empty function (args, begin, end), with the operands' pointers and
/// the stack buffers in its entry.
void KernelEmitter::createFunction() {
  MLIRContext *context = builder.getContext();
  Type ptr = LLVM::LLVMPointerType::get(context), i64 = builder.getI64Type();
  builder.setInsertionPoint(kernel.func);
  func::FuncOp source = kernel.func;
  function = func::FuncOp::create(builder, loc, source.getName(),
                                  builder.getFunctionType({ptr, i64, i64}, {}));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  SmallVector<Value> pointers, buffers;
  for (unsigned i = 0; i < source.getNumArguments(); ++i) {
    Value slot = entry->getArgument(0);
    if (i != 0)
      slot = LLVM::GEPOp::create(builder, loc, ptr, ptr, slot, ArrayRef<LLVM::GEPArg>{int(i)});
    pointers.push_back(LLVM::LoadOp::create(builder, loc, ptr, slot));
  }
  for (int64_t size : kernel.bufferSizes) {
    Value count = arith::ConstantIntOp::create(builder, loc, size, 64);
    buffers.push_back(
        LLVM::AllocaOp::create(builder, loc, ptr, builder.getF32Type(), count, /*alignment=*/64));
  }
  begin = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), entry->getArgument(1));
  end = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), entry->getArgument(2));
  emitter.emplace(kernel, builder, entry, pointers);
  emitter->setBuffers(buffers);
}

/// How many elements a wide step takes: enough registers in flight to hide the
/// latency of an addition, few enough that what an exp needs stays in registers.
unsigned KernelEmitter::wideVector(bool accumulates, unsigned heavyOps,
                                   unsigned accumulators) const {
  if (heavyOps != 0)
    return 2 * kernel.lanes;
  if (accumulates && accumulators == 1)
    return 8 * kernel.lanes;
  return 4 * kernel.lanes;
}

std::vector<KernelEmitter::Section> KernelEmitter::sectionsOf(const Nest &nest) const {
  std::vector<Section> result;
  if (!nest.laneDim)
    return result;
  unsigned heavyOps = 0, accumulators = 0;
  for (const Root *root : nest.roots) {
    heavyOps += root->heavyOps;
    accumulators += root->reduction ? root->values.size() : 0;
  }
  int64_t extent = nest.extents[*nest.laneDim], at = 0;
  for (unsigned width : {wideVector(false, heavyOps, accumulators), kernel.lanes, 1u}) {
    int64_t until = at + (extent - at) / width * width;
    if (until != at)
      result.push_back({width, at, until});
    at = until;
  }
  return result;
}

LogicalResult KernelEmitter::run() {
  createFunction();
  SmallVector<const Nest *> rowNests;
  for (const Nest &each : kernel.nests) {
    if (each.overRows)
      rowNests.push_back(&each);
    else if (failed(emitNest(each)))
      return failure();
  }
  planPrefetches(rowNests);
  if (!rowNests.empty() && rowNests.front()->scatter) {
    if (failed(emitScatter(*rowNests.front())))
      return failure();
    rowNests.clear();
  } else if (!rowNests.empty() && sumsInBlocks(*rowNests.front())) {
    if (failed(emitSumsInBlocks(*rowNests.front())))
      return failure();
    rowNests.erase(rowNests.begin());
  }
  auto allNests = [&]() -> LogicalResult {
    for (const Nest *each : rowNests)
      if (failed(emitNest(*each)))
        return failure();
    return success();
  };
  if (!rowNests.empty() && failed(forRows(allNests)))
    return failure();
  emitter->setAnchor(0, nullptr);
  func::ReturnOp::create(emitter->at(0), loc);
  func::FuncOp source = kernel.func;
  source.erase();
  return success();
}

LogicalResult KernelEmitter::forRows(function_ref<LogicalResult()> body) {
  if (!kernel.lanesOverRows)
    return emitRowLoop(begin, end, 1, body);
  unsigned heavyOps = 0, accumulators = 0;
  for (const Root &root : kernel.roots) {
    heavyOps += root.heavyOps;
    accumulators += root.reduction ? root.values.size() : 0;
  }
  unsigned wide = wideVector(accumulators != 0, heavyOps, accumulators);
  Value from = begin;
  for (unsigned width : {wide, kernel.lanes, 1u}) {
    OpBuilder &b = emitter->at(emitter->innermost());
    Value until = end;
    if (width != 1) {
      Value step = arith::ConstantIndexOp::create(b, loc, width);
      Value rows = arith::SubIOp::create(b, loc, end, from);
      Value rest = arith::RemSIOp::create(b, loc, rows, step);
      until = arith::SubIOp::create(b, loc, end, rest);
    }
    if (failed(emitRowLoop(from, until, width, body)))
      return failure();
    from = until;
  }
  return success();
}

LogicalResult KernelEmitter::emitRowLoop(Value from, Value until, unsigned width,
                                         function_ref<LogicalResult()> body) {
  unsigned outer = emitter->innermost();
  OpBuilder &b = emitter->at(outer);
  Value step = arith::ConstantIndexOp::create(b, loc, width);
  auto loop = scf::ForOp::create(b, loc, from, until, step);
  loop.getBody()->getTerminator()->erase();
  emitter->setAnchor(outer, loop);
  unsigned scope = emitter->pushScope(loop.getBody());
  emitter->rowScope = scope;
  emitter->forgetScalars(kernel);
  emitter->width = width;
  nestDims.resize(std::max<size_t>(nestDims.size(), 1));
  nestDims[0] = LinearExpr::dim(emitter->addDim(loop.getInductionVar(), scope, width != 1));
  if (failed(body()))
    return failure();
  emitter->setAnchor(scope, nullptr);
  scf::YieldOp::create(emitter->at(scope), loc);
  emitter->popScope();
  emitter->rowScope = 0;
  emitter->width = 1;
  emitter->setAnchor(outer, nullptr);
  return success();
}

/// When a row is walked more than once, only the first walk waits for memory. A
/// later one fetches the next row meanwhile: the costliest, or else the last.
void KernelEmitter::planPrefetches(ArrayRef<const Nest *> nests) {
  const int64_t kMostBytes = 128 * 1024; // of a row, to stay in the second-level cache
  if (nests.size() < 2 || kernel.lanesOverRows || nests.front()->scatter)
    return;
  auto heavyOps = [](const Nest *each) {
    unsigned count = 0;
    for (const Root *root : each->roots)
      count += root->heavyOps;
    return count;
  };
  for (const Nest *each : nests.drop_front())
    if (each->extents == nests.front()->extents && each->laneDim &&
        (!prefetchNest || heavyOps(each) >= heavyOps(prefetchNest)))
      prefetchNest = each;
  if (!prefetchNest)
    return;
  int64_t bytes = 0;
  for (const Root *root : nests.front()->roots)
    for (const Load &load : root->loads) {
      int64_t rowStride = load.address.coefficient(0);
      bool known = llvm::any_of(prefetches, [&](const Load &other) {
        return other.arg == load.arg && other.address == load.address;
      });
      if (known || rowStride == 0 || !load.irregular.empty() ||
          load.address.coefficient(*prefetchNest->laneDim + 1) != 1)
        continue;
      prefetches.push_back({load.arg, load.address + LinearExpr(rowStride), {}});
      bytes += 4 * rowStride;
    }
  if (bytes > kMostBytes)
    prefetches.clear();
}

LogicalResult KernelEmitter::emitNest(const Nest &each) {
  nest = &each;
  sections = sectionsOf(each);
  nestDims.resize(1); // keeps the row
  nestDims.resize(1 + each.extents.size());
  emitter->setAnchor(emitter->innermost(), nullptr);
  if (failed(emitLoops(0)))
    return failure();
  for (Root *root : each.roots)
    if (!root->reduction || root->firstReduction != 0)
      emitter->complete(*root, {});
  return success();
}

/// The parallel loops of the nest from position `pos` inwards.
LogicalResult KernelEmitter::emitLoops(unsigned pos) {
  bool reduces = llvm::any_of(nest->roots, [](Root *root) { return bool(root->reduction); });
  if (reduces && pos == nest->firstReduction)
    return emitReductions(pos);
  if (pos == nest->extents.size())
    return emitLeaf({});
  if (nest->laneDim == pos) {
    for (const Section &section : sections)
      if (failed(forRange(pos, section, /*lanes=*/true, {}, [&] { return emitLoops(pos + 1); })))
        return failure();
    return success();
  }
  return forRange(pos, {1, 0, nest->extents[pos]}, /*lanes=*/false, {},
                  [&] { return emitLoops(pos + 1); });
}

LogicalResult KernelEmitter::forRange(unsigned pos, const Section &section, bool lanes,
                                      MutableArrayRef<Elem *> carried,
                                      function_ref<LogicalResult()> body) {
  unsigned outerWidth = emitter->width, outer = emitter->innermost();
  if (lanes)
    emitter->width = section.width;
  OpBuilder &b = emitter->at(outer);
  Value lower = arith::ConstantIndexOp::create(b, loc, section.begin);
  bool isLane = lanes && section.width != 1;
  if (section.end - section.begin == section.width) {
    // A single step needs no loop and no scope.
    nestDims[pos + 1] = LinearExpr::dim(emitter->addDim(lower, outer, isLane));
    LogicalResult result = body();
    emitter->width = outerWidth;
    return result;
  }
  Value upper = arith::ConstantIndexOp::create(b, loc, section.end);
  Value step = arith::ConstantIndexOp::create(b, loc, section.width);
  SmallVector<Value> inits;
  for (Elem *elem : carried)
    inits.push_back(elem->value);
  auto loop = scf::ForOp::create(b, loc, lower, upper, step, inits);
  Block *block = loop.getBody();
  if (block->mightHaveTerminator())
    block->getTerminator()->erase();
  emitter->setAnchor(outer, loop);
  unsigned scope = emitter->pushScope(block);
  nestDims[pos + 1] = LinearExpr::dim(emitter->addDim(loop.getInductionVar(), scope, isLane));
  for (auto [elem, arg] : llvm::zip_equal(carried, loop.getRegionIterArgs())) {
    elem->value = arg;
    elem->scope = scope;
  }
  LogicalResult result = body();
  SmallVector<Value> yielded;
  for (Elem *elem : carried)
    yielded.push_back(elem->value);
  emitter->setAnchor(scope, nullptr);
  scf::YieldOp::create(emitter->at(scope), loc, yielded);
  emitter->popScope();
  emitter->setAnchor(outer, nullptr);
  for (auto [elem, value] : llvm::zip_equal(carried, loop.getResults())) {
    elem->value = value;
    elem->scope = outer;
  }
  emitter->width = outerWidth;
  return result;
}

/// The innermost body: folds into the accumulators and stores elements. All reads
/// come before all writes, since a destination may be read in place.
LogicalResult KernelEmitter::emitLeaf(MutableArrayRef<Elem> accumulators) {
  size_t next = 0;
  for (Root *root : nest->roots) {
    if (!root->reduction)
      continue;
    IndexList loops;
    for (const LinearExpr &loop : root->loops)
      loops.push_back(loop.substitute(nestDims));
    MutableArrayRef<Elem> own = accumulators.slice(next, root->values.size());
    next += root->values.size();
    FailureOr<SmallVector<Elem, 2>> results = emitter->body(root->reduction, loops, own);
    if (failed(results))
      return failure();
    for (auto [acc, result] : llvm::zip_equal(own, *results)) {
      acc.value = emitter->materialize(result, acc.lanes);
      acc.scope = emitter->innermost();
    }
  }
  struct Write {
    const RootValue *slot;
    IndexList index;
    Elem elem;
  };
  std::vector<Write> writes;
  for (Root *root : nest->roots) {
    if (root->reduction)
      continue;
    const RootValue &slot = root->values[0];
    IndexList index;
    for (const LinearExpr &expr : slot.index)
      index.push_back(expr.substitute(nestDims));
    FailureOr<Elem> elem = emitter->element(slot.value, index);
    if (failed(elem))
      return failure();
    writes.push_back({&slot, index, *elem});
  }
  if (nest == prefetchNest && emitter->width != 1)
    for (const Load &load : prefetches)
      emitter->prefetch(load.arg, load.address.substitute(nestDims));
  for (const Write &write : writes)
    if (failed(emitter->store(*write.slot, write.index, write.elem)))
      return failure();
  return success();
}

} // namespace cleave::cpu
