// RUN: cleave-opt %s -cleave-autodiff-differentiate -cleave-precision-insert-casts | FileCheck %s

// A product that no line makes narrow takes what was made in its forward, and what was kept of
// it in the backward.

#bsm = #nn.dims<batch, sequence, model>
#bsf = #nn.dims<batch, sequence, ffn>
#bse = #nn.dims<batch, sequence, expert>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#em = #nn.dims<expert, model>
#t = #nn.dims<batch, sequence>
#vm = #nn.dims<vocab, model>

nn.parameter @up : tensor<8x6xf32, #fm> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64, decay}
nn.parameter @router : tensor<3x6xf32, #em> {file_shape = array<i64: 3, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64, decay}
nn.parameter @weight : tensor<6xf32, #m> {file_shape = array<i64: 6>, init_mean = 1.0 : f64, init_std = 0.0 : f64}
nn.parameter @table : tensor<7x6xf32, #vm> {file_shape = array<i64: 7, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

func.func private @embed(%tokens: tensor<?x?xi32, #t>, %table: tensor<7x6xf32, #vm> {nn.parameter = "table"}) -> tensor<?x?x6xf32, #bsm> attributes {nn.kind = "embed"} {
  %x = nn.embedding %table, %tokens {nn.path = "embed"} : (tensor<7x6xf32, #vm>, tensor<?x?xi32, #t>) -> tensor<?x?x6xf32, #bsm>
  return %x : tensor<?x?x6xf32, #bsm>
}

// CHECK-LABEL: func.func private @layer.joint
// CHECK-SAME: %{{[^:]*}}: tensor<?x?x6xf32, {{.*}}, %[[UP:[^:]*]]: tensor<8x6xf32, {{.*}}, %[[ROUTER:[^:]*]]: tensor<3x6xf32,
// CHECK: %[[N:.*]], %{{.*}} = nn.rms_norm
// CHECK: %[[N16:.*]] = nn.cast %[[N]] {nn.path = "norm"} : {{.*}} -> tensor<?x?x6xbf16,
// CHECK: nn.contract %[[N]], %[[ROUTER]] {nn.path = "router"} : {{.*}}xf32, {{.*}}xf32, {{.*}} -> tensor<?x?x3xf32,
// CHECK: nn.contract %[[N16]], %{{.*}} {nn.path = "up"} : {{.*}}xbf16, {{.*}}xbf16, {{.*}} -> tensor<?x?x8xf32,
// CHECK-NOT: %[[N]],
// CHECK: %[[BACK:.*]] = nn.cast %[[N16]] : {{.*}} -> tensor<?x?x6xf32,
// CHECK: nn.contract %{{.*}}, %[[BACK]] {nn.path = "router"} : {{.*}} -> tensor<3x6xf32,
func.func private @layer(%x: tensor<?x?x6xf32, #bsm>, %up: tensor<8x6xf32, #fm> {nn.parameter = "up"}, %router: tensor<3x6xf32, #em> {nn.parameter = "router"}, %weight: tensor<6xf32, #m> {nn.parameter = "weight"}, %scale: tensor<f32>) -> tensor<f32> attributes {nn.kind = "layer"} {
  %n, %rstd = nn.rms_norm %x, %weight {nn.path = "norm", eps = 1.0e-5 : f64} : (tensor<?x?x6xf32, #bsm>, tensor<6xf32, #m>) -> (tensor<?x?x6xf32, #bsm>, tensor<?x?xf32, #t>)
  %r = nn.contract %n, %router {nn.path = "router"} : (tensor<?x?x6xf32, #bsm>, tensor<3x6xf32, #em>) -> tensor<?x?x3xf32, #bse>
  %h = nn.contract %n, %up {nn.path = "up"} : (tensor<?x?x6xf32, #bsm>, tensor<8x6xf32, #fm>) -> tensor<?x?x8xf32, #bsf>
  %a = nn.sum %h {nn.path = "sum"} : (tensor<?x?x8xf32, #bsf>) -> tensor<f32>
  %b = nn.sum %r {nn.path = "sum.r"} : (tensor<?x?x3xf32, #bse>) -> tensor<f32>
  %c = nn.mul %a, %b {nn.path = "mul"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %l = nn.mul %c, %scale {nn.path = "loss"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

func.func @forward(%tokens: tensor<?x?xi32, #t>, %targets: tensor<?x?xi32, #t>, %positions: tensor<?x?xi32, #t>, %scale: tensor<f32>) -> tensor<f32> attributes {nn.entry = "forward"} {
  %table = nn.load @table value : tensor<7x6xf32, #vm>
  %up = nn.load @up value : tensor<8x6xf32, #fm>
  %router = nn.load @router value : tensor<3x6xf32, #em>
  %weight = nn.load @weight value : tensor<6xf32, #m>
  %x = call @embed(%tokens, %table) : (tensor<?x?xi32, #t>, tensor<7x6xf32, #vm>) -> tensor<?x?x6xf32, #bsm>
  %l = call @layer(%x, %up, %router, %weight, %scale) : (tensor<?x?x6xf32, #bsm>, tensor<8x6xf32, #fm>, tensor<3x6xf32, #em>, tensor<6xf32, #m>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

plan.solution version 1 {
  plan.batch global 4 micro 4 sequence 3
  plan.layout {}
  plan.precision "layer" "norm" store bf16
  plan.precision "layer" "up" compute bf16 store bf16
}
