//===- Import.cpp - From a model's description to a module in nn -------------===//
//
// One private function per kind of layer, in order of first call, and @forward,
// which loads each layer's parameters and calls its kind: once for all layers that
// follow each other and have one kind. Depth therefore adds nothing.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/LayerGraph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

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
                               ArrayRef<StringRef>{"batch", "sequence", "model"})),
        runs(architecture.runs()) {}

  OwningOpRef<ModuleOp> run();

private:
  RankedTensorType typeOf(const Parameter &parameter);
  /// A number for each expert.
  RankedTensorType perExpert(const LayerKind &kind) {
    return nn::namedTensor(f32, {kind.balanced}, ArrayRef<StringRef>{"expert"});
  }
  SmallVector<Argument> argumentsOf(const LayerKind &kind);
  void declareParameters();
  func::FuncOp buildKind(const LayerKind &kind);
  void buildForward();
  func::FuncOp beginFunction(Location loc, StringRef name, ArrayRef<Argument> arguments,
                             ArrayRef<Type> results);
  SmallVector<Value> loadParameters(const LayerRun &run, Location loc);
  SmallVector<Value> callKind(const LayerRun &run, Location loc, ValueRange carried,
                              func::FuncOp forward);
  SmallVector<Value> callRepeatedly(const LayerRun &run, Location loc, ValueRange carried,
                                    func::FuncOp forward);

  const ModelDescription &model;
  const Architecture &architecture;
  OpBuilder builder;
  Type f32;
  RankedTensorType ids, scalar, stream;
  std::vector<LayerRun> runs;
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
  } else if (kind.role != LayerRole::Balance) {
    value("residual", stream);
    value("pending", stream);
  }
  if (kind.balanced > 0) {
    value("loads", perExpert(kind));
    value("scores", perExpert(kind));
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
  llvm::StringMap<const Parameter *> collected; // with the aliases of all uses
  for (const Parameter &parameter : model.parameters)
    collected[parameter.name] = &parameter;
  llvm::StringSet<> declared;
  for (const LayerRun &run : runs)
    for (const Parameter &local : architecture.kinds[run.first.kind].parameters) {
      std::string symbol = run.symbolOf(local);
      if (!declared.insert(symbol).second)
        continue;
      auto loc = NameLoc::get(builder.getStringAttr(symbol));
      const Parameter &parameter = *collected.lookup(run.first.nameOf(local));
      SmallVector<StringRef> aliases(parameter.aliases.begin(), parameter.aliases.end());
      nn::ParameterOp::create(
          builder, loc, symbol, typeOf(parameter), parameter.fileShape,
          llvm::APFloat(parameter.initMean), llvm::APFloat(parameter.initStd), parameter.decays(),
          aliases.empty() ? ArrayAttr() : builder.getStrArrayAttr(aliases),
          run.first.layer < 0
              ? DenseI64ArrayAttr()
              : builder.getDenseI64ArrayAttr({run.first.layer, run.count, run.step}),
          parameter.tensorPerSlice);
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

/// Notes two arguments that the function only adds up (`nn.sum`): whoever calls it may give
/// their sum and zeros.
static void noteSum(func::FuncOp function, Value lhs, Value rhs) {
  if (!lhs || !rhs || !lhs.hasOneUse() || !rhs.hasOneUse())
    return;
  Operation *user = *lhs.getUsers().begin();
  if (isa<nn::AddOp>(user) && user == *rhs.getUsers().begin() && lhs.getType() == rhs.getType())
    function->setAttr("nn.sum", DenseI64ArrayAttr::get(function.getContext(),
                                                       {cast<BlockArgument>(lhs).getArgNumber(),
                                                        cast<BlockArgument>(rhs).getArgNumber()}));
}

func::FuncOp Importer::buildKind(const LayerKind &kind) {
  const bool isTerm = kind.role == LayerRole::Head || kind.role == LayerRole::Balance;
  SmallVector<Type> results =
      isTerm ? SmallVector<Type>{scalar} : SmallVector<Type>{stream, stream};
  if (kind.role == LayerRole::Block && kind.balanced > 0)
    results.append(2, perExpert(kind));
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
  const Value residual = named.lookup("residual"), pending = named.lookup("pending");
  LayerGraph graph(builder, kind, std::move(named));
  kind.graph(graph);
  noteSum(function, residual, pending);
  return function;
}

SmallVector<Value> Importer::loadParameters(const LayerRun &run, Location loc) {
  SmallVector<Value> values;
  for (const Parameter &parameter : architecture.kinds[run.first.kind].parameters)
    values.push_back(nn::LoadOp::create(builder, loc, typeOf(parameter), run.symbolOf(parameter),
                                        nn::Slot::Value, mlir::DenseI64ArrayAttr()));
  return values;
}

/// One call of a run's kind; returns its results.
SmallVector<Value> Importer::callKind(const LayerRun &run, Location loc, ValueRange carried,
                                      func::FuncOp forward) {
  const LayerKind &kind = architecture.kinds[run.first.kind];
  SmallVector<Value> operands(carried);
  if (kind.usesPositions)
    operands.push_back(forward.getArgument(2));
  llvm::append_range(operands, loadParameters(run, loc));
  if (kind.role == LayerRole::Head)
    operands.append({forward.getArgument(1), forward.getArgument(3)});
  auto call = func::CallOp::create(builder, loc, functions[run.first.kind], operands);
  return SmallVector<Value>(call.getResults());
}

/// The same for every layer of a run of blocks.
SmallVector<Value> Importer::callRepeatedly(const LayerRun &run, Location loc, ValueRange carried,
                                            func::FuncOp forward) {
  auto repeat = nn::RepeatOp::create(
      builder, loc, TypeRange(carried), TypeRange(), builder.getI64IntegerAttr(run.count),
      ArrayAttr(), DenseI64ArrayAttr(), DenseI64ArrayAttr(), UnitAttr(),
      builder.getDenseI64ArrayAttr({run.first.layer, run.step}), carried, ValueRange());
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Location> locations(carried.size(), loc);
  Block *body = builder.createBlock(&repeat.getBody(), {}, TypeRange(carried), locations);
  nn::YieldOp::create(builder, loc, callKind(run, loc, body->getArguments(), forward));
  return SmallVector<Value>(repeat.getResults());
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
  // The tokens, then the stream; loads and scores of experts beside it.
  SmallVector<Value> stream = {forward.getArgument(0)}, counted, terms;
  for (const LayerRun &run : runs) {
    const LayerKind &kind = architecture.kinds[run.first.kind];
    bool block = run.first.layer >= 0;
    auto at = NameLoc::get(builder.getStringAttr(block ? "layers" : kind.name));
    if (kind.balanced > 0 && counted.empty())
      for (StringRef name : {"loads", "scores"})
        counted.push_back(nn::FillOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                                             perExpert(kind), builder.getF64FloatAttr(0.0)));
    SmallVector<Value> carried(kind.role == LayerRole::Balance ? ValueRange() : ValueRange(stream));
    if (kind.balanced > 0)
      llvm::append_range(carried, counted);
    // A micro-batch adds its scores, by the loads of all of them.
    if (kind.role == LayerRole::Balance)
      carried[0] =
          nn::BatchSumOp::create(builder, counted[0].getLoc(), counted[0].getType(), counted[0]);
    SmallVector<Value> results =
        block ? callRepeatedly(run, at, carried, forward) : callKind(run, at, carried, forward);
    if (kind.role == LayerRole::Head || kind.role == LayerRole::Balance) {
      // What the head returns is the loss, and comes first.
      terms.insert(kind.role == LayerRole::Head ? terms.begin() : terms.end(), results[0]);
      continue;
    }
    stream.assign(results.begin(), results.begin() + 2);
    if (kind.balanced > 0)
      counted.assign(results.begin() + 2, results.end());
  }
  func::ReturnOp::create(builder, loc, terms);
  forward.setFunctionType(
      builder.getFunctionType(forward.getArgumentTypes(), TypeRange(ValueRange(terms))));
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
  assert(model.untrained.empty() && "refuseUntrained comes first");
  context.loadDialect<nn::NNDialect, func::FuncDialect>();
  return Importer(model, context).run();
}

} // namespace cleave::frontend
