// What is accepted, defaulted, reported and refused when a config is read.
#include "TestConfigs.h"

using namespace cleave;
using namespace cleave::frontend;
using namespace cleave::frontend::test;

namespace {

TEST(Config, nullCountsAsAbsent) {
  auto headDim = readEdited("t0", [](rt::JsonValue &c) { c.set("head_dim", rt::JsonValue()); });
  ASSERT_TRUE(headDim.ok());
  EXPECT_EQ(headDim->sizes.headDim, 16);
  ASSERT_TRUE(findDefault(*headDim, "head_dim"));
  EXPECT_EQ(findDefault(*headDim, "head_dim")->value.integer(), 16);

  auto kvHeads =
      readEdited("t0", [](rt::JsonValue &c) { c.set("num_key_value_heads", rt::JsonValue()); });
  ASSERT_TRUE(kvHeads.ok());
  EXPECT_EQ(kvHeads->sizes.kvHeads, 4);
  ASSERT_TRUE(findDefault(*kvHeads, "num_key_value_heads"));
  EXPECT_EQ(findDefault(*kvHeads, "num_key_value_heads")->value.integer(), 4);

  auto layers =
      readEdited("t0", [](rt::JsonValue &c) { c.set("num_hidden_layers", rt::JsonValue()); });
  EXPECT_EQ(kindOf(layers), "config.missing_key");
}

TEST(Config, everyRequiredKeyIsMissedByName) {
  for (const char *key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "vocab_size", "model_type"}) {
    auto result = readEdited("t0", [&](rt::JsonValue &c) { erase(c, key); });
    ASSERT_EQ(kindOf(result), "config.missing_key") << key;
    EXPECT_NE(result.error().message.find(key), std::string::npos);
    EXPECT_FALSE(result.error().rule.empty());
    EXPECT_FALSE(result.error().suggestions.empty());
  }
}

TEST(Config, everyKeyIsUsedDefaultedOrUnused) {
  auto model = readEdited("t0", [](rt::JsonValue &c) { c.set("shared_depth", 3); });
  ASSERT_TRUE(model.ok());
  EXPECT_TRUE(isUnused(*model, "bos_token_id"));
  EXPECT_TRUE(isUnused(*model, "use_cache"));
  EXPECT_TRUE(isUnused(*model, "transformers_version"));
  EXPECT_FALSE(isUnused(*model, "hidden_size"));
  EXPECT_FALSE(isUnused(*model, "rope_scaling"));
  // An unknown key is also said in a note: it may be structural.
  EXPECT_TRUE(isUnused(*model, "shared_depth"));
  ASSERT_EQ(model->notes.size(), 1u);
  EXPECT_NE(model->notes[0].find("shared_depth"), std::string::npos);
}

TEST(Config, defaultsAreTheFamilys) {
  auto model = readEdited("t0", [](rt::JsonValue &c) {
    for (const char *key : {"rms_norm_eps", "rope_theta", "hidden_act", "initializer_range",
                            "tie_word_embeddings", "max_position_embeddings"})
      erase(c, key);
  });
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(findDefault(*model, "rms_norm_eps")->value.number(), 1e-6);
  EXPECT_EQ(findDefault(*model, "rope_theta")->value.number(), 10000.0);
  EXPECT_EQ(findDefault(*model, "hidden_act")->value.string(), "silu");
  EXPECT_EQ(findDefault(*model, "initializer_range")->value.number(), 0.02);
  EXPECT_EQ(findDefault(*model, "tie_word_embeddings")->value.boolean(), false);
  EXPECT_EQ(findDefault(*model, "max_position_embeddings")->value.integer(), 2048);
  auto gpt2 = readModel(configPath("gpt2"));
  ASSERT_TRUE(gpt2.ok());
  EXPECT_EQ(findDefault(*gpt2, "n_inner")->value.integer(), 3072);
  EXPECT_EQ(findDefault(*gpt2, "tie_word_embeddings")->value.boolean(), true);
}

