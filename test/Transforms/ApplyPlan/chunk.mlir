// RUN: cleave-opt %s -cleave-autodiff-differentiate -cleave-apply | FileCheck %s

// The last kind in pieces: forward and backward of a piece in one repeat, the
// gradients of parameters and the loss added up, that of its input stacked.

#t = #nn.dims<batch, sequence>
#bsm = #nn.dims<batch, sequence, model>
#fm = #nn.dims<ffn, model>
#bsf = #nn.dims<batch, sequence, ffn>
#vm = #nn.dims<vocab, model>

// CHECK-LABEL: func.func private @layer.forward
// CHECK-SAME: tensor<2x3x6xf32,
// CHECK-LABEL: func.func private @layer.backward
// CHECK-LABEL: func.func @microbatch
// CHECK: %[[X:.*]] = call @embed.forward
// CHECK: %[[G:.*]] = nn.repeat 2 along ["batch", "sequence"] pieces [2, 1] blocks [2, 1] scan(%[[X]] : tensor<4x3x6xf32, {{.*}}>) stack(tensor<4x3x6xf32, {{.*}}>) {
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<2x3x6xf32,
// CHECK-NEXT: %[[W:.*]] = nn.load @layers.0.up value
// CHECK: %[[F:.*]]:2 = func.call @layer.forward(%[[P]], %[[W]],
// CHECK: nn.accumulate %[[F]]#0, @step.loss value
// CHECK: %[[B:.*]]:2 = func.call @layer.backward(
// CHECK: nn.accumulate %[[B]]#1, @layers.0.up gradient
// CHECK: nn.yield %[[B]]#0
// CHECK: call @embed.backward(%{{.*}}, %[[G]])
// CHECK-LABEL: func.func @evaluate
// CHECK: nn.repeat 2 along ["batch", "sequence"] pieces [2, 1] blocks [2, 1] scan(
// CHECK-NOT: backward
// CHECK: return

nn.parameter @layers.0.up : tensor<8x6xf32, #fm> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64, decay}
nn.parameter @table : tensor<7x6xf32, #vm> {file_shape = array<i64: 7, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

func.func private @embed(%tokens: tensor<?x?xi32, #t>, %table: tensor<7x6xf32, #vm> {nn.parameter = "table"}) -> tensor<?x?x6xf32, #bsm> attributes {nn.kind = "embed"} {
  %x = nn.embedding %table, %tokens {nn.path = "embed"} : (tensor<7x6xf32, #vm>, tensor<?x?xi32, #t>) -> tensor<?x?x6xf32, #bsm>
  return %x : tensor<?x?x6xf32, #bsm>
}

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
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.axis "tensor" [2]
  plan.layout {batch = ["data"]}
  plan.chunk "layer" along ["batch", "sequence"] pieces [2, 1]
  plan.parameter "up" {ffn = ["tensor"]}
  plan.assign "layer" "up" {batch = ["data"], ffn = ["tensor"]}
}
