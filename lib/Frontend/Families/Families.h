//===- Families.h - One declaration per family -------------------------------===//
#pragma once

#include "lib/Frontend/Family.h"

namespace cleave::frontend {

/// GPT-2: learned positions, LayerNorm, one fused matrix for q, k and v.
extern const Family gpt2Family;
/// Llama 1 to 3.2: RMSNorm, rotary positions, grouped queries, gated MLP.
extern const Family llamaFamily;

} // namespace cleave::frontend
