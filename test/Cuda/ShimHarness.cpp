//===- ShimHarness.cpp - run emitted CUDA text on the CPU -----------------===//

#include "ShimHarness.h"
#include "LinalgReference.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;

namespace cleave::test {

std::unique_ptr<MLIRContext> kernelContext() {
  auto context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect,
                       LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect, tensor::TensorDialect,
                       vector::VectorDialect>();
  context->allowUnregisteredDialects();
  return context;
}

ShimModule::ShimModule(ModuleOp kernels, const Change &change) {
  FailureOr<cuda::Text> text = cuda::emitCuda(kernels);
  if (failed(text)) {
    ADD_FAILURE() << "the kernels cannot be emitted";
    return;
  }
  emitted = std::move(*text);
  if (change)
    emitted.source = change(std::move(emitted.source));
  std::vector<std::string> names;
  for (const cuda::Launch &launch : emitted.launches)
    names.push_back(launch.kernel);
  library = ShimLibrary(emitted.source, names);
}

namespace {

constexpr size_t kGuardBytes = 64;
constexpr unsigned char kGuardByte = 0xa5;

/// A buffer aligned to 16 bytes, with a guard behind it.
class Buffer {
public:
  Buffer(RankedTensorType type, const Elements &values) : element(type.getElementType()) {
    size = values.size();
    bytes = size * (element.isBF16() ? 2 : 4);
    memory.reset(static_cast<char *>(std::aligned_alloc(64, (bytes + kGuardBytes + 63) / 64 * 64)));
    for (size_t i = 0; i < size; ++i)
      set(i, values[i]);
    std::memset(memory.get() + bytes, kGuardByte, kGuardBytes);
  }
  void *data() { return memory.get(); }
  size_t sizeInBytes() const { return bytes; }
  bool guarded() const {
    for (size_t i = 0; i < kGuardBytes; ++i)
      if (static_cast<unsigned char>(memory.get()[bytes + i]) != kGuardByte)
        return false;
    return true;
  }
  double at(size_t i) const {
    if (element.isF32())
      return read<float>(i);
    if (element.isInteger(32))
      return read<int32_t>(i);
    uint32_t bits = uint32_t(read<uint16_t>(i)) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

private:
  struct Free {
    void operator()(char *pointer) const { std::free(pointer); }
  };
  template <class T> T read(size_t i) const {
    T value;
    std::memcpy(&value, memory.get() + i * sizeof(T), sizeof(T));
    return value;
  }
  template <class T> void write(size_t i, T value) {
    std::memcpy(memory.get() + i * sizeof(T), &value, sizeof(T));
  }
  void set(size_t i, double value) {
    if (element.isF32())
      return write<float>(i, value);
    if (element.isInteger(32))
      return write<int32_t>(i, value);
    float single = value;
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof bits);
    write<uint16_t>(i, bits >> 16);
  }

  Type element;
  size_t size = 0, bytes = 0;
  std::unique_ptr<char, Free> memory;
};

/// Random contents of an argument; a destination that isn't read holds NaN.
Elements randomElements(RankedTensorType type, bool poison, bool positive, std::mt19937 &random) {
  Elements values(type.getNumElements());
  std::normal_distribution<float> normal;
  for (double &value : values) {
    if (poison)
      value = std::numeric_limits<double>::quiet_NaN();
    else if (type.getElementType().isInteger(32))
      value = int(random() % 300) - 2; // some out of every range
    else
      value = positive ? 0.1f + std::fabs(normal(random)) : normal(random);
  }
  return values;
}

std::string compare(const Buffer &got, const Elements &want, double tolerance) {
  double largest = 0;
  for (double value : want)
    largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < want.size(); ++i) {
    double difference = std::fabs(got.at(i) - want[i]);
    if (got.at(i) == want[i])
      continue; // infinities too
    if (!(difference <= tolerance * std::max(largest, 1e-3)))
      return "element " + std::to_string(i) + " is " + std::to_string(got.at(i)) +
             ", the reference has " + std::to_string(want[i]);
  }
  return "";
}

} // namespace

std::string ShimModule::check(func::FuncOp kernel, unsigned seed) const {
  const auto grid = llvm::find_if(
      emitted.launches, [&](const cuda::Launch &l) { return l.kernel == kernel.getName(); });
  if (grid == emitted.launches.end())
    return "is not in the text";
  std::mt19937 random(seed);
  bool positive = false;
  double tolerance = 3e-5; // of the largest element
  kernel.walk([&](Operation *op) {
    positive |= isa<math::SqrtOp>(op);
    if (isa<arith::TruncFOp>(op))
      tolerance = 1e-2; // bf16 has eight bits
    else if (isa<arith::SIToFPOp>(op))
      tolerance = 1e-3; // turns of a circle lose what the position's size takes
  });
  size_t outputs = kernel.getFunctionType().getNumResults();
  size_t inputs = kernel.getNumArguments() - outputs;
  std::vector<Elements> arguments;
  std::vector<Buffer> buffers;
  std::vector<Given> given;
  for (BlockArgument arg : kernel.getArguments()) {
    auto type = cast<RankedTensorType>(arg.getType());
    bool poison = arg.getArgNumber() >= inputs && arg.use_empty();
    Buffer &buffer = buffers.emplace_back(type, randomElements(type, poison, positive, random));
    Elements exact(type.getNumElements()); // as the buffer rounds them
    for (size_t i = 0; i < exact.size(); ++i)
      exact[i] = buffer.at(i);
    arguments.push_back(std::move(exact));
    given.push_back({buffer.data(), (long long)buffer.sizeInBytes()});
  }
  FailureOr<std::vector<Elements>> want = interpretKernel(kernel, arguments);
  if (failed(want))
    return "is unknown to the reference";
  if (std::string error =
          library.launch(grid->kernel, given, {grid->blocks, int(grid->threads), seed});
      !error.empty())
    return error;
  for (Buffer &buffer : buffers)
    if (!buffer.guarded())
      return "wrote behind a buffer";
  for (size_t i = 0; i < inputs; ++i)
    for (size_t at = 0; at < arguments[i].size(); ++at)
      if (buffers[i].at(at) != arguments[i][at])
        return "changed an input";
  for (size_t i = 0; i < outputs; ++i)
    if (std::string wrong = compare(buffers[inputs + i], (*want)[i], tolerance); !wrong.empty())
      return "output " + std::to_string(i) + ": " + wrong;
  return "";
}

} // namespace cleave::test
