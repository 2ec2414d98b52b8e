//===- KernelHarness.cpp - run kernels in unit tests ----------------------===//

#include "KernelHarness.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/raw_ostream.h"
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <thread>

namespace cleave::test {

cpu::Profile testProfile() {
  const char *name = std::getenv("CLEAVE_TEST_PROFILE");
  return name ? *cpu::Profile::byName(name) : cpu::Profile::avx2();
}

namespace {
class SkipsWhatTheProcessorLacks : public testing::Environment {
  void SetUp() override {
    const bool avx512 = testProfile().lanes == 16, bf16 = testProfile().roundsToBF16;
    // CTest finds the mark; the library prints none of its own here.
    if ((avx512 ? !__builtin_cpu_supports("x86-64-v4") : !__builtin_cpu_supports("x86-64-v3")) ||
        (bf16 && !__builtin_cpu_supports("avx512bf16")))
      GTEST_SKIP() << "[  SKIPPED ] this processor lacks " << testProfile().name;
  }
};
testing::Environment *const skips =
    testing::AddGlobalTestEnvironment(new SkipsWhatTheProcessorLacks);
} // namespace

struct CompiledKernel::Process {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

CompiledKernel::CompiledKernel(const std::string &text, const std::string &name) {
  mlir::DialectRegistry registry;
  cpu::registerKernelDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream(diagnostics) << diagnostic.str() << "\n";
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return;
  auto object = cpu::compileObject(*module, testProfile());
  if (mlir::failed(object))
    return;
  process = std::make_unique<Process>();
  process->jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(process->jit->addObjectFile(std::move(*object)));
  auto symbol = process->jit->lookup(name);
  if (!symbol) {
    diagnostics += llvm::toString(symbol.takeError());
    return;
  }
  function = symbol->toPtr<void (*)(void *const *, int64_t, int64_t)>();
}

CompiledKernel::~CompiledKernel() = default;

Operand in(Floats values) { return {std::move(values), {}, false, false}; }
Operand in(Ints values) { return {{}, std::move(values), false, false}; }
Operand out(size_t size) {
  return {Floats(size, std::numeric_limits<float>::quiet_NaN()), {}, true, false};
}
Operand inout(Floats values) { return {std::move(values), {}, true, true}; }

namespace {

constexpr size_t kGuard = 64;
constexpr uint32_t kGuardBits = 0x7fa5c3e1; // a NaN: reading it shows too

/// Buffers for one run, each between guard words and at an odd alignment.
struct Memory {
  std::vector<std::vector<uint32_t>> buffers;
  std::vector<void *> args;

  explicit Memory(const std::vector<Operand> &operands) {
    for (const Operand &operand : operands) {
      auto &buffer = buffers.emplace_back(operand.size() + 2 * kGuard + 1, kGuardBits);
      const void *source = operand.ints.empty() ? static_cast<const void *>(operand.floats.data())
                                                : operand.ints.data();
      std::memcpy(&buffer[kGuard], source, 4 * operand.size());
    }
    for (auto &buffer : buffers)
      args.push_back(&buffer[kGuard]);
  }

  void expectGuards(const std::vector<Operand> &operands) const {
    for (size_t i = 0; i < operands.size(); ++i) {
      size_t size = operands[i].size();
      for (size_t k = 0; k < kGuard; ++k) {
        ASSERT_EQ(buffers[i][k], kGuardBits) << "operand " << i << ": written before its begin";
        ASSERT_EQ(buffers[i][kGuard + size + k], kGuardBits)
            << "operand " << i << ": written past its end";
      }
      const void *source = operands[i].ints.empty()
                               ? static_cast<const void *>(operands[i].floats.data())
                               : operands[i].ints.data();
      if (!operands[i].output)
        ASSERT_EQ(std::memcmp(&buffers[i][kGuard], source, 4 * size), 0)
            << "input " << i << " was written";
    }
  }
};

/// Cuts [0, space) at random places, one slice per thread at a time.
void runInCuts(const CompiledKernel &kernel, int64_t space, Memory &memory, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<int64_t, int64_t>> cuts;
  for (int64_t begin = 0; begin < space;) {
    int64_t most = seed % 2 ? 5 : std::max<int64_t>(1, space / 3);
    int64_t end = std::min<int64_t>(space, begin + 1 + int64_t(random() % most));
    cuts.push_back({begin, end});
    begin = end;
  }
  std::shuffle(cuts.begin(), cuts.end(), random);
  auto work = [&](size_t first) {
    for (size_t i = first; i < cuts.size(); i += 2)
      kernel.call(memory.args.data(), cuts[i].first, cuts[i].second);
  };
  std::thread other(work, 1);
  work(0);
  other.join();
}

} // namespace

std::vector<Floats> run(const CompiledKernel &kernel, int64_t space,
                        const std::vector<Operand> &operands) {
  std::vector<Floats> results;
  if (!kernel.ok()) {
    ADD_FAILURE() << "the kernel was not compiled: " << kernel.errors();
    for (const Operand &operand : operands)
      if (operand.output)
        results.push_back(operand.floats);
    return results;
  }
  Memory whole(operands);
  kernel.call(whole.args.data(), 0, space);
  kernel.call(whole.args.data(), space, space); // nothing to do
  whole.expectGuards(operands);
  for (unsigned seed = 0; seed < 4; ++seed) {
    Memory parts(operands);
    runInCuts(kernel, space, parts, seed);
    parts.expectGuards(operands);
    for (size_t i = 0; i < operands.size(); ++i)
      EXPECT_EQ(parts.buffers[i], whole.buffers[i])
          << "operand " << i << " depends on how the range is cut (seed " << seed << ")";
  }
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].output) {
      Floats values(operands[i].size());
      std::memcpy(values.data(), &whole.buffers[i][kGuard], 4 * values.size());
      results.push_back(std::move(values));
    }
  return results;
}

Floats normal(size_t size, unsigned seed, float scale) {
  std::mt19937 random(seed + 1);
  std::normal_distribution<float> distribution;
  Floats values(size);
  for (float &value : values)
    value = scale * distribution(random);
  return values;
}

Ints packBf16(const Floats &values) {
  Ints words((values.size() + 1) / 2);
  auto half = [](float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  };
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = int32_t(half(values[2 * i]) |
                       (2 * i + 1 < values.size() ? half(values[2 * i + 1]) : 0) << 16);
  return words;
}

Floats unpackBf16(const Ints &words) {
  Floats values;
  for (int32_t word : words) {
    values.push_back(std::bit_cast<float>(uint32_t(word) << 16));
    values.push_back(std::bit_cast<float>(uint32_t(word) & 0xffff0000u));
  }
  return values;
}

void expectNear(const Floats &got, const std::function<double(size_t)> &want, double relative,
                double absolute, const std::string &what) {
  size_t shown = 0;
  for (size_t i = 0; i < got.size() && shown < 5; ++i) {
    double expected = want(i), difference = std::abs(double(got[i]) - expected);
    if (!(difference <= absolute + relative * std::abs(expected))) {
      ADD_FAILURE() << what << "[" << i << "] is " << got[i] << ", not " << expected;
      ++shown;
    }
  }
}

std::string substitute(std::string text,
                       const std::vector<std::pair<std::string, std::string>> &values) {
  for (const auto &[key, value] : values) {
    std::string mark = "${" + key + "}";
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
      text.replace(at, mark.size(), value);
  }
  return text;
}

} // namespace cleave::test
