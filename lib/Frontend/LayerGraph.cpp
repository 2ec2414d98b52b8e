//===- LayerGraph.cpp - The graph of one kind of layer -----------------------===//

#include "lib/Frontend/LayerGraph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace cleave::frontend {

LayerGraph::LayerGraph(OpBuilder &builder, const LayerKind &kind, llvm::StringMap<Value> arguments)
    : builder(builder), kind(kind), arguments(std::move(arguments)) {}

Value LayerGraph::argument(StringRef name) {
  Value value = arguments.lookup(name);
  assert(value && "the layer has no argument of this name");
  return value;
}

Location LayerGraph::at(StringRef path) {
  return NameLoc::get(builder.getStringAttr(kind.name + "/" + path));
}

template <typename Op> Op LayerGraph::place(StringRef path, Op op) {
  op->setAttr("nn.path", builder.getStringAttr(path));
  return op;
}

RankedTensorType LayerGraph::tokenType(ArrayRef<StringRef> dims, Type from) {
  SmallVector<StringRef> names = {"batch", "sequence"};
  SmallVector<int64_t> shape = {ShapedType::kDynamic, ShapedType::kDynamic};
  for (StringRef dim : dims) {
    int position = nn::findDim(from, dim);
    assert(position >= 0 && "the weight lacks this dimension");
    names.push_back(dim);
    shape.push_back(cast<RankedTensorType>(from).getDimSize(position));
  }
  return nn::namedTensor(builder.getF32Type(), shape, names);
}

Value LayerGraph::add(StringRef path, Value lhs, Value rhs) {
  return place(path, nn::AddOp::create(builder, at(path), lhs.getType(), lhs, rhs));
}

Value LayerGraph::mul(StringRef path, Value lhs, Value rhs) {
  return place(path, nn::MulOp::create(builder, at(path), lhs.getType(), lhs, rhs));
}

Value LayerGraph::fill(StringRef path, Value like, double value) {
  return place(
      path, nn::FillOp::create(builder, at(path), like.getType(), builder.getF64FloatAttr(value)));
}

Value LayerGraph::embedding(StringRef path, StringRef weight, Value ids) {
  Value table = parameter(weight);
  StringRef row = nn::dimNames(table)[1].getValue();
  return place(path, nn::EmbeddingOp::create(builder, at(path), tokenType({row}, table.getType()),
                                             table, ids, Value()));
}

Value LayerGraph::linear(StringRef path, Value x, StringRef stem, ArrayRef<StringRef> dims) {
  Value weight = parameter((stem + ".weight").str());
  RankedTensorType type = tokenType(dims, weight.getType());
  Value y = place(path, nn::ContractOp::create(builder, at(path), type, x, weight));
  if (Value bias = arguments.lookup((stem + ".bias").str()))
    y = add((path + ".bias").str(), y, bias);
  return y;
}

/// One statistic for each row of `x` that `weight` spans.
static Type rowsOf(Value x, Value weight) {
  auto type = cast<RankedTensorType>(x.getType());
  unsigned rows = type.getRank() - cast<RankedTensorType>(weight.getType()).getRank();
  return nn::namedTensor(type.getElementType(), type.getShape().take_front(rows),
                         nn::dimNames(type).take_front(rows));
}

Value LayerGraph::rmsNorm(StringRef path, Value x, StringRef stem, double eps, double offset) {
  Value weight = parameter((stem + ".weight").str());
  if (offset != 0)
    weight = add((path + ".weight").str(), weight, fill((path + ".offset").str(), weight, offset));
  return place(path, nn::RmsNormOp::create(builder, at(path), x.getType(), rowsOf(x, weight), x,
                                           weight, builder.getF64FloatAttr(eps)))
      .getResult();
}

Value LayerGraph::layerNorm(StringRef path, Value x, StringRef stem, double eps) {
  Value weight = parameter((stem + ".weight").str());
  Type row = rowsOf(x, weight);
  return place(path, nn::LayerNormOp::create(builder, at(path), x.getType(), row, row, x, weight,
                                             parameter((stem + ".bias").str()),
                                             builder.getF64FloatAttr(eps)))
      .getResult();
}