TEST(Config, headDimUndefined) {
  auto result = readEdited("t0", [](rt::JsonValue &c) {
    c.set("hidden_size", 56);
    c.set("num_attention_heads", 3);
    erase(c, "num_key_value_heads");
    erase(c, "head_dim");
  });
  ASSERT_EQ(kindOf(result), "config.head_dim_undefined");
  EXPECT_NE(result.error().message.find("56"), std::string::npos);
  EXPECT_NE(result.error().message.find("3"), std::string::npos);
}

TEST(Config, headsIndivisible) {
  auto llama = readEdited("t0", [](rt::JsonValue &c) { c.set("num_key_value_heads", 3); });
  ASSERT_EQ(kindOf(llama), "config.heads_indivisible");
  EXPECT_EQ(llama.error().suggestions.at(0), "\"num_key_value_heads\": 2");
  auto more = readEdited("t0", [](rt::JsonValue &c) { c.set("num_key_value_heads", 8); });
  EXPECT_EQ(kindOf(more), "config.heads_indivisible");
  auto gpt2 = readEdited("gpt2", [](rt::JsonValue &c) { c.set("n_head", 11); });
  ASSERT_EQ(kindOf(gpt2), "config.heads_indivisible");
  EXPECT_EQ(gpt2.error().suggestions.at(0), "\"n_head\": 8");
  auto odd = readEdited("t0", [](rt::JsonValue &c) { c.set("head_dim", 15); });
  EXPECT_EQ(kindOf(odd), "config.head_dim_odd");
}

TEST(Config, storedTypeHasTwoNames) {
  auto with = [](const char *old, const char *modern) {
    return readEdited("t0", [&](rt::JsonValue &c) {
      erase(c, "torch_dtype");
      if (old)
        c.set("torch_dtype", old);
      if (modern)
        c.set("dtype", modern);
    });
  };
  auto old = with("bfloat16", nullptr), modern = with(nullptr, "bfloat16");
  ASSERT_TRUE(old.ok() && modern.ok());
  EXPECT_EQ(old->storedType, "bfloat16");
  EXPECT_EQ(modern->storedType, "bfloat16");
  EXPECT_TRUE(with("bfloat16", "torch.bfloat16").ok());
  EXPECT_EQ(kindOf(with("bfloat16", "float32")), "config.conflict");
  EXPECT_EQ(kindOf(with("brainfloat", nullptr)), "config.dtype_unknown");
  auto neither = with(nullptr, nullptr);
  ASSERT_TRUE(neither.ok());
  EXPECT_EQ(neither->storedType, "float32");
  EXPECT_EQ(neither->notes.size(), 1u);
  EXPECT_TRUE(findDefault(*neither, "dtype"));
}

TEST(Config, otherSpellingsOfAKey) {
  auto renamed = readEdited("gpt2", [](rt::JsonValue &c) {
    erase(c, "n_embd");
    c.set("hidden_size", 768);
  });
  ASSERT_TRUE(renamed.ok());
  EXPECT_EQ(renamed->parameterCount(), 124439808);
  auto agreeing = readEdited("gpt2", [](rt::JsonValue &c) { c.set("num_attention_heads", 12); });
  EXPECT_TRUE(agreeing.ok());
  auto differing = readEdited("gpt2", [](rt::JsonValue &c) { c.set("num_attention_heads", 6); });
  ASSERT_EQ(kindOf(differing), "config.conflict");
  EXPECT_EQ(differing.error().notes.size(), 1u);
}

TEST(Config, activations) {
  for (const char *name : {"silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu"})
    EXPECT_TRUE(readEdited("t0", [&](rt::JsonValue &c) { c.set("hidden_act", name); }).ok());
  for (const char *name : {"quick_gelu", "mish", "", "SILU"}) {
    auto result = readEdited("gpt2", [&](rt::JsonValue &c) { c.set("activation_function", name); });
    EXPECT_EQ(kindOf(result), "config.activation_unsupported") << name;
  }
}

