//===- Work.cpp - What a model computes, as pieces -------------------------===//

#include "cleave/CostModel/Work.h"
#include "cleave/Analysis/Dear.h"
#include "cleave/Analysis/Layers.h"
#include "dialects/Interfaces/Interfaces.h"
#include "dialects/NN/NN.h"
#include "lib/CostModel/BodyWork.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
namespace cleave::cost {

double Cut::waysOf(const std::string &dim) const {
  auto it = ways.find(dim);
  return it == ways.end() ? 1 : it->second;
}
bool Cut::isTensor(const std::string &dim) const {
  return tensor > 1 && llvm::is_contained(tensorDims, dim);
}
double Cut::gathered(const Extents &extents) const {
  double n = 1;
  for (const Extent &e : extents) {
    auto it = open.find(e.name);
    n *= (e.size             ? static_cast<double>(e.size)
          : it == open.end() ? 1
                             : it->second) /
         waysOf(e.name);
  }
  return n;
}
double Cut::elements(const Extents &extents) const {
  const bool whole = !sequence ||
                     llvm::any_of(extents, [&](const Extent &e) { return isTensor(e.name); }) ||
                     llvm::none_of(extents, [](const Extent &e) { return e.name == "sequence"; });
  return gathered(extents) / (whole ? 1 : tensor);
}

namespace {

Extents extentsOf(Type type) {
  Extents out;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return out;
  for (auto [name, size] : llvm::zip(nn::dimNames(type), tensor.getShape()))
    out.push_back({name.str(), ShapedType::isDynamic(size) ? 0 : size});
  return out;
}

/// Reads one function of a kind.
class KindReader {
public:
  explicit KindReader(func::FuncOp function) : function(function), bodies(function) {}

  KindWork read() {
    work.name = function.getName().str();
    for (auto [i, argument] : llvm::enumerate(function.getArguments()))
      if (auto name = function.getArgAttrOfType<StringAttr>(i, "nn.parameter")) {
        parameters.insert(argument);
        work.weights.push_back({name.str(), extentsOf(argument.getType()), false});
        weightOf[argument] = work.weights.size() - 1;
      }
    if (function.getNumResults() > 0)
      work.output = extentsOf(function.getResultTypes().front());
    work.outputs = static_cast<int>(llvm::count_if(
        function.getResultTypes(), [](Type type) { return isTensorOfFloats(type); }));
    for (Operation &op : function.getBody().front().without_terminator())
      readOp(&op);
    chainPasses();
    markLastProducts();
    findKept();
    const DenseSet<Value> stream = findStream();
    auto described = [&](Value value) {
      return Saved{extentsOf(value.getType()),
                   factors.contains(value),
                   isInner(value),
                   stream.contains(value),
                   kept.contains(value),
                   value.getDefiningOp() ? pathOf(value.getDefiningOp()) : ""};
    };
    for (Value value : saved)
      work.saved.push_back(described(value));
    for (Value value : kept) {
      work.dear.push_back(described(value));
      // What is added to such a sum is not rounded either.
      work.dear.back().isStream |= llvm::any_of(value.getUsers(), [&](Operation *user) {
        return llvm::any_of(user->getResults(), [&](Value v) { return stream.contains(v); });
      });
    }
    return std::move(work);
  }

private:
  int number(Value value) {
    return numbers.try_emplace(value, static_cast<int>(numbers.size())).first->second;
  }
  static std::string pathOf(Operation *op) {
    auto path = op->getAttrOfType<StringAttr>("nn.path");
    return path ? path.str() : op->getName().getStringRef().str();
  }
  static bool isTensorOfFloats(Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() > 0 && isa<FloatType>(tensor.getElementType());
  }
  bool isActivation(Value value) const {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && isa<FloatType>(type.getElementType()) && !parameters.contains(value);
  }
  void save(Value value) {
    if (isActivation(value))
      saved.insert(value);
  }

  void readOp(Operation *op) {
    auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
    if (!sharded)
      return;
    const ShardingRule rule = sharded.getShardingRule();
    noteStatistics(op);
    if (isa<ContractionOpInterface, PickedContractionOpInterface>(op))
      return readProduct(op, rule);
    if (const SmallVector<Value> rows = comparedRows(op); !rows.empty())
      return readScores(op, rows);
    readPass(op, rule);
  }

  void readScores(Operation *op, ArrayRef<Value> rows) {
    std::optional<int64_t> window;
    if (auto given = op->getAttrOfType<IntegerAttr>("window"))
      window = given.getInt();
    work.scores.push_back({pathOf(op), extentsOf(op->getOperand(0).getType()),
                           extentsOf(rows.front().getType()), extentsOf(rows.back().getType()),
                           window});
    for (Value value : {op->getOperand(0), rows.front(), rows.back(), Value(op->getResult(0))})
      save(value);
  }

