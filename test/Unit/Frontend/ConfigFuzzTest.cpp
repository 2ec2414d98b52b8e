// Broken and odd configs by the thousand: each gives a model or an error of a
// known family of kinds, never a crash. Seeds are fixed.
#include "TestConfigs.h"

#include <random>

using namespace cleave;
using namespace cleave::frontend;
using namespace cleave::frontend::test;

namespace {

/// A model that is asked for all it knows, or a complete error.
void expectOutcome(const std::string &text) {
  auto model = readModelText(text, "fuzzed.json");
  if (model.ok()) {
    EXPECT_GT(model->parameterCount(), 0) << text;
    EXPECT_EQ(model->configText, text);
    return;
  }
  const rt::Error &error = model.error();
  const bool known = error.kind.starts_with("config.") || error.kind.starts_with("json.");
  EXPECT_TRUE(known) << error.kind << "\n" << text;
  EXPECT_FALSE(error.message.empty()) << text;
  EXPECT_FALSE(rt::renderText(error).empty());
}

/// Values that have hurt readers of configs before.
rt::JsonValue oddValue(std::mt19937 &random) {
  static const char *values[] = {"null",
                                 "true",
                                 "false",
                                 "0",
                                 "-1",
                                 "1",
                                 "2",
                                 "3",
                                 "7",
                                 "64",
                                 "1e9",
                                 "0.5",
                                 "1e308",
                                 "\"\"",
                                 "\"silu\"",
                                 "[]",
                                 "{}",
                                 "\"64\"",
                                 "4294967296",
                                 "9223372036854775807",
                                 "16777216",
                                 "10000",
                                 "[1, 2]",
                                 "{\"type\": \"linear\"}",
                                 "{\"rope_type\": \"llama3\", \"factor\": 8}",
                                 "{\"rope_type\": \"linear\", \"factor\": 1e-300}"};
  return json(values[random() % std::size(values)]);
}

void mutateTree(rt::JsonValue &root, std::mt19937 &random) {
  auto &members = root.members();
  switch (random() % 4) {
  case 0: // another value
    members[random() % members.size()].value = oddValue(random);
    break;
  case 1: // one key less
    members.erase(members.begin() + static_cast<long>(random() % members.size()));
    break;
  case 2: { // a value from elsewhere
    rt::JsonValue copy = members[random() % members.size()].value;
    members[random() % members.size()].value = std::move(copy);
    break;
  }
  case 3: { // a key under another name, or a new key
    static const char *names[] = {"n_embd",
                                  "n_head",
                                  "head_dim",
                                  "rope_parameters",
                                  "dtype",
                                  "n_inner",
                                  "rope_scaling",
                                  "partial_rotary_factor",
                                  "",
                                  "\xc3\xa9",
                                  "num_key_value_heads",
                                  "layer_types",
                                  "text_config",
                                  "attn_config"};
    root.set(names[random() % std::size(names)], oddValue(random));
    break;
  }
  }
}

class ConfigFuzz : public testing::TestWithParam<const char *> {};

TEST_P(ConfigFuzz, structure) {
  std::mt19937 random(20240607);
  const rt::JsonValue original = json(configText(GetParam()));
  for (int i = 0; i < 4000 && !HasFailure(); ++i) {
    rt::JsonValue root = original;
    for (unsigned n = 1 + random() % 3; n && !root.members().empty(); --n)
      mutateTree(root, random);
    expectOutcome(rt::toString(root));
  }
}

TEST_P(ConfigFuzz, bytes) {
  std::mt19937 random(20240608);
  const std::string original = configText(GetParam());
  for (int i = 0; i < 6000 && !HasFailure(); ++i) {
    std::string text = original;
    for (unsigned n = 1 + random() % 4; n; --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, 1 + random() % 5);
        break;
      case 2:
        text.insert(at, 1, "{}[],:\"0919eE.-ntf\\"[random() % 19]);
        break;
      case 3: // a digit more or less often gives another valid config
        if (std::isdigit(static_cast<unsigned char>(text[at])))
          text[at] = static_cast<char>('0' + random() % 10);
        break;
      }
      if (text.empty())
        text = " ";
    }
    expectOutcome(text);
  }
}

TEST_P(ConfigFuzz, everyPrefix) {
  const std::string text = configText(GetParam());
  for (size_t length = 0; length < text.size(); ++length)
    expectOutcome(text.substr(0, length));
}

INSTANTIATE_TEST_SUITE_P(, ConfigFuzz,
                         testing::Values("t0", "t0-llama31-rope", "gpt2-mini", "qwen3-0.6b",
                                         "mistral-7b-v0.1", "deepseek-v3", "falcon-40b",
                                         "gemma-3-27b", "mpt-7b", "opt-350m", "qwen3-vl-30b-a3b"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
                           return name;
                         });

} // namespace
