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
  /// Of those, for one token.
  int64_t active;
  /// Kinds of blocks with their layers.
  const char *layers;
};

constexpr Published dense(const char *config, const char *family, int64_t parameters,
                          const char *layers) {
  return {config, family, parameters, parameters, layers};
}

// The published counts (tied matrices once); those of the t0 models were
// counted in their weight files.
constexpr Published kPublished[] = {
    dense("gpt2", "gpt2", 124439808, "block 0-11"),
    dense("gpt2-xl", "gpt2", 1557611200, "block 0-47"),
    dense("gpt2-mini", "gpt2", 220608, "block 0-3"),
    dense("llama-2-7b", "llama", 6738415616, "block 0-31"),
    dense("tinyllama-1.1b", "llama", 1100048384, "block 0-21"),
    dense("llama-3-8b", "llama", 8030261248, "block 0-31"),
    dense("llama-3-70b", "llama", 70553706496, "block 0-79"),
    dense("llama-3.1-8b", "llama", 8030261248, "block 0-31"),
    dense("llama-3.1-70b", "llama", 70553706496, "block 0-79"),
    dense("llama-3.1-405b", "llama", 405853388800, "block 0-125"),
    dense("llama-3.2-1b-instruct", "llama", 1235814400, "block 0-15"),
    dense("mistral-7b-v0.1", "mistral", 7241732096, "block 0-31"),
    dense("qwen2.5-7b-instruct", "qwen2", 7615616512, "block 0-27"),
    dense("qwen3-0.6b", "qwen3", 596049920, "block 0-27"),
    dense("qwen3-8b", "qwen3", 8190735360, "block 0-35"),
    dense("qwen3-32b", "qwen3", 32762123264, "block 0-63"),
    dense("t0", "llama", 180800, "block 0-3"),
    dense("t0-tied", "llama", 164416, "block 0-3"),
    dense("t0-llama31-rope", "llama", 180800, "block 0-3"),
    dense("t0-vocab251", "llama", 180160, "block 0-3"),

    dense("pythia-70m", "gpt_neox", 70426624, "block 0-5"),
    dense("gpt-neox-20b", "gpt_neox", 20554567680, "block 0-43"),
    dense("opt-350m", "opt", 331196416, "block 0-23"),
    dense("opt-1.3b", "opt", 1315758080, "block 0-23"),
    dense("bloom-176b", "bloom", 176247271424, "block 0-69"),
    dense("falcon-7b", "falcon", 6921720704, "block 0-31"),
    dense("falcon-40b", "falcon", 41303293952, "block 0-59"),
    dense("mpt-7b", "mpt", 6649286656, "block 0-31"),
    dense("phi-2", "phi", 2779683840, "block 0-31"),
    dense("phi-3-mini-4k", "phi3", 3821079552, "block 0-31"),
    dense("gemma-2b", "gemma", 2506172416, "block 0-17"),
    dense("gemma-7b", "gemma", 8537680896, "block 0-27"),
    dense("gemma-2-27b", "gemma2", 27227128320,
          "sliding 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44 "
          "full 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41,43,45"),
    dense("gemma-3-27b", "gemma3", 27009346304,
          "sliding 0-4,6-10,12-16,18-22,24-28,30-34,36-40,42-46,48-52,54-58,60-61 "
          "full 5,11,17,23,29,35,41,47,53,59"),
    dense("olmo-2-7b", "olmo2", 7298617344, "block 0-31"),

    {"mixtral-8x7b", "mixtral", 46702792704, 12879925248, "sparse 0-31"},
    {"mixtral-8x22b", "mixtral", 140620634112, 39152031744, "sparse 0-55"},
    // All but 12 of 16 experts in 40 layers.
    {"dbrx", "dbrx", 131596523520, 131596523520 - 12LL * 40 * 3 * 6144 * 10752, "sparse 0-39"},
    {"qwen1.5-moe-a2.7b", "qwen2_moe", 14315784192, 2689173504, "sparse 0-23"},
    {"qwen2-57b-a14b", "qwen2_moe", 57408658944, 14249270784, "sparse 0-27"},
    {"qwen3-30b-a3b", "qwen3_moe", 30532122624, 3353032704, "sparse 0-47"},
    {"qwen3-235b-a22b", "qwen3_moe", 235093634560, 22190763520, "sparse 0-93"},
    {"qwen3-vl-30b-a3b", "qwen3_vl_moe", 30532122624, 3353032704, "sparse 0-47"},
    {"gpt-oss-20b", "gpt_oss", 20914757184, 4187440704,
     "sliding 0,2,4,6,8,10,12,14,16,18,20,22 full 1,3,5,7,9,11,13,15,17,19,21,23"},
    {"deepseek-v2-lite", "deepseek_v2", 15706484224, 2661150208, "dense 0 sparse 1-26"},
    {"deepseek-v2", "deepseek_v2", 235741434880, 21375800320, "dense 0 sparse 1-59"},
    {"deepseek-v3", "deepseek_v3", 671026419200, 37552297472, "dense 0-2 sparse 3-60"},
    {"kimi-k2", "kimi_k2", 1026408232448, 32861500928, "dense 0 sparse 1-60"},
    {"llama-4-scout", "llama4", 107769861120, 17172894720, "sparse 0-47"},
    {"llama-4-maverick", "llama4", 400711848960, 17184691200,
     "dense 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46 "
     "sparse 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41,43,45,47"},
};