  void readProduct(Operation *op, const ShardingRule &rule) {
    Product product;
    product.path = pathOf(op);
    product.input = number(op->getOperand(0));
    const auto &left = rule.operands[0], &right = rule.operands[1], &result = rule.results[0];
    auto add = [&](Extents &to, int factor) {
      const Factor &f = rule.factors[factor];
      if (llvm::none_of(to, [&](const Extent &e) { return e.name == f.name; }))
        to.push_back({f.name, ShapedType::isDynamic(f.size) ? 0 : f.size});
    };
    for (int f : left)
      add(llvm::is_contained(result, f) ? product.rows : product.summed, f);
    for (int f : right)
      if (!llvm::is_contained(left, f)) {
        if (llvm::is_contained(result, f))
          add(product.columns, f);
        else
          product.picked = {rule.factors[f].name, rule.factors[f].size};
      }
    // Dimensions of the picking index alone: each row is made for every choice.
    for (int f : result)
      if (!llvm::is_contained(left, f) && !llvm::is_contained(right, f)) {
        add(product.rows, f);
        product.spreads = true;
      }
    product.isPicked = isa<PickedContractionOpInterface>(op);
    if (product.isPicked) {
      if (auto it = weightOf.find(op->getOperand(1)); it != weightOf.end())
        work.weights[it->second].isPicked = true;
      product.gathers = llvm::any_of(op->getUsers(), [](Operation *user) {
        return !user->getResults().empty() && !isa<PickedContractionOpInterface>(user) &&
               cast<ShapedType>(user->getResult(0).getType()).getRank() <
                   cast<ShapedType>(user->getOperand(0).getType()).getRank();
      });
    }
    for (Value operand : op->getOperands().take_front(2))
      if (isActivation(operand)) {
        save(operand);
        factors.insert(operand);
      }
    work.products.push_back(std::move(product));
    productOps.push_back(op);
  }

  /// Results behind the first that nothing reads, until a backward does.
  void noteStatistics(Operation *op) {
    for (Value result : op->getResults().drop_front(std::min<size_t>(1, op->getNumResults())))
      if (isActivation(result) && result.use_empty()) {
        work.statistics.push_back(extentsOf(result.getType()));
        if (isDear(op))
          work.dearStatistics.push_back(extentsOf(result.getType()));
        noted.push_back(result);
      }
  }

  /// What stays of all that the backward reads where dear results alone are kept: these, and what
  /// comes in. What lies behind them is done again.
  void findKept() {
    DenseSet<Operation *> again;
    SmallVector<Value> left(saved.begin(), saved.end());
    llvm::append_range(left, noted);
    // Gradients pick by the same indices.
    for (Operation &op : function.getBody().front().without_terminator())
      llvm::copy_if(op.getOperands(), std::back_inserter(left),
                    [](Value value) { return !isTensorOfFloats(value.getType()); });
    while (!left.empty()) {
      const Value value = left.pop_back_val();
      Operation *maker = value.getDefiningOp();
      if (maker && !isDear(maker)) {
        if (again.insert(maker).second)
          llvm::append_range(left, maker->getOperands());
      } else if (isActivation(value) && !llvm::is_contained(noted, value)) {
        kept.insert(value);
      }
    }
    for (auto [pass, op] : llvm::zip(work.passes, operators))
      pass.isDoneAgain = again.contains(op);
  }

  /// What comes in, what is returned, and sums of several values.
  DenseSet<Value> findStream() {
    Block &body = function.getBody().front();
    DenseSet<Value> stream(body.getTerminator()->operand_begin(),
                           body.getTerminator()->operand_end());
    stream.insert(body.args_begin(), body.args_end());
    for (Operation &op : body.without_terminator()) {
      auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
      if (sharded && llvm::any_of(sharded.getShardingRule().linear, [&](const auto &group) {
            return llvm::count_if(group, [&](int i) { return isActivation(op.getOperand(i)); }) > 1;
          }))
        stream.insert(op.result_begin(), op.result_end());
    }
    return stream;
  }

  /// From the end to the start: what is saved, and what that is made of.
  void markLastProducts() {
    DenseSet<Operation *> needed;
    for (Operation &op : llvm::reverse(function.getBody().front().without_terminator()))
      if (llvm::any_of(op.getResults(), [&](Value result) {
            return saved.contains(result) || llvm::any_of(result.getUsers(), [&](Operation *user) {
                     return needed.contains(user);
                   });
          }))
        needed.insert(&op);
    for (auto [product, op] : llvm::zip(work.products, productOps))
      product.isLast = !needed.contains(op);
  }

  /// Adding a parameter to what a product made is part of the product.
  bool isEpilogue(Operation *op) const {
    Operation *product = nullptr;
    for (Value operand : op->getOperands()) {
      if (parameters.contains(operand))
        continue;
      if (product || !operand.hasOneUse())
        return false;
      product = operand.getDefiningOp();
    }
    return product && isa<ContractionOpInterface, PickedContractionOpInterface>(product) &&
           op->getNumOperands() > 1;
  }

