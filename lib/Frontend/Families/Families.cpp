//===- Families.cpp - The families, and what they share ----------------------===//

#include "lib/Frontend/Families/Families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cleave::frontend {

std::span<const Family *const> families() {
  static constexpr const Family *all[] = {
      &bloomFamily,      &dbrxFamily,    &deepSeekV2Family, &deepSeekV3Family,
      &falconFamily,     &gemmaFamily,   &gemma2Family,     &gemma3TextFamily,
      &gemma4TextFamily, &gpt2Family,    &gptNeoXFamily,    &gptOssFamily,
      &kimiK2Family,     &llamaFamily,   &llama4TextFamily, &miniMaxM2Family,
      &mistralFamily,    &mixtralFamily, &mptFamily,        &olmo2Family,
      &optFamily,        &phiFamily,     &phi3Family,       &qwen2Family,
      &qwen2MoeFamily,   &qwen3Family,   &qwen3MoeFamily,   &qwen3VlMoeTextFamily,
  };
  return all;
}

std::span<const Wrapper> wrappers() {
  static constexpr Wrapper all[] = {
      {"gemma3", "Gemma3ForConditionalGeneration", "text_config", "gemma3_text"},
      {"gemma4", "Gemma4ForConditionalGeneration", "text_config", "gemma4_text"},
      {"llama4", "Llama4ForConditionalGeneration", "text_config", "llama4_text"},
      {"qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", "text_config", "qwen3_vl_moe_text"},
  };
  return all;
}

std::span<const ConfigKey> otherMediaKeys() {
  static constexpr std::string_view media = "only the text model is compiled";
  static constexpr ConfigKey keys[] = {
      ignored("vision_config", media),
      ignored("audio_config", media),
      ignored("mm_tokens_per_image", media),
      ignored("boi_token_index", media),
      ignored("eoi_token_index", media),
      ignored("image_token_index", media),
      ignored("boi_token_id", media),
      ignored("eoi_token_id", media),
      ignored("image_token_id", media),
      ignored("video_token_id", media),
      ignored("boa_token_id", media),
      ignored("eoa_token_id", media),
      ignored("eoa_token_index", media),
      ignored("audio_token_id", media),
      ignored("vision_soft_tokens_per_image", media),
      ignored("vision_start_token_id", media),
      ignored("vision_end_token_id", media),
  };
  return keys;
}

std::span<const ConfigKey> commonKeys() {
  static constexpr std::string_view token = "which token it is does not change the model";
  static constexpr std::string_view inference = "for inference only";
  static constexpr std::string_view origin = "where the file comes from";
  static constexpr std::string_view outputs = "what transformers returns";
  static constexpr ConfigKey keys[] = {
      {"model_type", KeyType::Text, KeyUse::Required, {}, 0, 0, "the family"},
      {"torch_dtype", KeyType::Text, KeyUse::Derived, {}, 0, 0, "type of the stored weights"},
      {"dtype", KeyType::Text, KeyUse::Derived, {}, 0, 0, "type of the stored weights"},
      fixed("is_encoder_decoder", KeyType::Bool, false, "only decoders are built"),
      fixed("add_cross_attention", KeyType::Bool, false, "there is no encoder to attend to"),
      ignored("architectures", "the family follows from model_type"),
      ignored("auto_map", "code of others is not run"),
      ignored("transformers_version", origin),
      ignored("_name_or_path", origin),
      ignored("_commit_hash", origin),
      ignored("use_cache", inference),
      ignored("is_decoder", "the mask is causal in either case"),
      ignored("bos_token_id", token),
      ignored("eos_token_id", token),
      ignored("pad_token_id", "training data holds no padding"),
      ignored("sep_token_id", token),
      ignored("tokenizer_class", "tokens come from a file"),
      ignored("task_specific_params", inference),
      ignored("gradient_checkpointing", "the planner decides what is recomputed"),
      ignored("pretraining_tp", "the planner decides how tensors are cut"),
      ignored("quantization_config", "how weights were stored; training starts in full precision"),
      ignored("return_dict", outputs),
      ignored("output_attentions", outputs),
      ignored("output_hidden_states", outputs),
      ignored("output_past", outputs),
      ignored("torchscript", outputs),
  };
  return keys;
}

int64_t largestDivisor(int64_t n, int64_t limit) {
  int64_t divisor = std::min(n, limit);
  while (n % divisor)
    --divisor;
  return divisor;
}

rt::StatusOr<Activation> readActivation(const Config &config, std::string_view key) {
  struct Row {
    std::string_view name;
    Activation function;
  };
  static constexpr Row rows[] = {
      {"silu", Activation::Silu},          {"gelu", Activation::Gelu},
      {"gelu_new", Activation::GeluTanh},  {"gelu_pytorch_tanh", Activation::GeluTanh},
      {"gelu_fast", Activation::GeluTanh}, {"relu", Activation::Relu},
  };
  const std::string &name = config.text(key);
  std::vector<std::string_view> names;
  for (const Row &row : rows) {
    if (row.name == name)
      return row.function;
    names.push_back(row.name);
  }
  return config
      .error("config.activation_unsupported", key,
             fmt::format("activation \"{}\" is not supported", name))
      .withRule(fmt::format("\"{}\" is one of {}", key, fmt::join(names, ", ")))
      .suggest("\"silu\"");
}

} // namespace cleave::frontend