Value LayerGraph::rope(StringRef path, Value x, ArrayRef<double> frequencies, bool interleaved) {
  return place(path, nn::RopeOp::create(builder, at(path), x.getType(), x, positions(),
                                        builder.getDenseF64ArrayAttr(frequencies), UnitAttr(),
                                        interleaved ? builder.getUnitAttr() : UnitAttr()));
}

Value LayerGraph::attention(StringRef path, Value query, Value key, Value value, double scale,
                            std::optional<int64_t> window, double cap) {
  auto type = cast<RankedTensorType>(query.getType());
  Type lse = nn::namedTensor(type.getElementType(), type.getShape().drop_back(),
                             nn::dimNames(type).drop_back());
  return place(path, nn::AttentionOp::create(
                         builder, at(path), type, lse, query, key, value,
                         ValueRange{positions(), positions()}, builder.getF64FloatAttr(scale),
                         window ? builder.getI64IntegerAttr(*window) : IntegerAttr(),
                         cap != 0 ? builder.getF64FloatAttr(cap) : FloatAttr(), UnitAttr()))
      .getResult();
}

Value LayerGraph::softCap(StringRef path, Value x, double cap) {
  return place(
      path, nn::SoftCapOp::create(builder, at(path), x.getType(), x, builder.getF64FloatAttr(cap)));
}

SmallVector<Value> LayerGraph::unstack(StringRef path, Value x, StringRef dim) {
  auto type = cast<RankedTensorType>(x.getType());
  int position = nn::findDim(type, dim);
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<StringAttr> names(nn::dimNames(type));
  int64_t parts = shape[position];
  shape.erase(shape.begin() + position);
  names.erase(names.begin() + position);
  Type part = nn::namedTensor(type.getElementType(), shape, names);
  auto op = place(path, nn::UnstackOp::create(builder, at(path), SmallVector<Type>(parts, part), x,
                                              builder.getStringAttr(dim)));
  return SmallVector<Value>(op.getResults());
}

Value LayerGraph::activation(StringRef path, Activation function, Value x) {
  auto tanh = function == Activation::GeluTanh ? builder.getUnitAttr() : UnitAttr();
  switch (function) {
  case Activation::Silu:
    return place(path, nn::SiluOp::create(builder, at(path), x.getType(), x));
  case Activation::Gelu:
  case Activation::GeluTanh:
    return place(path, nn::GeluOp::create(builder, at(path), x.getType(), x, tanh));
  case Activation::Relu:
    return place(path, nn::ReluOp::create(builder, at(path), x.getType(), x));
  }
  llvm_unreachable("every activation has its operator");
}

/// `type` without dimension `position`, then with `name` of `size` in its place if given.
static RankedTensorType replaced(RankedTensorType type, unsigned position,
                                 std::optional<NamedDim> by, Type element) {
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<StringAttr> names(nn::dimNames(type));
  if (by) {
    shape[position] = by->size;
    names[position] = StringAttr::get(type.getContext(), by->name);
  } else {
    shape.erase(shape.begin() + position);
    names.erase(names.begin() + position);
  }
  return nn::namedTensor(element, shape, names);
}

SmallVector<Value> LayerGraph::split(StringRef path, Value x, ArrayRef<NamedDim> parts) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<Type> types;
  for (const NamedDim &part : parts)
    types.push_back(replaced(type, type.getRank() - 1, part, type.getElementType()));
  return SmallVector<Value>(
      place(path, nn::SplitOp::create(builder, at(path), types, x)).getResults());
}

Value LayerGraph::concat(StringRef path, ArrayRef<Value> parts, const NamedDim &dim) {
  auto type = cast<RankedTensorType>(parts[0].getType());
  Type whole = replaced(type, type.getRank() - 1, dim, type.getElementType());
  return place(path, nn::ConcatOp::create(builder, at(path), whole, parts));
}

Value LayerGraph::zeros(StringRef path, Value like, const NamedDim &last) {
  auto type = cast<RankedTensorType>(like.getType());
  Type made = replaced(type, type.getRank() - 1, last, type.getElementType());
  return place(path, nn::FillOp::create(builder, at(path), made, builder.getF64FloatAttr(0.0)));
}

