// RUN: cleave compile %S/configs/gpt2-mini.json --emit=nn | FileCheck %s
// RUN: cleave compile %S/configs/gpt2-mini.json --emit=nn | cleave-opt | FileCheck %s

// CHECK: module attributes {nn.family = "gpt2", nn.max_positions = 64 : i64, nn.vocab = 257 : i64}
// CHECK: nn.parameter @"transformer.h.{0..3}.attn.c_attn.weight" : tensor<64x3x4x16xf32, {{.*}}> {decay, file_shape = array<i64: 64, 192>
// CHECK: nn.parameter @"transformer.h.{0..3}.attn.c_attn.bias" : tensor<3x4x16xf32, {{.*}}> {file_shape = array<i64: 192>

// CHECK-LABEL: func.func private @embed(
// CHECK: %[[TOKEN:.*]] = nn.embedding {{.*}}nn.path = "embed.tokens"
// CHECK: %[[POSITION:.*]] = nn.embedding {{.*}}nn.path = "embed.positions"
// CHECK: return %[[TOKEN]], %[[POSITION]]

// CHECK-LABEL: func.func private @block(
// CHECK-SAME: %[[POS:[a-z0-9]*]]: {{[^%]*}}nn.name = "positions"
// CHECK: nn.layer_norm
// CHECK: %[[C:.*]] = nn.contract {{.*}}nn.path = "attention.qkv"
// CHECK: %[[B:.*]] = nn.add %[[C]], {{.*}}nn.path = "attention.qkv.bias"
// CHECK: %[[S:.*]]:3 = nn.unstack %[[B]] {dim = "qkv"
// CHECK: nn.attention %[[S]]#0, %[[S]]#1, %[[S]]#2, %[[POS]], %[[POS]]
// CHECK: nn.gelu {{.*}}tanh

// CHECK-LABEL: func.func @forward(
// CHECK: nn.load @transformer.wte.weight
// CHECK: call @embed
// CHECK: nn.load @transformer.wte.weight
// CHECK: call @head
