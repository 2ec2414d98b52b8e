//===- FusionHarness.cpp - Run a function by its kernels ------------------===//

#include "FusionHarness.h"
#include "mlir/Parser/Parser.h"
#include "test/Unit/Target/CPU/KernelHarness.h"
#include <bit>
#include <gtest/gtest.h>
#include <map>

using namespace mlir;
namespace cleave::test {

std::vector<std::string> Fused::groupNames() const {
  std::vector<std::string> names;
  for (const KernelGroup &group : groups) {
    std::string &name = names.emplace_back();
    for (Operation *op : group.ops)
      name += (name.empty() ? "" : " ") + op->getName().getStringRef().str();
  }
  return names;
}

void fuse(Fused &fused) {
  fused.kernels = ModuleOp::create(UnknownLoc::get(fused.module->getContext()));
  decideFusion(fused.function.front());
  KernelTable table(*fused.kernels);
  auto groups = outlineKernels(fused.function.front(), table);
  if (failed(groups))
    ADD_FAILURE() << "the function could not be outlined";
  else
    fused.groups = std::move(*groups);
}

static Fused parse(const std::string &text) {
  Fused fused;
  fused.context = makeContext();
  fused.module = parseSourceString<ModuleOp>(text, fused.context.get());
  if (fused.module)
    fused.function = fused.module->lookupSymbol<func::FuncOp>("f");
  if (!fused.function)
    ADD_FAILURE() << "no function @f could be read";
  return fused;
}

Fused fuse(const std::string &text) {
  Fused fused = parse(text);
  if (fused.function)
    fuse(fused);
  return fused;
}

/// Two bf16 in each word; what is no bf16 fails the test.
static Ints packed(const HostTensor &tensor) {
  Ints words((tensor.data.size() + 1) / 2, 0);
  for (auto [i, x] : llvm::enumerate(tensor.data)) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
    EXPECT_EQ(bits & 0xffff, 0u) << x << " is no bf16";
    words[i / 2] =
        static_cast<int32_t>(static_cast<uint32_t>(words[i / 2]) | (i % 2 ? bits : bits >> 16));
  }
  return words;
}

static Operand operandOf(const HostTensor &tensor, Type element) {
  if (element.isBF16())
    return in(packed(tensor));
  if (element.isInteger(32))
    return in(Ints(tensor.data.begin(), tensor.data.end()));
  return in(Floats(tensor.data.begin(), tensor.data.end()));
}

static HostTensor tableOf(DenseElementsAttr table) {
  HostTensor tensor(table.getType().getShape());
  for (auto [x, value] : llvm::zip(tensor.data, table.getValues<APFloat>()))
    x = value.convertToDouble();
  return tensor;
}

namespace {
/// The values of a function while its kernels run.
class Machine {
public:
  Machine(Fused &fused, int64_t coordinate) : fused(fused), coordinate(coordinate) {}

  void set(Value value, HostTensor tensor) { values[value] = std::move(tensor); }
  const HostTensor &get(Value value) { return values.at(value); }

  void run(const KernelGroup &group) {
    std::vector<Operand> operands;
    for (const KernelInput &input : group.inputs)
      operands.push_back(
          input.value ? operandOf(get(input.value), elementOf(input.value))
                      : operandOf(extraOf(*input.extra), input.extra->type.getElementType()));
    for (const KernelOutput &output : group.outputs) {
      size_t size = cast<RankedTensorType>(output.value.getType()).getNumElements();
      if (elementOf(output.value).isBF16())
        size = (size + 1) / 2;
      Operand operand = out(size);
      if (output.inPlace) {
        const auto &old = get(output.inPlace).data;
        operand = inout(Floats(old.begin(), old.end()));
      }
      operands.push_back(operand);
    }
    auto results = test::run(compiled(group.symbol), group.extent, operands);
    for (auto [output, floats] : llvm::zip(group.outputs, results)) {
      HostTensor tensor(cast<RankedTensorType>(output.value.getType()).getShape());
      bool integers = elementOf(output.value).isInteger(32);
      bool narrow = elementOf(output.value).isBF16();
      for (auto [i, to] : llvm::enumerate(tensor.data)) {
        const float from = floats[narrow ? i / 2 : i];
        const auto bits = std::bit_cast<uint32_t>(from);
        to = integers ? std::bit_cast<int32_t>(from)
             : narrow ? std::bit_cast<float>(i % 2 ? bits & 0xffff0000 : bits << 16)
                      : from;
      }
      set(output.value, tensor);
    }
  }

private:
  static Type elementOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  }
  HostTensor extraOf(const BodyInput &extra) const {
    return extra.table ? tableOf(extra.table) : HostTensor({}, static_cast<double>(coordinate));
  }
  const CompiledKernel &compiled(const std::string &symbol) {
    auto &kernel = kernels[symbol];
    if (!kernel) {
      std::string text;
      llvm::raw_string_ostream out(text);
      fused.kernels->lookupSymbol(symbol)->print(out, OpPrintingFlags().useLocalScope());
      kernel = std::make_unique<CompiledKernel>(text, symbol);
    }
    return *kernel;
  }

  Fused &fused;
  int64_t coordinate;
  std::map<std::string, std::unique_ptr<CompiledKernel>> kernels;
  llvm::DenseMap<Value, HostTensor> values;
};
} // namespace

std::vector<HostTensor> runKernels(Fused &fused, const std::vector<HostTensor> &arguments,
                                   int64_t coordinate) {
  Machine machine(fused, coordinate);
  for (auto [argument, tensor] : llvm::zip(fused.function.getArguments(), arguments))
    machine.set(argument, tensor);
  for (const KernelGroup &group : fused.groups)
    machine.run(group);
  std::vector<HostTensor> results;
  for (Value v : fused.function.front().getTerminator()->getOperands())
    results.push_back(machine.get(v));
  return results;
}

std::vector<HostTensor> asFloats(std::vector<HostTensor> tensors) {
  for (HostTensor &tensor : tensors)
    for (double &x : tensor.data)
      x = static_cast<float>(x);
  return tensors;
}

Fused expectSameAsInterpreter(const std::string &text, double tolerance, int64_t integers) {
  Fused fused = parse(text);
  std::vector<HostTensor> operands;
  for (Type type : fused.function.getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    operands.push_back(randomTensor(tensor.getShape(), 31 + operands.size()));
    if (tensor.getElementType().isInteger(32))
      for (double &x : operands.back().data)
        x = std::floor((x + 1.5) / 3 * static_cast<double>(integers));
  }
  operands = asFloats(operands);
  auto want = run(fused.function, operands);
  fuse(fused);
  auto got = runKernels(fused, operands);
  for (auto [i, tensor] : llvm::enumerate(want))
    expectClose(got[i], tensor, tolerance, "result " + std::to_string(i));
  return fused;
}

} // namespace cleave::test
