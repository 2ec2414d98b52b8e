//===- Import.cpp - From a model's description to a module in nn -------------===//
//
// One private function per kind of layer, in order of first call, and @forward,
// which loads each layer's parameters and calls its kind. Depth therefore adds
// calls, not bodies.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/LayerGraph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace cleave::frontend {

namespace {

/// A named argument of a kind's function.
struct Argument {
  StringRef name;
  Type type;
  bool isParameter;
};

class Importer {
public:
  Importer(const ModelDescription &model, MLIRContext &context)
      : model(model), architecture(*model.architecture), builder(&context),
        f32(builder.getF32Type()),
        ids(nn::namedTensor(builder.getI32Type(), {ShapedType::kDynamic, ShapedType::kDynamic},
                            ArrayRef<StringRef>{"batch", "sequence"})),
        scalar(nn::namedTensor(f32, {}, ArrayRef<StringRef>())),
        stream(nn::namedTensor(f32,
                               {ShapedType::kDynamic, ShapedType::kDynamic, model.sizes.hiddenSize},
                               ArrayRef<StringRef>{"batch", "sequence", "model"})) {}

  OwningOpRef<ModuleOp> run();

private:
  RankedTensorType typeOf(const Parameter &parameter);
  SmallVector<Argument> argumentsOf(const LayerKind &kind);
  void declareParameters();
  func::FuncOp buildKind(const LayerKind &kind);
  void buildForward();
  func::FuncOp beginFunction(Location loc, StringRef name, ArrayRef<Argument> arguments,
                             ArrayRef<Type> results);
  SmallVector<Value> loadParameters(const LayerCall &call, Location loc);

  const ModelDescription &model;
  const Architecture &architecture;
  OpBuilder builder;
  Type f32;
  RankedTensorType ids, scalar, stream;
  SmallVector<func::FuncOp> functions;
};

RankedTensorType Importer::typeOf(const Parameter &parameter) {
  SmallVector<int64_t> shape;
  SmallVector<StringRef> names;
  for (const NamedDim &dim : parameter.dims) {
    shape.push_back(dim.size);
    names.push_back(dim.name);
  }
  return nn::namedTensor(f32, shape, names);
}

SmallVector<Argument> Importer::argumentsOf(const LayerKind &kind) {
  SmallVector<Argument> arguments;
  auto value = [&](StringRef name, Type type) { arguments.push_back({name, type, false}); };
  if (kind.role == LayerRole::Embed) {
    value("tokens", ids);
  } else {
    value("residual", stream);
    value("pending", stream);
  }
  if (kind.usesPositions)
    value("positions", ids);
  for (const Parameter &parameter : kind.parameters)
    arguments.push_back({parameter.name, typeOf(parameter), true});
  if (kind.role == LayerRole::Head) {
    value("targets", ids);
    value("scale", scalar);
  }
  return arguments;
}

void Importer::declareParameters() {
  for (const Parameter &parameter : model.parameters) {
    auto loc = NameLoc::get(builder.getStringAttr(parameter.name));
    SmallVector<StringRef> aliases(parameter.aliases.begin(), parameter.aliases.end());
    nn::ParameterOp::create(builder, loc, parameter.name, typeOf(parameter), parameter.fileShape,
                            llvm::APFloat(parameter.initMean), llvm::APFloat(parameter.initStd),
                            parameter.decays(),
                            aliases.empty() ? ArrayAttr() : builder.getStrArrayAttr(aliases));
  }
}

func::FuncOp Importer::beginFunction(Location loc, StringRef name, ArrayRef<Argument> arguments,
                                     ArrayRef<Type> results) {
  SmallVector<Type> types;
  for (const Argument &argument : arguments)
    types.push_back(argument.type);
  auto function = func::FuncOp::create(builder, loc, name, builder.getFunctionType(types, results));
  Block *entry = function.addEntryBlock();
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    function.setArgAttr(i, argument.isParameter ? "nn.parameter" : "nn.name",
                        builder.getStringAttr(argument.name));
    entry->getArgument(i).setLoc(NameLoc::get(builder.getStringAttr(name + "/" + argument.name)));
  }
  return function;
}

func::FuncOp Importer::buildKind(const LayerKind &kind) {
  SmallVector<Type> results =
      kind.role == LayerRole::Head ? SmallVector<Type>{scalar} : SmallVector<Type>{stream, stream};
  SmallVector<Argument> arguments = argumentsOf(kind);
  auto function =
      beginFunction(NameLoc::get(builder.getStringAttr(kind.name)), kind.name, arguments, results);
  function.setPrivate();
  function->setAttr("nn.kind", builder.getStringAttr(kind.name));
  llvm::StringMap<Value> named;
  for (auto [i, argument] : llvm::enumerate(arguments))
    named[argument.name] = function.getArgument(i);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&function.front());
  LayerGraph graph(builder, kind, std::move(named));
  kind.graph(graph);
  return function;
}

SmallVector<Value> Importer::loadParameters(const LayerCall &call, Location loc) {
  SmallVector<Value> values;
  for (const Parameter &parameter : architecture.kinds[call.kind].parameters)
    values.push_back(nn::LoadOp::create(builder, loc, typeOf(parameter),
                                        call.prefix + parameter.name, nn::Slot::Value));
  return values;
}

void Importer::buildForward() {
  SmallVector<Argument> arguments = {{"tokens", ids, false},
                                     {"targets", ids, false},
                                     {"positions", ids, false},
                                     {"scale", scalar, false}};
  auto loc = NameLoc::get(builder.getStringAttr("forward"));
  auto forward = beginFunction(loc, "forward", arguments, {scalar});
  forward->setAttr("nn.entry", builder.getStringAttr("forward"));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&forward.front());
  Value tokens = forward.getArgument(0), targets = forward.getArgument(1),
        positions = forward.getArgument(2), scale = forward.getArgument(3);
  SmallVector<Value> carried = {tokens};
  for (const LayerCall &call : architecture.calls) {
    const LayerKind &kind = architecture.kinds[call.kind];
    std::string place = call.layer < 0 ? kind.name : "layers." + std::to_string(call.layer);
    auto at = NameLoc::get(builder.getStringAttr(place));
    SmallVector<Value> operands = carried;
    if (kind.usesPositions)
      operands.push_back(positions);
    llvm::append_range(operands, loadParameters(call, at));
    if (kind.role == LayerRole::Head)
      operands.append({targets, scale});
    auto result = func::CallOp::create(builder, at, functions[call.kind], operands);
    if (call.layer >= 0)
      result->setAttr("nn.layer", builder.getI64IntegerAttr(call.layer));
    carried.assign(result.result_begin(), result.result_end());
  }
  func::ReturnOp::create(builder, loc, carried);
}

OwningOpRef<ModuleOp> Importer::run() {
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(FileLineColLoc::get(builder.getStringAttr(model.file), 1, 1));
  Operation *op = *module;
  op->setAttr("nn.family", builder.getStringAttr(model.family));
  op->setAttr("nn.max_positions", builder.getI64IntegerAttr(model.sizes.maxPositions));
  op->setAttr("nn.vocab", builder.getI64IntegerAttr(model.sizes.vocabSize));
  builder.setInsertionPointToEnd(module->getBody());
  declareParameters();
  for (const LayerKind &kind : architecture.kinds)
    functions.push_back(buildKind(kind));
  buildForward();
  return module;
}

} // namespace

OwningOpRef<ModuleOp> importModel(const ModelDescription &model, MLIRContext &context) {
  context.loadDialect<nn::NNDialect, func::FuncDialect>();
  return Importer(model, context).run();
}

} // namespace cleave::frontend
