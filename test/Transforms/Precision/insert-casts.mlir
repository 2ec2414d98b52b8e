// RUN: cleave-opt %s -cleave-autodiff-differentiate -cleave-precision-insert-casts | FileCheck %s
// RUN: cleave-opt %s -cleave-autodiff-differentiate -cleave-precision-insert-casts -cleave-apply | FileCheck %s --check-prefix=KEPT

#bsm = #nn.dims<batch, sequence, model>
#bsf = #nn.dims<batch, sequence, ffn>
#fm = #nn.dims<ffn, model>
#t = #nn.dims<batch, sequence>
#vm = #nn.dims<vocab, model>

nn.parameter @layers.0.up : tensor<8x6xf32, #fm> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64, decay}
nn.parameter @table : tensor<7x6xf32, #vm> {file_shape = array<i64: 7, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

func.func private @embed(%tokens: tensor<?x?xi32, #t>, %table: tensor<7x6xf32, #vm> {nn.parameter = "table"}) -> tensor<?x?x6xf32, #bsm> attributes {nn.kind = "embed"} {
  %x = nn.embedding %table, %tokens {nn.path = "embed"} : (tensor<7x6xf32, #vm>, tensor<?x?xi32, #t>) -> tensor<?x?x6xf32, #bsm>
  return %x : tensor<?x?x6xf32, #bsm>
}

// What the kind is given is rounded for the products of each half.
// CHECK-LABEL: func.func private @layer.joint
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x?x6xf32, {{.*}}, %[[W:[^:]*]]: tensor<8x6xf32, {{.*}}, %{{[^:]*}}: tensor<f32>, %{{[^:]*}}: tensor<f32>)
// CHECK: %[[X16:.*]] = nn.cast %[[X]] : {{.*}} -> tensor<?x?x6xbf16,
// CHECK: %[[W16:.*]] = nn.cast %[[W]] : {{.*}} -> tensor<8x6xbf16,
// CHECK: %[[H:.*]] = nn.contract %[[X16]], %[[W16]] {nn.path = "up"} : {{.*}}xbf16, {{.*}}xbf16, {{.*}} -> tensor<?x?x8xf32,

// The result is rounded where it is made; each reader widens it for itself.
// CHECK: %[[H16:.*]] = nn.cast %[[H]] {nn.path = "up"} : {{.*}} -> tensor<?x?x8xbf16,
// CHECK: %[[F:.*]] = nn.cast %[[H16]] : {{.*}} -> tensor<?x?x8xf32,
// CHECK: nn.relu %[[F]]
// CHECK: %[[B:.*]] = nn.cast %[[H16]] : {{.*}} -> tensor<?x?x8xf32,
// CHECK: %[[DH:.*]] = nn.relu_grad %[[B]],

// A gradient is rounded where it is made, for both products; they yield f32.
// CHECK: %[[DH16:.*]] = nn.cast %[[DH]] {nn.path = "act"} : {{.*}} -> tensor<?x?x8xbf16,
// CHECK: %[[W16B:.*]] = nn.cast %[[W]] :
// CHECK: %[[DX:.*]] = nn.contract %[[DH16]], %[[W16B]] {nn.path = "up"} : {{.*}} -> tensor<?x?x6xf32,
// CHECK: %[[X16B:.*]] = nn.cast %[[X]] :
// CHECK: %[[DW:.*]] = nn.contract %[[DH16]], %[[X16B]] {nn.path = "up"} : {{.*}} -> tensor<8x6xf32,
// CHECK: return %{{.*}}, %[[DX]], %[[DW]]

// The forward half keeps the rounded value alone.
// KEPT-LABEL: func.func private @layer.forward
// KEPT-SAME: -> (tensor<f32>, tensor<4x3x8xbf16,
func.func private @layer(%x: tensor<?x?x6xf32, #bsm>, %up: tensor<8x6xf32, #fm> {nn.parameter = "up"}, %scale: tensor<f32>) -> tensor<f32> attributes {nn.kind = "layer"} {
  %h = nn.contract %x, %up {nn.path = "up"} : (tensor<?x?x6xf32, #bsm>, tensor<8x6xf32, #fm>) -> tensor<?x?x8xf32, #bsf>
  %a = nn.relu %h {nn.path = "act"} : (tensor<?x?x8xf32, #bsf>) -> tensor<?x?x8xf32, #bsf>
  %s = nn.sum %a {nn.path = "sum"} : (tensor<?x?x8xf32, #bsf>) -> tensor<f32>
  %l = nn.mul %s, %scale {nn.path = "loss"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

func.func @forward(%tokens: tensor<?x?xi32, #t>, %targets: tensor<?x?xi32, #t>, %positions: tensor<?x?xi32, #t>, %scale: tensor<f32>) -> tensor<f32> attributes {nn.entry = "forward"} {
  %table = nn.load @table value : tensor<7x6xf32, #vm>
  %up = nn.load @layers.0.up value : tensor<8x6xf32, #fm>
  %x = call @embed(%tokens, %table) : (tensor<?x?xi32, #t>, tensor<7x6xf32, #vm>) -> tensor<?x?x6xf32, #bsm>
  %l = call @layer(%x, %up, %scale) : (tensor<?x?x6xf32, #bsm>, tensor<8x6xf32, #fm>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

plan.solution version 1 {
  plan.batch global 4 micro 4 sequence 3
  plan.layout {}
  plan.precision "layer" "up" compute bf16 store bf16
}
