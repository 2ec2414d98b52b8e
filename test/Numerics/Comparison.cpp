//===- Comparison.cpp - Is one step the same as another? -------------------===//

#include "Comparison.h"
#include <cmath>
#include <ostream>

namespace cleave::test {

static constexpr double kTolerance = 1e-9;

bool agrees(double a, double b) {
  return std::fabs(a - b) <= kTolerance * std::max(1.0, std::fabs(b));
}

static void expectEqual(const std::map<std::string, HostTensor> &some,
                        const std::map<std::string, HostTensor> &others) {
  ASSERT_EQ(some.size(), others.size());
  for (const auto &[name, tensor] : others) {
    const HostTensor &other = some.at(name);
    ASSERT_EQ(other.data.size(), tensor.data.size()) << name;
    for (size_t i = 0; i < tensor.data.size(); ++i)
      ASSERT_PRED2(agrees, other.data[i], tensor.data[i]) << name << "[" << i << "]";
  }
}

/// A gradient that is rounding alone may take either sign, and Adam's first step is
/// its sign.
static void expectEqualUpdate(const StepResult &step, const StepResult &one) {
  ASSERT_EQ(step.values.size(), one.values.size());
  for (const auto &[name, value] : one.values)
    for (size_t i = 0; i < value.data.size(); ++i)
      if (std::fabs(one.gradients.at(name).data[i]) > 1e-6)
        ASSERT_NEAR(step.values.at(name).data[i], value.data[i], kTolerance)
            << name << "[" << i << "]";
}

void expectEqualGradients(const StepResult &step, const StepResult &one) {
  EXPECT_PRED2(agrees, step.loss, one.loss);
  EXPECT_PRED2(agrees, step.objective, one.objective);
  EXPECT_PRED2(agrees, step.norm, one.norm);
  expectEqual(step.gradients, one.gradients);
}

void expectEqual(const StepResult &step, const StepResult &one) {
  expectEqualGradients(step, one);
  expectEqualUpdate(step, one);
}

const StepResult &oneRank(const std::string &model) {
  static std::map<std::string, StepResult> cache;
  auto it = cache.find(model);
  if (it == cache.end())
    it = cache.emplace(model, runStep0(model, {"one rank"})).first;
  return it->second;
}

void PrintTo(const Layout &layout, std::ostream *os) { *os << layout.name; }

} // namespace cleave::test
