//===- Families.h - One declaration per family -------------------------------===//
#pragma once

#include "lib/Frontend/Family.h"

namespace cleave::frontend {

/// GPT-2: learned positions, LayerNorm, one fused matrix for q, k and v.
extern const Family gpt2Family;
/// Llama 1 to 3.2: RMSNorm, rotary positions, grouped queries, gated MLP.
extern const Family llamaFamily;
/// Mistral: Llama's layers, attention within a window.
extern const Family mistralFamily;
/// Qwen2 and 2.5: Llama's layers, biases on q, k and v.
extern const Family qwen2Family;
/// Qwen3: Llama's layers, norms on the heads of q and k.
extern const Family qwen3Family;

} // namespace cleave::frontend
