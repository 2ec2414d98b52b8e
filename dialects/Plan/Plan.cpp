//===- Plan.cpp - The plan dialect -----------------------------------------===//

#include "dialects/Plan/Plan.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace cleave::plan;

#include "dialects/Plan/PlanDialect.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Plan/PlanOps.cpp.inc"
      >();
}

/// Checks what does not depend on a model: versions, sizes, names given twice.
LogicalResult SolutionOp::verify() {
  if (getVersion() < 1 || getVersion() > kVersion)
    return emitOpError() << "has version " << getVersion() << "; this build reads 1 to "
                         << kVersion;
  llvm::StringSet<> axes, assigned, parameters, chunked, recomputed, typed;
  unsigned batches = 0, layouts = 0, pipelines = 0, overlaps = 0;
  for (Operation &op : getBody().front()) {
    if (auto axis = dyn_cast<AxisOp>(op)) {
      if (!axes.insert(axis.getName()).second)
        return axis.emitOpError() << "defines the axis '" << axis.getName() << "' twice";
      if (axis.getSizes().empty() || llvm::any_of(axis.getSizes(), [](int64_t s) { return s < 1; }))
        return axis.emitOpError("needs sizes of at least 1");
    } else if (auto assign = dyn_cast<AssignOp>(op)) {
      if (!assigned.insert((assign.getKind() + "/" + assign.getPath()).str()).second)
        return assign.emitOpError() << "assigns '" << assign.getPath() << "' twice";
    } else if (auto parameter = dyn_cast<ParameterOp>(op)) {
      if (!parameters.insert(parameter.getName()).second)
        return parameter.emitOpError() << "places '" << parameter.getName() << "' twice";
    } else if (auto chunk = dyn_cast<ChunkOp>(op)) {
      if (!chunked.insert(chunk.getKind()).second)
        return chunk.emitOpError() << "cuts '" << chunk.getKind() << "' into pieces twice";
    } else if (auto recompute = dyn_cast<RecomputeOp>(op)) {
      if (!recomputed.insert(recompute.getKind()).second)
        return recompute.emitOpError() << "says twice what '" << recompute.getKind() << "' keeps";
    } else if (auto precision = dyn_cast<PrecisionOp>(op)) {
      if (!typed.insert((precision.getKind() + "/" + precision.getPath()).str()).second)
        return precision.emitOpError() << "gives '" << precision.getPath() << "' types twice";
    } else if (isa<OverlapOp>(op)) {
      if (++overlaps > 1)
        return op.emitOpError("says twice that exchanges overlap");
    } else if (isa<BatchOp>(op)) {
      ++batches;
    } else if (isa<LayoutOp>(op)) {
      ++layouts;
    } else if (isa<PipelineOp>(op)) {
      if (++pipelines > 1)
        return op.emitOpError("is the second; a plan has one pipeline at most");
    } else {
      return op.emitOpError("is no part of a plan");
    }
  }
  if (batches != 1 || layouts != 1)
    return emitOpError("needs one plan.batch and one plan.layout");
  return success();
}

LogicalResult PipelineOp::verifyRegions() {
  const auto stages = llvm::range_size(getOps<StageOp>());
  if (stages == 0)
    return emitOpError("has no stage");
  llvm::StringSet<> shared;
  for (Operation &op : getBody().front()) {
    auto share = dyn_cast<SharedOp>(op);
    if (!share && !isa<StageOp>(op))
      return op.emitOpError("is no part of a pipeline");
    if (!share)
      continue;
    if (!shared.insert(share.getParameter()).second)
      return share.emitOpError() << "shares '" << share.getParameter() << "' twice";
    ArrayRef<int64_t> of = share.getStages();
    if (of.size() < 2 || !llvm::is_sorted(of, std::less_equal<>()) || of.front() < 0 ||
        of.back() >= static_cast<int64_t>(stages))
      return share.emitOpError() << "needs two or more stages of 0 to " << stages - 1
                                 << ", in order";
  }
  return success();
}