TEST(Config, keysThatWouldChangeTheModelAreRefused) {
  for (auto [file, key] :
       {std::pair("gpt2", "scale_attn_by_inverse_layer_idx"),
        std::pair("gpt2", "add_cross_attention"), std::pair("t0", "is_encoder_decoder")}) {
    auto result = readEdited(file, [&](rt::JsonValue &c) { c.set(key, true); });
    ASSERT_EQ(kindOf(result), "config.value_unsupported") << key;
    EXPECT_NE(result.error().message.find(key), std::string::npos);
    EXPECT_TRUE(readEdited(file, [&](rt::JsonValue &c) { c.set(key, false); }).ok());
  }
  auto partial = readEdited("t0", [](rt::JsonValue &c) { c.set("partial_rotary_factor", 0.5); });
  EXPECT_EQ(kindOf(partial), "config.value_unsupported");
}

TEST(Config, dropoutIsReportedAndNotRefused) {
  auto gpt2 = readModel(configPath("gpt2"));
  ASSERT_TRUE(gpt2.ok());
  ASSERT_EQ(gpt2->dropouts.size(), 3u);
  EXPECT_EQ(gpt2->dropouts[0].key, "embd_pdrop");
  EXPECT_EQ(gpt2->dropouts[0].probability, 0.1);
  EXPECT_GT(gpt2->dropouts[0].where.line, 0);
  auto mini = readModel(configPath("gpt2-mini"));
  ASSERT_TRUE(mini.ok());
  EXPECT_TRUE(mini->dropouts.empty());
  EXPECT_TRUE(refuseDropout(*mini).ok());
  const rt::Status refused = refuseDropout(*gpt2);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, "config.dropout_unsupported");
  EXPECT_NE(refused.error().message.find("embd_pdrop"), std::string::npos);
  EXPECT_EQ(refused.error().notes.size(), 2u);
  // A key left out means the family's default, which is not zero.
  auto absent = readEdited("gpt2-mini", [](rt::JsonValue &c) { erase(c, "attn_pdrop"); });
  ASSERT_TRUE(absent.ok());
  ASSERT_EQ(absent->dropouts.size(), 1u);
  EXPECT_EQ(absent->dropouts[0].probability, 0.1);
}

TEST(Config, errorsPointAtTheValue) {
  const std::string text = "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": -4\n}";
  auto result = readModelText(text, "some.json");
  ASSERT_EQ(kindOf(result), "config.out_of_range");
  const rt::Error &error = result.error();
  EXPECT_EQ(error.where.toString(), "some.json:3:18");
  EXPECT_EQ(error.given, "hidden_size = -4");
  EXPECT_NE(error.rule.find("hidden_size"), std::string::npos);
  EXPECT_EQ(error.suggestions.at(0), "1");
}

TEST(Config, wrongTypes) {
  auto text = readEdited("t0", [](rt::JsonValue &c) { c.set("hidden_size", "64"); });
  EXPECT_EQ(kindOf(text), "config.wrong_type");
  auto fraction = readEdited("t0", [](rt::JsonValue &c) { c.set("hidden_size", 64.0); });
  ASSERT_EQ(kindOf(fraction), "config.wrong_type");
  EXPECT_EQ(fraction.error().suggestions.at(0), "64");
  auto flag = readEdited("t0", [](rt::JsonValue &c) { c.set("tie_word_embeddings", 1); });
  EXPECT_EQ(kindOf(flag), "config.wrong_type");
  EXPECT_EQ(kindOf(readModelText("[]", "x")), "config.wrong_type");
  EXPECT_EQ(kindOf(readModelText("{\"model_type\": 3}", "x")), "config.wrong_type");
}

TEST(Config, sizesThatOverflowAreRefused) {
  auto result = readEdited("t0", [](rt::JsonValue &c) {
    for (const char *key : {"hidden_size", "intermediate_size"})
      c.set(key, 1 << 24);
    c.set("num_attention_heads", 1 << 16);
    c.set("num_key_value_heads", 1 << 16);
    c.set("head_dim", 1 << 16);
    c.set("num_hidden_layers", 10000);
  });
  EXPECT_EQ(kindOf(result), "config.too_large");
}