std::string layersOf(const ModelDescription &model) {
  std::string text;
  for (const LayerSummary &layer : model.layers) {
    text += (text.empty() ? "" : " ") + layer.kind;
    const char *before = " ";
    for (auto [first, last] : layer.spans) {
      text += before + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
      before = ",";
    }
  }
  return text;
}

class CountTest : public testing::TestWithParam<Published> {};

TEST_P(CountTest, matchesThePublishedModel) {
  const Published &expected = GetParam();
  rt::StatusOr<ModelDescription> model = readModel(configPath(expected.config));
  ASSERT_TRUE(model.ok()) << rt::renderText(model.error());
  EXPECT_EQ(model->family, expected.family);
  EXPECT_EQ(model->parameterCount(), expected.parameters);
  EXPECT_EQ(model->activeParameterCount(), expected.active);
  EXPECT_EQ(layersOf(*model), expected.layers);
  EXPECT_EQ(model->configText, configText(expected.config));
  int64_t layers = 0;
  for (const LayerSummary &layer : model->layers)
    layers += layer.count;
  EXPECT_EQ(layers, model->sizes.layers);
  // Every key of these files is known: none is reported for want of a row.
  for (const UnusedKey &key : model->unusedKeys)
    EXPECT_FALSE(key.reason.empty()) << key.key;
}

INSTANTIATE_TEST_SUITE_P(, CountTest, testing::ValuesIn(kPublished), [](const auto &info) {
  std::string name = info.param.config;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
});

// Published as 229 B and 10 B for a token, 25.2 B and 3.8 B.
TEST(Counts, roundedFiguresOfTheOthers) {
  auto miniMax = readModel(configPath("minimax-m2.5")),
       gemma = readModel(configPath("gemma-4-26b-a4b"));
  ASSERT_TRUE(miniMax.ok() && gemma.ok());
  EXPECT_NEAR(static_cast<double>(miniMax->parameterCount()), 229e9, 0.5e9);
  EXPECT_NEAR(static_cast<double>(miniMax->activeParameterCount()), 10.5e9, 1e9);
  EXPECT_NEAR(static_cast<double>(gemma->parameterCount()), 25.2e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(gemma->activeParameterCount()), 3.8e9, 0.05e9);
  // Keys serve as values in layers without a window.
  EXPECT_TRUE(findParameter(*gemma, "model.layers.4.self_attn.v_proj.weight"));
  EXPECT_FALSE(findParameter(*gemma, "model.layers.5.self_attn.v_proj.weight"));
  EXPECT_EQ(findParameter(*gemma, "model.layers.5.self_attn.k_proj.weight")->fileShape,
            (std::vector<int64_t>{2 * 512, 2816}));
}

int64_t sizeOf(const ModelDescription &model, const std::string &name) {
  for (const auto &[key, size] : model.sizes.others)
    if (key == name)
      return size;
  return 0;
}