LogicalResult StageOp::verify() {
  if (getLayers().empty() || getLayers().size() != getCounts().size() ||
      llvm::any_of(getCounts(), [](int64_t n) { return n < 1; }))
    return emitOpError(
        "needs one count, at least 1, for each kind of layer, and one kind at least");
  return success();
}

LogicalResult OverlapOp::verify() {
  if (auto bytes = getBucket(); bytes && *bytes < 1)
    return emitOpError() << "has buckets of " << *bytes << " bytes; they are of at least 1";
  return success();
}

LogicalResult PrecisionOp::verify() {
  if (!getCompute() && !getStore())
    return emitOpError("needs a type to compute in, or one to store, or both");
  for (std::optional<Type> type : {getCompute(), getStore()})
    if (type && !type->isBF16())
      return emitOpError() << "has the type " << *type << "; what is said is bf16, the rest is f32";
  return success();
}

LogicalResult ChunkOp::verify() {
  llvm::StringSet<> seen;
  for (StringRef name : getAlong().getAsValueRange<StringAttr>())
    if (!seen.insert(name).second)
      return emitOpError() << "names '" << name << "' twice";
  if (seen.empty() || getPieces().size() != seen.size() ||
      llvm::any_of(getPieces(), [](int64_t n) { return n < 1; }))
    return emitOpError("needs one number of pieces, at least 1, for each dimension");
  if (seen.size() > 1 && !isOfTokens())
    return emitOpError("makes pieces along batch and sequence, or along one other dimension");
  return success();
}

bool ChunkOp::isOfTokens() {
  return llvm::all_of(getAlong().getAsValueRange<StringAttr>(),
                      [](StringRef name) { return name == "batch" || name == "sequence"; });
}

SmallVector<StringAttr> cleave::plan::tokenAxes(SolutionOp solution) {
  AxisTable table(solution);
  auto cutting = [&](DictionaryAttr places, StringRef dim) {
    auto list = places.getAs<ArrayAttr>(dim);
    return list ? table.expand(list) : SmallVector<StringAttr>();
  };
  llvm::SmallDenseSet<StringAttr> others;
  for (auto assign : solution.getOps<AssignOp>())
    for (NamedAttribute place : assign.getFactors())
      if (place.getName() != "batch" && place.getName() != "sequence")
        others.insert_range(cutting(assign.getFactors(), place.getName()));
  DictionaryAttr layout = entry<LayoutOp>(solution).getDims();
  SmallVector<StringAttr> axes = cutting(layout, "batch");
  for (StringAttr axis : cutting(layout, "sequence"))
    if (!others.contains(axis))
      axes.push_back(axis);
  return axes;
}

AxisTable::AxisTable(SolutionOp solution) {
  for (auto axis : solution.getOps<AxisOp>())
    for (auto [i, size] : llvm::enumerate(axis.getSizes())) {
      std::string name = axis.getName().str();
      if (axis.getSizes().size() > 1)
        name += "." + std::to_string(i);
      names.push_back(StringAttr::get(solution.getContext(), name));
      sizes.push_back(size);
    }
}

SmallVector<StringAttr> AxisTable::expand(StringRef name) const {
  SmallVector<StringAttr> out;
  for (StringAttr n : names)
    if (n.getValue() == name || n.getValue().rsplit('.').first == name)
      out.push_back(n);
  return out;
}

SmallVector<StringAttr> AxisTable::expand(ArrayAttr list) const {
  SmallVector<StringAttr> out;
  for (Attribute a : list)
    llvm::append_range(out, expand(cast<StringAttr>(a).getValue()));
  return out;
}

int64_t AxisTable::size(StringAttr meshAxis) const {
  auto it = llvm::find(names, meshAxis);
  return it == names.end() ? 1 : sizes[it - names.begin()];
}

int64_t AxisTable::size(ArrayRef<StringAttr> meshAxes) const {
  int64_t n = 1;
  for (StringAttr a : meshAxes)
    if (llvm::MulOverflow(n, size(a), n))
      return std::numeric_limits<int64_t>::max();
  return n;
}

int64_t AxisTable::ways(DictionaryAttr places, StringRef dim) const {
  auto list = places ? places.getAs<ArrayAttr>(dim) : ArrayAttr();
  return list ? size(expand(list)) : 1;
}