Value LayerGraph::keepGroups(StringRef path, Value scores, int64_t groups, int64_t keep,
                             int64_t take) {
  return place(path, nn::KeepGroupsOp::create(builder, at(path), scores.getType(), scores, groups,
                                              keep, take));
}

Value LayerGraph::normalize(StringRef path, Value x, double eps) {
  return place(path, nn::NormalizeOp::create(builder, at(path), x.getType(), x,
                                             builder.getF64FloatAttr(eps)));
}

Value LayerGraph::sigmoid(StringRef path, Value x) {
  return place(path, nn::SigmoidOp::create(builder, at(path), x.getType(), x));
}

Value LayerGraph::softmax(StringRef path, Value x) {
  return place(path, nn::SoftmaxOp::create(builder, at(path), x.getType(), x));
}

Value LayerGraph::sum(StringRef path, Value x, StringRef dim) {
  auto type = cast<RankedTensorType>(x.getType());
  Type result = replaced(type, nn::findDim(type, dim), {}, type.getElementType());
  return place(path, nn::SumOp::create(builder, at(path), result, x));
}

Value LayerGraph::topK(StringRef path, Value scores, const NamedDim &choice) {
  auto type = cast<RankedTensorType>(scores.getType());
  Type result = replaced(type, type.getRank() - 1, choice, builder.getI32Type());
  return place(path, nn::TopKOp::create(builder, at(path), result, scores));
}

Value LayerGraph::pick(StringRef path, Value x, Value index) {
  Type result = nn::withElement(cast<RankedTensorType>(index.getType()), builder.getF32Type());
  return place(path, nn::PickOp::create(builder, at(path), result, x, index));
}

Value LayerGraph::expertLinear(StringRef path, Value x, StringRef stem, Value index,
                               ArrayRef<StringRef> dims) {
  Value table = parameter((stem + ".weight").str());
  auto type = cast<RankedTensorType>(index.getType());
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<StringAttr> names(nn::dimNames(type));
  for (StringRef dim : dims) {
    shape.push_back(
        cast<RankedTensorType>(table.getType()).getDimSize(nn::findDim(table.getType(), dim)));
    names.push_back(builder.getStringAttr(dim));
  }
  Type result = nn::namedTensor(builder.getF32Type(), shape, names);
  return place(path,
               nn::ExpertContractOp::create(builder, at(path), result, x, table, index, Value()));
}

Value LayerGraph::loss(StringRef path, Value logits) {
  Type token = tokenType({}, logits.getType());
  Type scalar = nn::namedTensor(builder.getF32Type(), {}, ArrayRef<StringAttr>());
  auto each = place(path, nn::CrossEntropyOp::create(builder, at(path), token, token, logits,
                                                     argument("targets")));
  std::string sumPath = (path + ".sum").str(), scalePath = (path + ".scale").str();
  Value sum = place(sumPath, nn::SumOp::create(builder, at(sumPath), scalar, each.getLoss()));
  return mul(scalePath, sum, argument("scale"));
}

Value LayerGraph::reciprocal(StringRef path, Value x) {
  return place(path, nn::ReciprocalOp::create(builder, at(path), x.getType(), x));
}

Value LayerGraph::total(StringRef path, Value x) {
  Type scalar = nn::namedTensor(builder.getF32Type(), {}, ArrayRef<StringAttr>());
  return place(path, nn::SumOp::create(builder, at(path), scalar, x));
}

void LayerGraph::count(StringRef path, Value choices, Value layerScores) {
  auto name = [&](const char *end) { return (path + end).str(); };
  std::string own = name(".own"), sum = name(".sum");
  Type experts = loads().getType();
  Value picks = place(own, nn::CountPicksOp::create(builder, at(own), experts, choices));
  Value added = place(sum, nn::SumOp::create(builder, at(sum), experts, layerScores));
  counted = {add(name(".loads"), loads(), picks), add(name(".scores"), scores(), added)};
}

void LayerGraph::finish(Value residual, Value pending) {
  SmallVector<Value> values = {residual, pending};
  llvm::append_range(values, counted);
  func::ReturnOp::create(builder, at("return"), values);
}

void LayerGraph::finish(Value loss) { func::ReturnOp::create(builder, at("return"), loss); }

} // namespace cleave::frontend