TEST(Config, otherFamiliesAreRefusedByName) {
  for (const char *family : {"mamba2", "qwen2_vl", "t5", "Llama", ""}) {
    auto result = readEdited("t0", [&](rt::JsonValue &c) { c.set("model_type", family); });
    ASSERT_EQ(kindOf(result), "config.family_unsupported") << family;
    EXPECT_NE(result.error().message.find(family), std::string::npos);
    for (const std::string &name : supportedFamilies())
      EXPECT_NE(result.error().rule.find(name), std::string::npos);
  }
}

TEST(Config, aNestedConfigSaysWhereItsFamilyStands) {
  auto result = readModelText(R"({"text_config": {"model_type": "gemma3_text"}})", "x.json");
  ASSERT_EQ(kindOf(result), "config.missing_key");
  ASSERT_EQ(result.error().notes.size(), 1u);
  EXPECT_NE(result.error().notes[0].message.find("gemma3_text"), std::string::npos);
  auto byClass = readModelText(R"({"architectures": ["GPT2LMHeadModel"]})", "x.json");
  ASSERT_EQ(kindOf(byClass), "config.missing_key");
  EXPECT_EQ(byClass.error().suggestions.at(0), "\"model_type\": \"gpt2\"");
}

TEST(Config, theTextPartOfAModelInParts) {
  auto vision = readModel(configPath("qwen3-vl-30b-a3b"));
  ASSERT_TRUE(vision.ok());
  EXPECT_TRUE(isUnused(*vision, "vision_config"));
  EXPECT_NE(vision->notes.at(0).find("text_config"), std::string::npos);
  // What stands beside the part completes it; where both speak, the part does.
  auto gemma = [](const std::function<void(rt::JsonValue &)> &edit) {
    return readEdited("gemma-3-27b", edit);
  };
  EXPECT_EQ(gemma([](rt::JsonValue &) {})->storedType, "bfloat16");
  auto untied = gemma([](rt::JsonValue &c) { c.set("tie_word_embeddings", false); });
  ASSERT_TRUE(untied.ok());
  EXPECT_EQ(untied->parameterCount(), 27009346304 + 262208LL * 5376);
  auto both = gemma([](rt::JsonValue &c) {
    c.set("tie_word_embeddings", false);
    c.find("text_config")->set("tie_word_embeddings", true);
  });
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->parameterCount(), 27009346304);
  EXPECT_TRUE(isUnused(*both, "tie_word_embeddings"));
  EXPECT_EQ(kindOf(gemma([](rt::JsonValue &c) { erase(c, "text_config"); })), "config.missing_key");
  EXPECT_EQ(kindOf(gemma([](rt::JsonValue &c) { c.set("text_config", 3); })), "config.wrong_type");
  auto other = gemma([](rt::JsonValue &c) { c.find("text_config")->set("model_type", "llama"); });
  ASSERT_EQ(kindOf(other), "config.family_unsupported");
  EXPECT_GT(other.error().where.line, 0);
  // The text model alone is a family too.
  auto alone = readModelText(
      edited("gemma-3-27b", [](rt::JsonValue &c) { c = rt::JsonValue(*c.find("text_config")); }),
      "x.json");
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->family, "gemma3_text");
  EXPECT_EQ(alone->parameterCount(), 27009346304);
}

/// Key and kind of the first reason why a config can't be trained.
std::pair<std::string, std::string> reasonOf(const rt::StatusOr<ModelDescription> &model) {
  EXPECT_TRUE(model.ok());
  const rt::Status refused = refuseUntrained(*model);
  if (refused.ok())
    return {};
  const rt::Error &error = refused.error();
  EXPECT_FALSE(error.rule.empty() || error.suggestions.empty()) << error.message;
  return {error.given.substr(0, error.given.find(' ')), error.kind};
}

