//===- RowModel.cpp - The model of a row as a config.json --------------------===//

#include "lib/Validate/StepRow.h"
#include "runtime/Base/Json.h"
#include <regex>

namespace cleave::validate {

static int64_t noted(const Row &row, const char *pattern, int64_t absent) {
  std::smatch m;
  const std::string &note = row.text("moe_note");
  return std::regex_search(note, m, std::regex(pattern)) ? std::stoll(m[1]) : absent;
}

namespace {

/// Writes the keys that families share.
class ConfigWriter {
public:
  ConfigWriter(const Row &row, const char *type, bool tied = false) : row(row) {
    out.beginObject().key("model_type").value(type);
    set("hidden_size", row.integer("hidden"));
    set("num_hidden_layers", row.integer("layers"));
    set("num_attention_heads", row.integer("heads"));
    set("vocab_size", row.integer("vocab", kVocabulary));
    set("max_position_embeddings", row.integer("seq_len"));
    out.key("tie_word_embeddings").value(tied);
  }
  void set(const char *key, int64_t value) { out.key(key).value(value); }
  void setHeads() {
    set("num_key_value_heads", row.integer("kv_heads", row.integer("heads")));
    set("head_dim", row.integer("head_dim", row.integer("hidden") / row.integer("heads")));
  }
  void setExperts(const char *count) {
    set(count, row.integer("moe_experts"));
    set("num_experts_per_tok", row.integer("moe_topk"));
    set("moe_intermediate_size", row.integer("moe_expert_ffn"));
  }
  rt::JsonWriter out;

private:
  /// GPT-2's, padded, where a row does not say.
  static constexpr int64_t kVocabulary = 51200;
  const Row &row;
};

} // namespace

/// Gated MLPs are 8/3 wide, in steps of 256; the others 4.
static int64_t ffnOf(const Row &row, bool gated) {
  const int64_t hidden = row.integer("hidden");
  return row.integer("ffn", gated ? (hidden * 8 / 3 + 255) / 256 * 256 : 4 * hidden);
}

static std::string latentConfig(const Row &row) {
  ConfigWriter config(row, "deepseek_v3");
  config.set("num_key_value_heads", row.integer("heads"));
  config.set("intermediate_size", ffnOf(row, true));
  config.setExperts("n_routed_experts");
  config.set("n_shared_experts", row.integer("moe_shared_experts"));
  config.set("first_k_dense_replace", noted(row, "first ([0-9]{1,9}) layer", 0));
  config.set("q_lora_rank", noted(row, "q_lora ([0-9]{1,9})", 1536));
  config.set("kv_lora_rank", noted(row, "kv_lora ([0-9]{1,9})", 512));
  config.set("qk_nope_head_dim", noted(row, "nope ([0-9]{1,9})", 128));
  config.set("qk_rope_head_dim", noted(row, "rope ([0-9]{1,9})", 64));
  config.set("v_head_dim", noted(row, " v ([0-9]{1,9})", 128));
  config.set("n_group", 1);
  config.set("topk_group", 1);
  return config.out.endObject().take();
}

static std::string expertConfig(const Row &row, bool windows) {
  ConfigWriter config(row, windows ? "gpt_oss" : "qwen3_moe");
  config.setHeads();
  if (windows) {
    config.set("sliding_window", noted(row, "window ([0-9]{1,9})", 128));
    config.set("num_local_experts", row.integer("moe_experts"));
    config.set("num_experts_per_tok", row.integer("moe_topk"));
    config.set("intermediate_size", row.integer("moe_expert_ffn"));
  } else {
    config.set("intermediate_size", ffnOf(row, true));
    config.setExperts("num_experts");
  }
  return config.out.endObject().take();
}

std::string configOf(const Row &row) {
  const bool gated = row.text("ffn_type") == "swiglu" || row.text("ffn_type") == "geglu";
  if (row.has("moe_experts")) {
    const std::string &note = row.text("moe_note");
    if (note.find("MLA") != std::string::npos)
      return latentConfig(row);
    return expertConfig(row, note.find("sliding window") != std::string::npos);
  }
  if (gated) {
    ConfigWriter config(row, "llama");
    config.setHeads();
    config.set("intermediate_size", ffnOf(row, true));
    return config.out.endObject().take();
  }
  // As in Megatron, BLOOM and MPT.
  ConfigWriter config(row, "gpt2", /*tied=*/true);
  config.set("n_inner", ffnOf(row, false));
  return config.out.endObject().take();
}

} // namespace cleave::validate
