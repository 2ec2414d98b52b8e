//===- KernelText.cpp - a planned kernel as a CUDA function ---------------===//

#include "KernelText.h"
#include "ScalarText.h"

using namespace mlir;

namespace cleave::cuda {

KernelText::KernelText(const Kernel &kernel)
    : kernel(kernel), geometry(chooseGeometry(kernel)), text(kernel) {}

std::string KernelText::signature() const {
  std::string result = "extern \"C\" __global__ void __launch_bounds__(" +
                       std::to_string(geometry.threads) + ") " +
                       func::FuncOp(kernel.func).getName().str() + "(";
  unsigned inputs = func::FuncOp(kernel.func).getFunctionType().getNumInputs() - kernel.numOutputs;
  for (auto [i, type] : llvm::enumerate(func::FuncOp(kernel.func).getFunctionType().getInputs()))
    result += std::string(i == 0 ? "" : ", ") + (i < inputs ? "const " : "") +
              text.typeOf(getElementTypeOrSelf(type)) + " *__restrict__ " + text.pointerOf(i);
  return result + ")";
}

/// Everything stored must have a type in the text.
LogicalResult KernelText::checkTypes() {
  LogicalResult result = success();
  func::FuncOp(kernel.func).walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (Type element = getElementTypeOrSelf(type);
          succeeded(result) && !typeText(element, text.indexType()))
        result = op->emitError("has elements of type ") << element;
  });
  return result;
}

/// Which row a thread works for, and which of its team it is.
void KernelText::writePlace() {
  std::string index = text.indexType().str(), rows = std::to_string(kernel.space);
  std::string perBlock = std::to_string(geometry.rowsPerBlock());
  auto constant = [&](const std::string &name, const std::string &value) {
    text.line(0, "const " + index + " " + name + " = " + value + ";");
  };
  switch (geometry.team) {
  case Team::Grid:
    return;
  case Team::Thread:
    constant("row", "blockIdx.x * " + perBlock + " + threadIdx.x");
    break;
  case Team::Warp:
    constant("row", "blockIdx.x * " + perBlock + " + threadIdx.x / 32");
    constant("rank", "threadIdx.x % 32");
    break;
  case Team::Block:
    constant("row", "blockIdx.x");
    constant("rank", "threadIdx.x");
    break;
  case Team::Column: {
    std::string row = "blockIdx.x * " + perBlock + " + threadIdx.x % 32";
    if (kernel.space % geometry.rowsPerBlock() == 0) {
      constant("row", row);
    } else {
      // All threads meet at barriers: those past the end repeat the last row.
      constant("column", row);
      text.line(0, "const bool active = column < " + rows + ";");
      constant("row", "active ? column : " + std::to_string(kernel.space - 1));
    }
    constant("rank", "threadIdx.x / 32");
    break;
  }
  }
  if (!geometry.meetsInBlocks() && kernel.space % geometry.rowsPerBlock() != 0)
    text.line(0, "if (row >= " + rows + ")\n    return;");
  nestDims[0] = LinearExpr::dim(text.addDim("row", 0));
}

void KernelText::writeBuffers() {
  for (auto [i, size] : llvm::enumerate(kernel.bufferSizes)) {
    std::string type = "float", name = text.bufferOf(i);
    for (const Root &root : kernel.roots)
      for (const RootValue &slot : root.values)
        if (slot.buffer == i)
          type = text.typeOf(getElementTypeOrSelf(slot.value.getType()));
    std::string all = geometry.rowsPerBlock() == 1 ? name : name + "s";
    text.line(0, "__shared__ __align__(16) " + type + " " + all + "[" +
                     std::to_string(size * geometry.rowsPerBlock()) + "];");
    if (all != name)
      text.line(0, type + " *const " + name + " = " + all + " + " + std::to_string(size) +
                       " * (threadIdx.x / " + std::to_string(geometry.teamSize) + ");");
  }
}

std::string KernelText::guard(bool leaderOnly) const {
  std::string active =
      geometry.team == Team::Column && kernel.space % geometry.rowsPerBlock() != 0 ? "active" : "";
  if (!leaderOnly || geometry.teamSize == 1)
    return active;
  return active.empty() ? "rank == 0" : "rank == 0 && " + active;
}

FailureOr<std::string> KernelText::write() {
  if (failed(checkTypes()))
    return failure();
  nestDims.assign(1, LinearExpr(0));
  writePlace();
  writeBuffers();
  for (const Nest &each : kernel.nests)
    if (failed(writeNest(each)))
      return failure();
  std::string head = signature() + " {\n";
  unsigned parts = geometry.team == Team::Column ? geometry.threads : geometry.threads / 32;
  for (const std::string &type : scratchTypes)
    head += "  __shared__ " + type + " scratch_" + type + "[" + std::to_string(parts) + "];\n";
  return head + text.functionText() + "}\n";
}

/// A barrier if the nest just written reads or overwrites what earlier ones touched.
std::string KernelText::barrierIfNeeded() {
  auto meets = [](const std::set<std::string> &a, const std::set<std::string> &b) {
    return llvm::any_of(a, [&](const std::string &name) { return b.count(name) != 0; });
  };
  bool needed = geometry.teamSize > 1 &&
                (meets(text.reads, pendingWrites) || meets(text.writes, pendingReads) ||
                 meets(text.writes, pendingWrites));
  if (needed) {
    pendingReads.clear();
    pendingWrites.clear();
  }
  pendingReads.insert(text.reads.begin(), text.reads.end());
  pendingWrites.insert(text.writes.begin(), text.writes.end());
  text.reads.clear();
  text.writes.clear();
  if (!needed)
    return "";
  return geometry.team == Team::Warp ? "__syncwarp();" : "__syncthreads();";
}