TEST(Counts, expertsUnderAllSpellings) {
  struct Row {
    const char *config;
    int64_t experts, active, width;
  };
  for (const Row &row : {Row{"mixtral-8x7b", 8, 2, 14336},
                         {"qwen3-30b-a3b", 128, 8, 768},
                         {"deepseek-v3", 256, 8, 2048},
                         {"gpt-oss-20b", 32, 4, 2880},
                         {"kimi-k2", 384, 8, 2048},
                         {"dbrx", 16, 4, 10752},
                         {"llama-4-scout", 16, 1, 8192},
                         {"gemma-4-26b-a4b", 128, 8, 704},
                         {"minimax-m2.5", 256, 8, 1536}}) {
    auto model = readModel(configPath(row.config));
    ASSERT_TRUE(model.ok()) << row.config;
    EXPECT_EQ(sizeOf(*model, "num_experts"), row.experts) << row.config;
    EXPECT_EQ(sizeOf(*model, "num_experts_per_tok"), row.active) << row.config;
    EXPECT_EQ(sizeOf(*model, "moe_intermediate_size"), row.width) << row.config;
  }
  auto v3 = readModel(configPath("deepseek-v3"));
  ASSERT_TRUE(v3.ok());
  EXPECT_EQ(sizeOf(*v3, "n_shared_experts"), 1);
  EXPECT_EQ(sizeOf(*v3, "kv_lora_rank"), 512);
}

TEST(Counts, whichLayersAreSparse) {
  auto with = [](const char *config, const char *key, const char *value) {
    auto model = readEdited(config, [&](rt::JsonValue &c) {
      c.set("num_hidden_layers", 4);
      c.set("decoder_sparse_step", 2);
      c.set(key, json(value));
    });
    EXPECT_TRUE(model.ok());
    return model.ok() ? layersOf(*model) : "";
  };
  EXPECT_EQ(with("qwen3-30b-a3b", "mlp_only_layers", "[]"), "dense 0,2 sparse 1,3");
  EXPECT_EQ(with("qwen3-30b-a3b", "mlp_only_layers", "[3]"), "dense 0,2-3 sparse 1");
  EXPECT_EQ(with("deepseek-v3", "moe_layer_freq", "2"), "dense 0-3");
  EXPECT_EQ(with("deepseek-v3", "first_k_dense_replace", "1"), "dense 0 sparse 1-3");
  EXPECT_EQ(with("deepseek-v3", "n_routed_experts", "null"), "dense 0-3");
}

TEST(Parameters, expertsInFiles) {
  auto mixtral = readModel(configPath("mixtral-8x7b"));
  ASSERT_TRUE(mixtral.ok());
  const Parameter *own =
      findParameter(*mixtral, "model.layers.31.block_sparse_moe.experts.{}.w2.weight");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->fileShape, (std::vector<int64_t>{4096, 14336}));
  EXPECT_EQ(own->dims, (std::vector<NamedDim>{{"expert", 8}, {"model", 4096}, {"ffn", 14336}}));
  EXPECT_EQ(own->tensors(), 8);
  EXPECT_EQ(own->activeElements() * 4, own->elements());
  EXPECT_TRUE(own->decays());
  // Embedding, norm, output; a layer: 2 norms, 4 of attention, router, 8 · 3 of experts.
  EXPECT_EQ(mixtral->tensorCount(), 3 + 32 * (2 + 4 + 1 + 24));
  auto oss = readModel(configPath("gpt-oss-20b"));
  ASSERT_TRUE(oss.ok());
  const Parameter *stack = findParameter(*oss, "model.layers.3.mlp.experts.gate_up_proj");
  ASSERT_TRUE(stack);
  EXPECT_EQ(stack->fileShape, (std::vector<int64_t>{32, 2880, 5760}));
  EXPECT_EQ(stack->dims, (std::vector<NamedDim>{
                             {"expert", 32}, {"model", 2880}, {"ffn", 2880}, {"gate_up", 2}}));
  EXPECT_EQ(stack->tensors(), 1);
  EXPECT_TRUE(stack->decays());
  const Parameter *biases = findParameter(*oss, "model.layers.3.mlp.experts.gate_up_proj_bias");
  ASSERT_TRUE(biases);
  EXPECT_EQ(biases->fileShape, (std::vector<int64_t>{32, 5760}));
  EXPECT_FALSE(biases->decays()); // vectors, one for each expert
  auto dbrx = readModel(configPath("dbrx"));
  ASSERT_TRUE(dbrx.ok());
  const Parameter *rows = findParameter(*dbrx, "transformer.blocks.0.ffn.experts.mlp.w1");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->fileShape, (std::vector<int64_t>{16 * 10752, 6144}));
}

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
