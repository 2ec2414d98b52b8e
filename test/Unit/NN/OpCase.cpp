//===- OpCase.cpp - One operator with shapes, ready to be run --------------===//

#include "OpCase.h"

#include "dialects/Dist/Dist.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>
#include <random>
#include <sstream>

using namespace mlir;
namespace cleave::test {

namespace {
/// A type in the words of a case.
struct Spec {
  enum Kind { Float, Narrow, Positive, Integer } kind = Float;
  int64_t low = 0, high = 0;
  std::vector<std::string> names;
  SmallVector<int64_t> shape;

  explicit Spec(const std::string &text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      if (word == "positive") {
        kind = Positive;
      } else if (word == "bf16") {
        kind = Narrow;
      } else if (word.rfind("int:", 0) == 0) {
        kind = Integer;
        size_t second = word.find(':', 4);
        low = std::stoll(word.substr(4, second - 4));
        high = std::stoll(word.substr(second + 1));
      } else {
        size_t equals = word.find('=');
        names.push_back(word.substr(0, equals));
        shape.push_back(std::stoll(word.substr(equals + 1)));
      }
    }
  }

  RankedTensorType type(MLIRContext *context) const {
    Type element = Float32Type::get(context);
    if (kind == Integer)
      element = IntegerType::get(context, 32);
    else if (kind == Narrow)
      element = BFloat16Type::get(context);
    SmallVector<StringRef> refs(names.begin(), names.end());
    return nn::namedTensor(element, shape, refs);
  }
};

/// Uniform in [0, 1), from the bits alone, so that every library agrees.
double uniform(std::mt19937_64 &bits) { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
} // namespace

void PrintTo(const OpCase &c, std::ostream *os) {
  *os << c.op << " " << c.attributes << " : (";
  for (const std::string &text : c.operands)
    *os << "[" << text << "]";
  *os << ") -> (";
  for (const std::string &text : c.results)
    *os << "[" << text << "]";
  *os << ")";
}

std::string caseName(const OpCase &c, size_t index) {
  std::string name = c.op + "_" + std::to_string(index);
  for (char &ch : name)
    if (!std::isalnum(static_cast<unsigned char>(ch)))
      ch = '_';
  return name;
}

std::unique_ptr<MLIRContext> makeContext() {
  auto context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<func::FuncDialect, nn::NNDialect, dist::DistDialect>();
  return context;
}

func::FuncOp openFunction(ModuleOp module, StringRef name, TypeRange arguments) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto function = func::FuncOp::create(b, module.getLoc(), name, b.getFunctionType(arguments, {}));
  function.addEntryBlock();
  return function;
}

void closeFunction(func::FuncOp function, ValueRange values) {
  OpBuilder b = OpBuilder::atBlockEnd(&function.getBody().back());
  func::ReturnOp::create(b, function.getLoc(), values);
  function.setFunctionType(b.getFunctionType(function.getArgumentTypes(), values.getTypes()));
}

Program buildProgram(MLIRContext &context, const OpCase &c) {
  Program p;
  Location loc = UnknownLoc::get(&context);
  p.module = ModuleOp::create(loc);
  SmallVector<Type> operands, results;
  for (const std::string &text : c.operands)
    operands.push_back(Spec(text).type(&context));
  for (const std::string &text : c.results)
    results.push_back(Spec(text).type(&context));
  p.function = openFunction(*p.module, "f", operands);
  OpBuilder b = OpBuilder::atBlockEnd(&p.function.getBody().back());
  auto attributes = cast<DictionaryAttr>(parseAttribute(c.attributes, &context));
  OperationState state(loc, c.op, p.function.getArguments(), results, attributes.getValue());
  p.op = b.create(state);
  closeFunction(p.function, p.op->getResults());
  if (failed(verify(*p.module)))
    p.op = nullptr;
  return p;
}

HostTensor randomTensor(ArrayRef<int64_t> shape, unsigned seed) {
  std::mt19937_64 bits(seed);
  HostTensor t(shape);
  for (double &x : t.data)
    x = 3 * uniform(bits) - 1.5;
  return t;
}

std::vector<HostTensor> randomOperands(const OpCase &c, unsigned seed) {
  std::vector<HostTensor> out;
  for (const std::string &text : c.operands) {
    Spec spec(text);
    HostTensor t = randomTensor(spec.shape, seed + 1000 * out.size() + 17);
    for (double &x : t.data) {
      double unit = (x + 1.5) / 3;
      if (spec.kind == Spec::Positive)
        x = 0.25 + unit;
      if (spec.kind == Spec::Narrow)
        x = std::round(x * 64) / 64; // a bf16
      if (spec.kind == Spec::Integer)
        x = std::floor(spec.low + unit * (spec.high - spec.low + 1));
    }
    out.push_back(std::move(t));
  }
  return out;
}

std::vector<HostTensor> run(func::FuncOp function, const std::vector<HostTensor> &arguments) {
  std::vector<RankTensors> in;
  for (const HostTensor &t : arguments)
    in.push_back({t});
  StateStore state;
  auto results = interpret(function, in, state);
  std::vector<HostTensor> out;
  if (failed(results)) {
    ADD_FAILURE() << "the function could not be interpreted";
    return out;
  }
  for (RankTensors &value : *results)
    out.push_back(std::move(value[0]));
  return out;
}

std::vector<HostTensor> runCase(const OpCase &c, const std::vector<HostTensor> &operands) {
  auto context = makeContext();
  Program p = buildProgram(*context, c);
  if (!p.op) {
    ADD_FAILURE() << c.op << " does not verify";
    return {};
  }
  return run(p.function, operands);
}

void expectClose(const HostTensor &got, const HostTensor &want, double tolerance,
                 const std::string &what) {
  ASSERT_EQ(std::vector<int64_t>(got.shape.begin(), got.shape.end()),
            std::vector<int64_t>(want.shape.begin(), want.shape.end()))
      << what;
  for (int64_t i = 0; i < want.size(); ++i) {
    double limit = tolerance * (1 + std::abs(want.data[i]));
    if (!(std::abs(got.data[i] - want.data[i]) <= limit)) {
      ADD_FAILURE() << what << ": element " << i << " is " << got.data[i] << ", not "
                    << want.data[i];
      return;
    }
  }
}

} // namespace cleave::test
