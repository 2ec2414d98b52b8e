//===- Families.h - One declaration per family -------------------------------===//
#pragma once

#include "lib/Frontend/Family.h"

namespace cleave::frontend {

/// BLOOM and MPT: positions as slopes on scores.
extern const Family bloomFamily, mptFamily;
/// DBRX: LayerNorm, experts.
extern const Family dbrxFamily;
/// DeepSeek V2 and V3, Kimi K2: latent attention, experts beside shared ones.
extern const Family deepSeekV2Family, deepSeekV3Family, kimiK2Family;
/// Falcon: LayerNorm, parallel branches, one key head for many queries.
extern const Family falconFamily;
/// Gemma: Llama's layers with other norms; later ones with a window in some layers.
extern const Family gemmaFamily, gemma2Family, gemma3TextFamily, gemma4TextFamily;
/// GPT-2: learned positions, LayerNorm, one fused matrix for q, k and v.
extern const Family gpt2Family;
/// GPT-NeoX, Pythia: LayerNorm, parallel branches, rope on a part of each head.
extern const Family gptNeoXFamily;
/// gpt-oss: experts, sinks, a window in some layers.
extern const Family gptOssFamily;
/// Llama 1 to 3.2: RMSNorm, rotary positions, grouped queries, gated MLP.
extern const Family llamaFamily;
/// The text of Llama 4: experts, attention in chunks.
extern const Family llama4TextFamily;
/// MiniMax M2: experts, norms on queries and keys.
extern const Family miniMaxM2Family;
/// Mistral: Llama's layers, attention within a window; Mixtral: experts.
extern const Family mistralFamily, mixtralFamily;
/// OLMo 2: norms behind the branches.
extern const Family olmo2Family;
/// OPT: learned positions, LayerNorm.
extern const Family optFamily;
/// Phi: LayerNorm, parallel branches; Phi-3: Llama's layers in fused matrices.
extern const Family phiFamily, phi3Family;
/// Qwen2 and 2.5: Llama's layers, biases on q, k and v.
extern const Family qwen2Family;
/// Qwen3: Llama's layers, norms on the heads of q and k.
extern const Family qwen3Family;
/// The same with experts.
extern const Family qwen2MoeFamily, qwen3MoeFamily, qwen3VlMoeTextFamily;

/// Keys that stand beside or in the text of models that also see or hear.
std::span<const ConfigKey> otherMediaKeys();

} // namespace cleave::frontend
