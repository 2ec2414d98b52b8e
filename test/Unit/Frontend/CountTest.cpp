// Exact parameter counts of published models, shapes of single tensors, layers.
#include "TestConfigs.h"

using namespace cleave;
using namespace cleave::frontend;
using namespace cleave::frontend::test;

namespace {

struct Published {
  const char *config;
  const char *family;
  int64_t parameters;
  int64_t layers;
};

// The published counts (tied matrices once); those of the t0 models were
// counted in their weight files.
constexpr Published kPublished[] = {
    {"gpt2", "gpt2", 124439808, 12},
    {"gpt2-xl", "gpt2", 1557611200, 48},
    {"gpt2-mini", "gpt2", 220608, 4},
    {"llama-2-7b", "llama", 6738415616, 32},
    {"tinyllama-1.1b", "llama", 1100048384, 22},
    {"llama-3-8b", "llama", 8030261248, 32},
    {"llama-3-70b", "llama", 70553706496, 80},
    {"llama-3.1-8b", "llama", 8030261248, 32},
    {"llama-3.1-70b", "llama", 70553706496, 80},
    {"llama-3.1-405b", "llama", 405853388800, 126},
    {"llama-3.2-1b-instruct", "llama", 1235814400, 16},
    {"mistral-7b-v0.1", "mistral", 7241732096, 32},
    {"qwen2.5-7b-instruct", "qwen2", 7615616512, 28},
    {"qwen3-0.6b", "qwen3", 596049920, 28},
    {"qwen3-8b", "qwen3", 8190735360, 36},
    {"qwen3-32b", "qwen3", 32762123264, 64},
    {"t0", "llama", 180800, 4},
    {"t0-tied", "llama", 164416, 4},
    {"t0-llama31-rope", "llama", 180800, 4},
    {"t0-vocab251", "llama", 180160, 4},
};

class CountTest : public testing::TestWithParam<Published> {};

TEST_P(CountTest, matchesThePublishedModel) {
  const Published &expected = GetParam();
  rt::StatusOr<ModelDescription> model = readModel(configPath(expected.config));
  ASSERT_TRUE(model.ok()) << rt::renderText(model.error());
  EXPECT_EQ(model->family, expected.family);
  EXPECT_EQ(model->parameterCount(), expected.parameters);
  EXPECT_EQ(model->activeParameterCount(), expected.parameters);
  ASSERT_EQ(model->layers.size(), 1u);
  EXPECT_EQ(model->layers[0].kind, "block");
  EXPECT_EQ(model->layers[0].count, expected.layers);
  ASSERT_EQ(model->layers[0].spans.size(), 1u);
  EXPECT_EQ(model->layers[0].spans[0], std::pair(int64_t(0), expected.layers - 1));
  EXPECT_EQ(model->configText, configText(expected.config));
}

INSTANTIATE_TEST_SUITE_P(, CountTest, testing::ValuesIn(kPublished), [](const auto &info) {
  std::string name = info.param.config;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
});

TEST(Parameters, llamaShapesInitAndDecay) {
  auto model = readModel(configPath("t0"));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->parameters.size(), 39u);
  const Parameter *q = findParameter(*model, "model.layers.3.self_attn.q_proj.weight");
  ASSERT_TRUE(q);
  EXPECT_EQ(q->fileShape, (std::vector<int64_t>{64, 64}));
  EXPECT_EQ(q->dims,
            (std::vector<NamedDim>{{"kv_head", 2}, {"group", 2}, {"head_dim", 16}, {"model", 64}}));
  EXPECT_EQ(q->initMean, 0);
  EXPECT_EQ(q->initStd, 0.02);
  EXPECT_TRUE(q->decays());
  const Parameter *norm = findParameter(*model, "model.norm.weight");
  ASSERT_TRUE(norm);
  EXPECT_EQ(norm->initMean, 1);
  EXPECT_EQ(norm->initStd, 0);
  EXPECT_FALSE(norm->decays());
}

TEST(Parameters, aTiedOutputMatrixIsTheEmbedding) {
  auto tied = readModel(configPath("t0-tied"));
  ASSERT_TRUE(tied.ok());
  EXPECT_FALSE(findParameter(*tied, "lm_head.weight"));
  auto untied = readEdited("gpt2", [](rt::JsonValue &c) { c.set("tie_word_embeddings", false); });
  ASSERT_TRUE(untied.ok());
  EXPECT_TRUE(findParameter(*untied, "lm_head.weight"));
  EXPECT_EQ(untied->parameterCount(), 124439808 + 50257 * 768);
}

TEST(Parameters, biasesFollowTheKeys) {
  auto model = readEdited("t0", [](rt::JsonValue &c) {
    c.set("attention_bias", true);
    c.set("mlp_bias", true);
  });
  ASSERT_TRUE(model.ok());
  // q 64, k 32, v 32, o 64; gate 128, up 128, down 64.
  EXPECT_EQ(model->parameterCount(), 180800 + 4 * (64 + 32 + 32 + 64 + 128 + 128 + 64));
  const Parameter *bias = findParameter(*model, "model.layers.0.self_attn.q_proj.bias");
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias->fileShape, (std::vector<int64_t>{64}));
  EXPECT_EQ(bias->dims, (std::vector<NamedDim>{{"kv_head", 2}, {"group", 2}, {"head_dim", 16}}));
  EXPECT_FALSE(bias->decays());
  EXPECT_EQ(bias->initMean, 0);
}

TEST(Parameters, gpt2BranchesStartSmaller) {
  auto model = readModel(configPath("gpt2"));
  ASSERT_TRUE(model.ok());
  for (const char *name :
       {"transformer.h.0.attn.c_proj.weight", "transformer.h.11.mlp.c_proj.weight"}) {
    const Parameter *p = findParameter(*model, name);
    ASSERT_TRUE(p) << name;
    EXPECT_DOUBLE_EQ(p->initStd, 0.02 / std::sqrt(24.0));
  }
  const Parameter *qkv = findParameter(*model, "transformer.h.0.attn.c_attn.weight");
  ASSERT_TRUE(qkv);
  EXPECT_DOUBLE_EQ(qkv->initStd, 0.02);
  EXPECT_EQ(qkv->fileShape, (std::vector<int64_t>{768, 2304}));
  EXPECT_EQ(qkv->dims,
            (std::vector<NamedDim>{{"model", 768}, {"qkv", 3}, {"kv_head", 12}, {"head_dim", 64}}));
}

TEST(Parameters, anExplicitHeadDimWins) {
  // 56 is no multiple of 3: only head_dim gives the width of a head.
  auto edit = [](rt::JsonValue &c) {
    c.set("hidden_size", 56);
    c.set("num_attention_heads", 3);
    erase(c, "num_key_value_heads");
    c.set("head_dim", 32);
  };
  auto model = readEdited("t0", edit);
  ASSERT_TRUE(model.ok()) << rt::renderText(model.error());
  EXPECT_EQ(findParameter(*model, "model.layers.0.self_attn.q_proj.weight")->fileShape,
            (std::vector<int64_t>{96, 56}));
  EXPECT_EQ(findParameter(*model, "model.layers.0.self_attn.o_proj.weight")->fileShape,
            (std::vector<int64_t>{56, 96}));
}

} // namespace
