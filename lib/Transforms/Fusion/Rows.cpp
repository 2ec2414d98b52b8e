//===- Rows.cpp - The rows that operators share ----------------------------===//

#include "Rows.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::fusion;

SmallVector<OpResult> cleave::fusion::usedResults(Operation *op) {
  SmallVector<OpResult> used;
  for (OpResult r : op->getResults())
    if (!r.use_empty())
      used.push_back(r);
  return used;
}

static bool refuse(std::string *why, const Twine &text) {
  if (why)
    *why = text.str();
  return false;
}

/// Notes that `to` stands at `from` in `links`, a null name that nothing fixed does.
static void link(llvm::DenseMap<StringAttr, StringAttr> &links, StringAttr from, StringAttr to) {
  auto [it, fresh] = links.try_emplace(from, to);
  if (!fresh && it->second != to)
    it->second = StringAttr();
}

bool Rows::addType(Type type, std::string *why) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !nn::isNamedTensor(tensor))
    return refuse(why, "a value is no tensor with named dimensions");
  if (!tensor.hasStaticShape() || tensor.getNumElements() == 0)
    return refuse(why, "a value has no static shape, or no elements");
  Type element = tensor.getElementType();
  if (!element.isF32() && !element.isBF16() && !element.isInteger(32))
    return refuse(why, "a value is of none of f32, bf16 and i32");
  auto names = nn::dimNames(tensor);
  for (auto [d, name] : llvm::enumerate(names)) {
    auto [it, fresh] = sizes.insert({name, tensor.getDimSize(d)});
    if (!fresh && it->second != tensor.getDimSize(d))
      return refuse(why, "the dimension '" + name.getValue() + "' has two sizes");
    link(next, name, d + 1 < names.size() ? names[d + 1] : StringAttr());
    link(previous, name, d > 0 ? names[d - 1] : StringAttr());
  }
  return true;
}

/// Breaks the links around `name`.
void Rows::keepApart(StringAttr name) { next[name] = previous[name] = StringAttr(); }

bool Rows::addTypes(ArrayRef<Operation *> ops, std::string *why) {
  for (Operation *op : ops) {
    for (Type t : op->getOperandTypes())
      if (!addType(t, why))
        return false;
    for (OpResult r : usedResults(op))
      if (!addType(r.getType(), why))
        return false;
  }
  for (Operation *op : ops)
    for (OpResult r : usedResults(op)) {
      FusionDims dims = cast<FusionOpInterface>(op).getFusionDims(r.getResultNumber());
      auto names = nn::dimNames(r);
      for (int64_t d : llvm::concat<int64_t>(dims.mixed, dims.apart))
        keepApart(names[d]);
    }
  // A link holds if both ends say so.
  for (auto &[name, follower] : next)
    if (follower && previous.lookup(follower) != name)
      follower = StringAttr();
  for (auto &[name, leader] : previous)
    if (leader && next.lookup(leader) != name)
      leader = StringAttr();
  return true;
}

bool Rows::findLead(ArrayRef<Operation *> ops, std::string *why) {
  std::optional<StringAttr> first; // null: no rows
  for (Operation *op : ops)
    for (OpResult r : usedResults(op)) {
      FusionDims dims = cast<FusionOpInterface>(op).getFusionDims(r.getResultNumber());
      auto names = nn::dimNames(r);
      bool rows = !names.empty() && !llvm::is_contained(dims.mixed, 0);
      StringAttr own = rows ? names[0] : StringAttr();
      single |= dims.alone || (!rows && !names.empty());
      if (first && *first != own)
        return refuse(why, "its results have different rows");
      first = own;
    }
  if (!first)
    return refuse(why, "nobody uses its results");
  for (StringAttr name = *first; name; name = next.lookup(name)) {
    lead.push_back(name);
    count *= sizes.lookup(name);
  }
  // Rows may not be mixed by any member.
  for (Operation *op : ops)
    for (OpResult r : usedResults(op))
      for (int64_t d : cast<FusionOpInterface>(op).getFusionDims(r.getResultNumber()).mixed)
        if (llvm::is_contained(lead, nn::dimNames(r)[d]))
          return refuse(why, "an operator mixes the rows of another one");
  return true;
}

std::optional<Rows> Rows::plan(ArrayRef<Operation *> ops, std::string *why) {
  Rows rows;
  rows.one = StringAttr::get(ops.front()->getContext(), "one");
  for (Operation *op : ops) {
    auto fusable = dyn_cast<FusionOpInterface>(op);
    if (!fusable) {
      refuse(why, "it has no kernel");
      return std::nullopt;
    }
    for (OpOperand &operand : op->getOpOperands())
      if (fusable.needsWholeOperand(operand.getOperandNumber()) &&
          llvm::is_contained(ops, operand.get().getDefiningOp())) {
        refuse(why, "it needs a whole operand that the same kernel makes");
        return std::nullopt;
      }
  }
  if (!rows.addTypes(ops, why) || !rows.findLead(ops, why))
    return std::nullopt;
  if (rows.single && ops.size() > 1) {
    refuse(why, "a result without rows needs a kernel of its own");
    return std::nullopt;
  }
  return rows;
}

RankedTensorType Rows::merged(RankedTensorType type) const {
  SmallVector<std::string> names;
  SmallVector<int64_t> shape;
  StringAttr before;
  for (auto [name, size] : llvm::zip(nn::dimNames(type), type.getShape())) {
    if (before && next.lookup(before) == name) {
      names.back() += "." + name.str();
      shape.back() *= size;
    } else {
      names.push_back(name.str());
      shape.push_back(size);
    }
    before = name;
  }
  SmallVector<StringRef> refs(names.begin(), names.end());
  return nn::namedTensor(type.getElementType(), shape, refs);
}

RankedTensorType Rows::mergedResult(RankedTensorType type) const {
  RankedTensorType plain = merged(type);
  if (!none())
    return plain;
  SmallVector<int64_t> shape = {1};
  SmallVector<StringAttr> names = {one};
  llvm::append_range(shape, plain.getShape());
  llvm::append_range(names, nn::dimNames(plain));
  return nn::namedTensor(type.getElementType(), shape, names);
}

int Rows::rowDim(RankedTensorType type) const {
  if (none())
    return -1;
  RankedTensorType plain = merged(type);
  for (auto [d, name] : llvm::enumerate(nn::dimNames(plain)))
    if (name.getValue() == lead[0].getValue() ||
        name.getValue().starts_with(lead[0].getValue().str() + "."))
      return static_cast<int>(d);
  return -1;
}
