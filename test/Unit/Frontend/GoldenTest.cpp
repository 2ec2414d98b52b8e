// The imported graphs mean what PyTorch computes: step 0 of the golden
// trajectories (test/golden), in float64 by the interpreter. Loss,
// logits and the norm of the residual stream before every layer.
#include "TestConfigs.h"

#include "cleave/Interpreter/Interpreter.h"
#include "cleave/Transforms/Sizes/Sizes.h"
#include "dialects/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>
#include <cstring>
#include <set>

using namespace cleave;
using namespace cleave::frontend;
using namespace cleave::frontend::test;
using namespace mlir;

namespace {

constexpr int64_t kBatch = 8, kSequence = 32;

std::string goldenFile(const std::string &model, const std::string &file) {
  return std::string(CLEAVE_TEST_GOLDEN) + "/" + model + "/" + file;
}

std::string contents(const std::string &path) {
  auto text = rt::readWholeFile(path);
  EXPECT_TRUE(text.ok()) << path;
  return text.ok() ? *text : "";
}

/// The float32 tensors of a safetensors file, as parameters see them: a header
/// of JSON behind its length, then the tensors' bytes.
StateStore readWeights(const ModelDescription &model, const std::string &path) {
  const std::string file = contents(path);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const rt::JsonValue header = json(file.substr(8, length));
  StateStore store;
  for (const Parameter &p : model.parameters) {
    const rt::JsonValue *entry = header.find(p.name);
    EXPECT_TRUE(entry) << p.name;
    if (!entry)
      continue;
    std::vector<int64_t> fileShape;
    for (const rt::JsonValue &size : entry->find("shape")->elements())
      fileShape.push_back(size.integer());
    EXPECT_EQ(fileShape, p.fileShape) << p.name;
    SmallVector<int64_t> shape;
    for (const NamedDim &dim : p.dims)
      shape.push_back(dim.size);
    HostTensor tensor(shape);
    const int64_t begin = entry->find("data_offsets")->elements()[0].integer();
    for (int64_t i = 0; i < tensor.size(); ++i) {
      float value = 0;
      std::memcpy(&value, file.data() + 8 + length + begin + 4 * i, sizeof value);
      tensor.data[i] = value;
    }
    store.set(p.name, "value", {std::move(tensor)});
  }
  size_t tensors = 0;
  for (const rt::JsonMember &member : header.members())
    tensors += member.key != "__metadata__";
  EXPECT_EQ(tensors, model.parameters.size());
  return store;
}

/// Tokens (`shift` 0) or targets (`shift` 1) of the first global batch.
HostTensor readTokens(const std::string &path, int64_t shift) {
  const std::string file = contents(path);
  HostTensor tensor({kBatch, kSequence});
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint16_t token = 0;
    std::memcpy(&token, file.data() + 2 * (i + shift), sizeof token);
    tensor.data[i] = token;
  }
  return tensor;
}

class GoldenTest : public testing::TestWithParam<const char *> {};

TEST_P(GoldenTest, stepZeroAgreesWithPyTorch) {
  const std::string name = GetParam();
  auto model = readModel(std::string(CLEAVE_TEST_GOLDEN) + "/" + name);
  ASSERT_TRUE(model.ok());
  const rt::JsonValue expected = json(contents(goldenFile(name, "expected.json")));
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importModel(*model, context);
  ASSERT_TRUE(succeeded(specializeSizes(*module, {{"batch", kBatch}, {"sequence", kSequence}})));
  StateStore state = readWeights(*model, goldenFile(name, "model.safetensors"));
  HostTensor positions({kBatch, kSequence});
  for (int64_t i = 0; i < positions.size(); ++i)
    positions.data[i] = static_cast<double>(i % kSequence);
  const std::string tokens = goldenFile(name, "tokens.bin");

  std::vector<double> norms, logits;
  InterpreterOptions options;
  options.observer = [&](Operation *op, ArrayRef<const RankTensors *> results,
                         ArrayRef<Iteration>) {
    auto path = op->getAttrOfType<StringAttr>("nn.path");
    if (!path)
      return;
    const std::vector<double> &x = (*results[0])[0].data;
    if (path == "attention.residual" || path == "head.residual") {
      double squares = 0;
      for (double v : x)
        squares += v * v;
      norms.push_back(std::sqrt(squares));
    }
    if (path.getValue().starts_with("head.logits")) {
      const size_t vocab = x.size() / (kBatch * kSequence);
      logits.assign(x.begin() + (kSequence - 1) * vocab, x.begin() + kSequence * vocab);
    }
  };
  auto results = interpret(module->lookupSymbol<func::FuncOp>("forward"),
                           {{readTokens(tokens, 0)},
                            {readTokens(tokens, 1)},
                            {positions},
                            {HostTensor({}, 1.0 / (kBatch * kSequence))}},
                           state, options);
  ASSERT_TRUE(succeeded(results));
  const double loss = expected.find("steps")->elements()[0].find("loss")->number();
  EXPECT_NEAR((*results)[0][0].data[0], loss, 1e-12);

  const rt::JsonValue &step = *expected.find("step0");
  const auto &expectedNorms = step.find("residual_norms")->elements();
  ASSERT_EQ(norms.size(), expectedNorms.size());
  for (size_t i = 0; i < norms.size(); ++i)
    EXPECT_NEAR(norms[i], expectedNorms[i].number(), 1e-11) << "before layer " << i;
  const auto &expectedLogits = step.find("logits_first_sequence_last_position")->elements();
  ASSERT_EQ(logits.size(), expectedLogits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    EXPECT_NEAR(logits[i], expectedLogits[i].number(), 1e-12) << "token " << i;
}

INSTANTIATE_TEST_SUITE_P(, GoldenTest,
                         testing::Values("t0", "t0-tied", "t0-llama31-rope", "t0-vocab251",
                                         "gpt2-mini", "mistral-mini", "qwen2-mini", "qwen3-mini",
                                         "olmo2-mini", "gemma-mini", "gemma2-mini", "gemma3-mini",
                                         "phi3-mini", "gpt-neox-mini", "phi-mini",
                                         "mistral-window-mini", "qwen2-yarn-mini"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Golden, decayFollowsTheGoldenList) {
  for (const char *name : {"t0", "t0-tied", "gpt2-mini", "gpt-oss-mini"}) {
    auto model = readModel(std::string(CLEAVE_TEST_GOLDEN) + "/" + name);
    ASSERT_TRUE(model.ok());
    const rt::JsonValue expected = json(contents(goldenFile(name, "expected.json")));
    std::set<std::string> decayed, listed;
    for (const Parameter &p : model->parameters)
      if (p.decays())
        decayed.insert(p.name);
    for (const rt::JsonValue &tensor : expected.find("weight_decay_tensors")->elements())
      listed.insert(tensor.string());
    EXPECT_EQ(decayed, listed) << name;
  }
}

} // namespace