TEST(Config, featuresWithoutOperatorsAreDescribedAndNotTrained) {
  struct Row {
    const char *config, *key;
  };
  for (const Row &row : {Row{"bloom-176b", "model_type"},
                         {"dbrx", "clip_qkv"},
                         {"falcon-7b", "multi_query"},
                         {"falcon-40b", "new_decoder_architecture"},
                         {"llama-4-scout", "model_type"},
                         {"minimax-m2.5", "num_local_experts"},
                         {"mpt-7b", "model_type"},
                         {"opt-1.3b", "max_position_embeddings"},
                         {"phi-2", "partial_rotary_factor"},
                         {"qwen3-vl-30b-a3b", "num_experts"}}) {
    auto [key, kind] = reasonOf(readModel(configPath(row.config)));
    EXPECT_EQ(key, row.key) << row.config;
    EXPECT_EQ(kind, "config.feature_unsupported") << row.config;
    // What changes the model is never offered as if it did not.
    const rt::Error error = refuseUntrained(*readModel(configPath(row.config))).error();
    EXPECT_EQ(error.suggestions.at(0), "`cleave inspect` for its sizes and counts") << row.config;
    for (const std::string &other : std::span(error.suggestions).subspan(1))
      EXPECT_NE(other.find("another model"), std::string::npos) << other;
  }
  auto dynamic = readEdited("t0", [](rt::JsonValue &c) {
    c.set("rope_scaling", json(R"({"type": "dynamic", "factor": 2})"));
  });
  EXPECT_EQ(reasonOf(dynamic).second, "config.rope_unsupported");
  EXPECT_EQ(dynamic->parameterCount(), 180800);
  auto fused =
      readEdited("phi-3-mini-4k", [](rt::JsonValue &c) { c.set("num_key_value_heads", 8); });
  EXPECT_EQ(reasonOf(fused).first, "num_key_value_heads");
  auto noisy =
      readEdited("mixtral-8x7b", [](rt::JsonValue &c) { c.set("router_jitter_noise", 0.01); });
  EXPECT_EQ(reasonOf(noisy).first, "router_jitter_noise");
  auto dense = readEdited("deepseek-v3", [](rt::JsonValue &c) {
    c.set("n_routed_experts", json("null"));
    c.set("rope_interleave", false);
  });
  EXPECT_EQ(reasonOf(dense).second, "");
  auto bounded = readEdited("gpt-oss-20b", [](rt::JsonValue &c) { c.set("hidden_act", "gelu"); });
  EXPECT_EQ(reasonOf(bounded).first, "hidden_act");
  auto chosen = readEdited("deepseek-v3", [](rt::JsonValue &c) { c.set("topk_method", "greedy"); });
  EXPECT_EQ(reasonOf(chosen).first, "topk_method");
  for (const char *trained : {"t0",
                              "gpt2",
                              "mistral-7b-v0.1",
                              "qwen3-32b",
                              "gemma-2b",
                              "gemma-7b",
                              "gemma-2-27b",
                              "gemma-3-27b",
                              "olmo-2-7b",
                              "phi-3-mini-4k",
                              "pythia-70m",
                              "gpt-neox-20b",
                              "mixtral-8x7b",
                              "mixtral-8x22b",
                              "qwen1.5-moe-a2.7b",
                              "qwen2-57b-a14b",
                              "qwen3-30b-a3b",
                              "qwen3-235b-a22b",
                              "deepseek-v2",
                              "deepseek-v2-lite",
                              "deepseek-v3",
                              "kimi-k2",
                              "gpt-oss-20b"})
    EXPECT_EQ(reasonOf(readModel(configPath(trained))).second, "") << trained;
}

TEST(Config, brokenListsOfLayers) {
  auto kind = [](const char *config, const char *key, const char *value) {
    return kindOf(readEdited(config, [&](rt::JsonValue &c) { c.set(key, json(value)); }));
  };
  EXPECT_EQ(kind("gpt-oss-20b", "layer_types", "[\"full_attention\"]"), "config.wrong_type");
  EXPECT_EQ(kind("gpt-oss-20b", "layer_types", "3"), "config.wrong_type");
  EXPECT_EQ(kind("qwen3-30b-a3b", "mlp_only_layers", "[48]"), "config.wrong_type");
  EXPECT_EQ(kind("qwen3-30b-a3b", "mlp_only_layers", "{}"), "config.wrong_type");
  EXPECT_EQ(kind("mixtral-8x7b", "num_experts_per_tok", "9"), "config.out_of_range");
  EXPECT_EQ(kind("gpt-oss-20b", "experts_per_token", "8"), "config.conflict");
  EXPECT_EQ(kind("falcon-40b", "n_head", "64"), "config.conflict");
  EXPECT_EQ(kind("mpt-7b", "attn_config", "[]"), "config.wrong_type");
  EXPECT_EQ(kind("mpt-7b", "no_bias", "false"), "config.value_unsupported");
  EXPECT_EQ(kind("pythia-70m", "rotary_pct", "0.01"), "config.out_of_range");
}