LogicalResult KernelText::writeNest(const Nest &each) {
  nest = &each;
  nestDims.resize(1); // keeps the row
  nestDims.resize(1 + each.extents.size());
  text.nestScope = text.open("");
  bool reduces = llvm::any_of(each.roots, [](Root *root) { return bool(root->reduction); });
  LogicalResult result = success();
  if (reduces) {
    result = writeReductions();
  } else {
    Walk walk{0,      unsigned(each.extents.size()),     false,
              rank(), std::to_string(geometry.teamSize), groupOf(kernel, each, geometry.team)};
    if (geometry.team == Team::Grid) {
      walk.rows = true;
      walk.start = "(blockIdx.x * " + std::to_string(geometry.threads) + " + threadIdx.x)";
      walk.step = std::to_string(geometry.blocks * geometry.threads);
    }
    result = forWalk(walk, [&] { return writeLeaf({}); });
  }
  if (failed(result))
    return failure();
  text.close(barrierIfNeeded());
  for (Root *root : each.roots)
    if (geometry.team != Team::Grid && (!root->reduction || root->firstReduction != 0))
      text.complete(*root, {});
  return success();
}

/// Takes the flat `variable` apart into the dimensions of `walk`; the last moves in
/// steps of the group.
void KernelText::bindDims(const Walk &walk, const std::string &variable, unsigned scope) {
  struct Part {
    unsigned dim;
    int64_t extent;
  };
  SmallVector<Part> parts;
  if (walk.rows)
    parts.push_back({0, kernel.space});
  for (unsigned pos = walk.first; pos < walk.last; ++pos)
    parts.push_back({pos + 1, nest->extents[pos]});
  int64_t inner = 1;
  for (size_t i = parts.size(); i-- > 0;) {
    std::string name = variable, value = variable;
    if (parts.size() > 1) {
      name = parts[i].dim == 0 ? "row" : variable + std::to_string(parts[i].dim);
      if (inner != 1)
        value += " / " + std::to_string(inner);
      if (i != 0)
        value += " % " + std::to_string(parts[i].extent);
      text.line(scope, "const " + text.indexType().str() + " " + name + " = " + value + ";");
    }
    inner *= parts[i].extent;
    bool last = i + 1 == parts.size();
    nestDims[parts[i].dim] = LinearExpr::dim(text.addDim(name, scope, last ? walk.group : 1));
  }
}

LogicalResult KernelText::forWalk(const Walk &walk, function_ref<LogicalResult()> body) {
  int64_t total = walk.rows ? kernel.space : 1;
  for (unsigned pos = walk.first; pos < walk.last; ++pos)
    total *= nest->extents[pos];
  bool single = walk.first == walk.last && !walk.rows;
  bool serial = walk.start == "0" && walk.step == "1";
  if (single && serial)
    return body();
  if (single) {
    text.open("if (" + walk.start + " == 0)");
    if (failed(body()))
      return failure();
    text.close();
    return success();
  }
  std::string variable = text.freshName("i"), index = text.indexType().str();
  std::string start = walk.start, step = walk.step;
  if (walk.group != 1) {
    start = start == "0" ? "0" : "4 * " + start;
    step = std::to_string(4 * std::stoll(step));
  }
  unsigned scope = text.open("for (" + index + " " + variable + " = " + start + "; " + variable +
                             " < " + std::to_string(total) + "; " +
                             (step == "1" ? "++" + variable : variable + " += " + step) + ")");
  bindDims(walk, variable, scope);
  if (walk.group == 1) {
    if (failed(body()))
      return failure();
    text.close();
    return success();
  }
  unsigned dim = walk.last > walk.first ? walk.last : 0;
  unsigned lanes = text.open("for (int k = 0; k < 4; ++k)");
  nestDims[dim] = nestDims[dim] + LinearExpr::dim(text.addLane("k", lanes));
  if (failed(body()))
    return failure();
  text.close("#pragma unroll");
  text.flushGroups();
  text.close();
  return success();
}

IndexList KernelText::indexOf(ArrayRef<LinearExpr> index) const {
  IndexList result;
  for (const LinearExpr &expr : index)
    result.push_back(expr.substitute(nestDims));
  return result;
}

/// The innermost body: folds into the accumulators and stores elements. All reads
/// come before all writes, since a destination may be read in place.
LogicalResult KernelText::writeLeaf(MutableArrayRef<Accumulator> accumulators) {
  for (size_t next = 0; next < accumulators.size();) {
    Root *root = accumulators[next].root;
    SmallVector<Item> own;
    for (size_t i = 0; i < root->values.size(); ++i) {
      own.push_back(accumulators[next + i].item);
      own.back().scope = text.innermost();
    }
    FailureOr<SmallVector<Item, 2>> results = text.body(root->reduction, indexOf(root->loops), own);
    if (failed(results))
      return failure();
    for (const Item &result : *results)
      text.line(text.innermost(),
                accumulators[next++].item.text + " = " + text.operand(result) + ";");
  }
  struct Write {
    const RootValue *slot;
    IndexList index;
    Item item;
  };
  std::vector<Write> writes;
  for (Root *root : nest->roots) {
    if (root->reduction)
      continue;
    const RootValue &slot = root->values[0];
    IndexList index = indexOf(slot.index);
    FailureOr<Item> item = text.element(slot.value, index);
    if (failed(item))
      return failure();
    writes.push_back({&slot, index, *item});
  }
  for (const Write &write : writes)
    text.store(*write.slot, write.index, write.item, guard(false));
  return success();
}

} // namespace cleave::cuda