  void readPass(Operation *op, const ShardingRule &rule) {
    SmallVector<Value> reads;
    for (Value operand : op->getOperands())
      if (isActivation(operand))
        reads.push_back(operand);
    // Constants are made where they are used; pieces of a value are looked at in place.
    const bool isView = reads.size() == 1 && op->getNumResults() > 1 && rule.linear.size() == 1 &&
                        op->getNumOperands() == 1;
    saveOperands(op, rule);
    if (reads.empty() || isView || isEpilogue(op))
      return;
    Pass pass;
    pass.path = pathOf(op);
    pass.kind = kindOf(op, rule, reads.front());
    for (Value read : reads) {
      auto it = makers.find(read);
      pass.reads.push_back(
          {extentsOf(read.getType()), number(read), it == makers.end() ? -1 : it->second});
    }
    for (Value result : op->getResults())
      if (isActivation(result)) {
        pass.writes.push_back({extentsOf(result.getType()), number(result), -1});
        makers[result] = static_cast<int>(work.passes.size());
      }
    pass.forward = bodies.forward(op);
    pass.backward = bodies.backward(op);
    work.passes.push_back(std::move(pass));
    operators.push_back(op);
  }

  static PassKind kindOf(Operation *op, const ShardingRule &rule, Value first) {
    const auto lacks = [&](int factor) {
      return llvm::none_of(rule.results,
                           [&](const auto &result) { return llvm::is_contained(result, factor); });
    };
    if (rule.linear.empty() && llvm::any_of(rule.operands[0], lacks))
      return PassKind::Statistic;
    if (isa<FusionOpInterface>(op) &&
        (op->getNumResults() > 1 || cast<ShapedType>(first.getType()).getRank() !=
                                        cast<ShapedType>(op->getResult(0).getType()).getRank()))
      return PassKind::Tied;
    return PassKind::Elementwise;
  }

  /// An operator that is linear in an operand does not need it to go back, and needs the
  /// others it is multiplied with.
  void saveOperands(Operation *op, const ShardingRule &rule) {
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      const int index = static_cast<int>(i);
      const bool alone = llvm::any_of(
          rule.linear, [&](const auto &group) { return llvm::is_contained(group, index); });
      const bool multiplied = llvm::any_of(
          rule.linear, [&](const auto &group) { return !llvm::is_contained(group, index); });
      if (!alone || multiplied)
        save(operand);
    }
  }

  bool isInner(Value value) const {
    auto maker = makers.find(value);
    if (maker == makers.end() || !value.hasOneUse())
      return false;
    auto user = llvm::find(operators, *value.getUsers().begin());
    return user != operators.end() &&
           work.passes[user - operators.begin()].chain == work.passes[maker->second].chain;
  }

  /// Joins elementwise passes that hand values of one shape to each other alone.
  void chainPasses() {
    llvm::EquivalenceClasses<int> chains;
    for (int i = 0, e = static_cast<int>(work.passes.size()); i < e; ++i) {
      chains.insert(i);
      for (const Pass::Operand &read : work.passes[i].reads)
        if (read.maker >= 0 && work.passes[i].kind == PassKind::Elementwise &&
            work.passes[read.maker].kind == PassKind::Elementwise &&
            operators[read.maker]->getResult(0).hasOneUse())
          chains.unionSets(i, read.maker);
    }
    for (int i = 0, e = static_cast<int>(work.passes.size()); i < e; ++i)
      work.passes[i].chain = chains.getLeaderValue(i);
  }

  func::FuncOp function;
  BodyCounter bodies;
  KindWork work;
  DenseMap<Value, int> numbers, makers;
  DenseMap<Value, size_t> weightOf;
  DenseSet<Value> parameters, factors;
  SetVector<Value> saved, kept;
  /// What operators note.
  SmallVector<Value> noted;
  /// That of each pass, and of each product.
  SmallVector<Operation *> operators, productOps;
};

} // namespace

void setWidths(ModelWork &work,
               const std::function<std::optional<int>(const std::string &path)> &widthOf) {
  auto set = [&](auto &list) {
    for (auto &piece : list)
      piece.width = widthOf(piece.path);
  };
  for (KindWork &kind : work.kinds) {
    set(kind.products);
    set(kind.scores);
    set(kind.passes);
    set(kind.saved);
    set(kind.dear);
  }
}

std::optional<ModelWork> workOf(ModuleOp model) {
  auto layers = layersOf(model);
  if (!layers)
    return std::nullopt;
  ModelWork out;
  llvm::StringMap<int> known;
  for (const Layer &layer : *layers) {
    auto [it, fresh] = known.try_emplace(layer.kind, static_cast<int>(out.kinds.size()));
    if (fresh) {
      auto function = model.lookupSymbol<func::FuncOp>(layer.kind);
      if (!function || function.isExternal())
        return std::nullopt;
      out.kinds.push_back(KindReader(function).read());
    }
    out.layers.push_back(it->second);
  }
  return out;
}

} // namespace cleave::cost