TEST(Config, keysOfPartsAreReportedUnderTheirPart) {
  auto mpt = readEdited("mpt-7b", [](rt::JsonValue &c) {
    erase(*c.find("attn_config"), "alibi_bias_max");
    c.find("attn_config")->set("attn_pdrop", 0.5);
  });
  ASSERT_TRUE(mpt.ok());
  EXPECT_TRUE(isUnused(*mpt, "attn_config.attn_impl"));
  EXPECT_TRUE(findDefault(*mpt, "attn_config.alibi_bias_max"));
  EXPECT_EQ(mpt->dropouts.size(), 1u);
}

TEST(Config, filesAndFolders) {
  EXPECT_EQ(kindOf(readModel(configPath("no-such"))), "file.read_failed");
  auto folder = readModel(CLEAVE_TEST_CONFIGS); // has no config.json
  ASSERT_EQ(kindOf(folder), "file.read_failed");
  EXPECT_NE(folder.error().message.find("config.json"), std::string::npos);
  EXPECT_EQ(kindOf(readModelText("", "x")), "json.empty");
}

/// The window of `config` after an edit, and its kinds of blocks with their counts.
std::string windowOf(const char *config, const std::function<void(rt::JsonValue &)> &edit) {
  auto model = readEdited(config, edit);
  EXPECT_TRUE(model.ok()) << config;
  if (!model.ok())
    return "";
  std::string text = "all";
  for (const auto &[name, size] : model->sizes.others)
    if (name == "sliding_window")
      text = std::to_string(size);
  for (const LayerSummary &layer : model->layers)
    text += " " + layer.kind + " " + std::to_string(layer.count);
  return text;
}

TEST(Config, windows) {
  auto set = [](const char *key, rt::JsonValue value) {
    return [=](rt::JsonValue &c) { c.set(key, value); };
  };
  EXPECT_EQ(windowOf("mistral-7b-v0.1", set("sliding_window", 512)), "512 block 32");
  EXPECT_EQ(windowOf("mistral-7b-v0.1", set("sliding_window", rt::JsonValue())), "all block 32");
  auto leftOut = [](rt::JsonValue &c) { erase(c, "sliding_window"); };
  EXPECT_EQ(windowOf("mistral-7b-v0.1", leftOut), "4096 block 32");
  EXPECT_EQ(windowOf("phi-3-mini-4k", leftOut), "all block 32");
  EXPECT_EQ(windowOf("llama-3-8b", leftOut), "all block 32");
  const char *qwen = "qwen2.5-7b-instruct";
  EXPECT_EQ(windowOf(qwen, set("use_sliding_window", false)), "all block 28");
  EXPECT_EQ(windowOf(qwen,
                     [](rt::JsonValue &c) {
                       c.set("use_sliding_window", true);
                       c.set("max_window_layers", 20);
                     }),
            "131072 full 20 sliding 8");
  EXPECT_EQ(windowOf("gemma-2-27b", set("sliding_window_size", 4096)), "4096 sliding 23 full 23");
  EXPECT_EQ(windowOf("gemma-3-27b", [](rt::JsonValue &) {}), "1024 sliding 52 full 10");
  auto typed = readEdited("gemma-2-27b", [](rt::JsonValue &c) {
    c.set("num_hidden_layers", 3);
    c.set("layer_types", json(R"(["full_attention", "full_attention", "sliding_attention"])"));
  });
  ASSERT_TRUE(typed.ok());
  EXPECT_EQ(typed->layers[0].count, 2);
  EXPECT_EQ(typed->layers[1].spans.at(0).first, 2);
}

} // namespace
