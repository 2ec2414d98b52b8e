//===- KernelHarness.h - run kernels in unit tests --------------*- C++ -*-===//
//
// Compiles the text of one kernel to an object, links it into this process and
// runs it on slices. Every run poisons the outputs with NaN, surrounds them with
// guard words, and compares random cuts of the range with the single call, bit by
// bit. Expected values come from the tests, in float64.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CPU/KernelCompiler.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace cleave::test {

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

/// The profile that this run of the tests is about: the one that the variable
/// CLEAVE_TEST_PROFILE names, else avx2. Where the processor lacks it, all tests of
/// the run are skipped.
cpu::Profile testProfile();

/// A kernel in this process.
class CompiledKernel {
public:
  /// Compiles the function `name` of `text` for `testProfile()`. On failure
  /// `ok()` is false and `errors()` has the diagnostics.
  CompiledKernel(const std::string &text, const std::string &name);
  ~CompiledKernel();

  bool ok() const { return function != nullptr; }
  const std::string &errors() const { return diagnostics; }
  void call(void *const *args, int64_t begin, int64_t end) const { function(args, begin, end); }

private:
  struct Process;
  std::unique_ptr<Process> process;
  std::string diagnostics;
  void (*function)(void *const *, int64_t, int64_t) = nullptr;
};

/// An operand of a run: floats or ints, and whether it is an output.
struct Operand {
  Floats floats;
  Ints ints;
  bool output = false;
  bool keep = false; ///< an output whose old contents matter

  size_t size() const { return ints.empty() ? floats.size() : ints.size(); }
};
Operand in(Floats values);
Operand in(Ints values);
/// An output of `size` elements that must be written in full.
Operand out(size_t size);
/// An output that is updated in place.
Operand inout(Floats values);

/// Runs the kernel over [0, space), in one call and in random cuts from several
/// threads at once; fails the test if bits differ or a guard word changes.
/// Returns the outputs in order.
std::vector<Floats> run(const CompiledKernel &kernel, int64_t space,
                        const std::vector<Operand> &operands);

/// `size` normal deviates, the same for the same seed.
Floats normal(size_t size, unsigned seed, float scale = 1);

/// Two bf16 numbers per word, rounded to nearest even (0 behind an odd number of them), and
/// back.
Ints packBf16(const Floats &values);
Floats unpackBf16(const Ints &words);

/// Expects |got - want| <= absolute + relative * |want| for every element (NaN
/// fails), with `want(i)` in float64.
void expectNear(const Floats &got, const std::function<double(size_t)> &want, double relative,
                double absolute, const std::string &what);

/// `text` with every "${key}" replaced.
std::string substitute(std::string text,
                       const std::vector<std::pair<std::string, std::string>> &values);

} // namespace cleave::test
