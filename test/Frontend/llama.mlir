// RUN: cleave compile %S/configs/t0.json --emit=nn | FileCheck %s --check-prefixes=CHECK,UNTIED
// RUN: cleave compile %S/configs/t0-tied.json --emit=nn | FileCheck %s --check-prefixes=CHECK,TIED
// RUN: cleave compile %S/configs/t0.json --emit=nn | cleave-opt | FileCheck %s --check-prefixes=CHECK,UNTIED
// RUN: cleave compile %S/configs/t0-llama31-rope.json --emit=nn | FileCheck %s --check-prefix=LLAMA31

// CHECK: module attributes {nn.family = "llama", nn.max_positions = 256 : i64, nn.vocab = 256 : i64}
// TIED: nn.parameter @model.embed_tokens.weight {{.*}} {aliases = ["lm_head.weight"], decay,
// UNTIED: nn.parameter @model.embed_tokens.weight : tensor<256x64xf32, {{.*}}> {decay, file_shape = array<i64: 256, 64>
// CHECK: nn.parameter @"model.layers.{0..3}.self_attn.q_proj.weight" : tensor<2x2x16x64xf32{{.*}}layers = array<i64: 0, 4, 1>
// UNTIED: nn.parameter @lm_head.weight
// TIED-NOT: lm_head

// CHECK-LABEL: func.func private @embed(
// CHECK: %[[ROWS:.*]] = nn.embedding
// CHECK: %[[ZERO:.*]] = nn.fill
// CHECK: return %[[ZERO]], %[[ROWS]]

// CHECK-LABEL: func.func private @block(
// CHECK-SAME: %[[R:[a-z0-9]+]]: {{[^%]*}}nn.name = "residual"
// CHECK-SAME: %[[P:[a-z0-9]+]]: {{[^%]*}}nn.name = "pending"
// CHECK-SAME: %[[POS:[a-z0-9]+]]: {{[^%]*}}nn.name = "positions"
// CHECK-SAME: nn.parameter = "self_attn.q_proj.weight"
// CHECK-SAME: attributes {nn.kind = "block", nn.sum = array<i64: 0, 1>}
// CHECK: %[[X:.*]] = nn.add %[[R]], %[[P]] {nn.path = "attention.residual"}
// CHECK: %[[H:[a-z0-9_]+]], {{.*}} = nn.rms_norm %[[X]]
// CHECK: %[[Q:.*]] = nn.contract %[[H]], {{.*}}nn.path = "attention.q"
// CHECK: %[[K:.*]] = nn.contract %[[H]], {{.*}}nn.path = "attention.k"
// CHECK: %[[V:.*]] = nn.contract %[[H]], {{.*}}nn.path = "attention.v"
// CHECK: %[[QR:.*]] = nn.rope %[[Q]], %[[POS]]
// LLAMA31: nn.rope {{.*}}frequencies = array<f64: 1.000000e+00,
// CHECK: %[[KR:.*]] = nn.rope %[[K]], %[[POS]]
// CHECK: %[[A:[a-z0-9_]+]], {{.*}} = nn.attention %[[QR]], %[[KR]], %[[V]], %[[POS]], %[[POS]] {nn.path = "attention.scores", scale = 2.500000e-01 : f64}
// CHECK: %[[O:.*]] = nn.contract %[[A]]
// CHECK: %[[Y:.*]] = nn.add %[[X]], %[[O]] {nn.path = "mlp.residual"}
// CHECK: %[[DOWN:.*]] = nn.contract {{.*}}nn.path = "mlp.down"
// CHECK: return %[[Y]], %[[DOWN]]

// CHECK-LABEL: func.func private @head(
// CHECK: nn.cross_entropy
// CHECK: nn.sum
// CHECK: nn.mul

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: nn.entry = "forward"
// CHECK: call @embed
// CHECK: nn.repeat 4 carry({{.*}}attributes {layers = array<i64: 0, 1>}
// CHECK: nn.load @"model.layers.{0..3}.input_layernorm.weight" value
// CHECK: %[[B:.*]]:2 = func.call @block
// CHECK-NOT: @block
// CHECK: nn.yield %[[B]]#0, %[[B]]#1
// UNTIED: nn.load @lm_head.weight value
// TIED: nn.load @model.embed_tokens.weight value
// CHECK: call @head
