// RUN: cleave-opt %s -cleave-autodiff-differentiate -cleave-apply | FileCheck %s

// Slots of one parameter in three places, and a kind that keeps nothing.

#t = #nn.dims<batch, sequence>
#bsm = #nn.dims<batch, sequence, model>
#fm = #nn.dims<ffn, model>
#bsf = #nn.dims<batch, sequence, ffn>
#vm = #nn.dims<vocab, model>

// CHECK: nn.parameter @layers.0.up {{.*}}dist.gradient = #dist.sharding<{{\[\[}}tensor], []]>, dist.moment1 = #dist.sharding<{{\[\[}}tensor, data], []]>, dist.moment2 = #dist.sharding<{{\[\[}}tensor, data], []]>, dist.reduced = #dist.sharding<{{\[\[}}tensor, data], []]>, dist.value = #dist.sharding<{{\[\[}}tensor], []]>

// A parameter that is stored in shares is whole over the data ranks where it is used.
// CHECK: nn.parameter @table {{.*}}dist.value = #dist.sharding<{{\[\[}}], [data]]>
// CHECK-LABEL: func.func private @embed.forward
// CHECK-SAME: dist.sharding = #dist.sharding<{{\[\[}}], []]>, nn.parameter = "table"

// Only the loss leaves the forward; the backward computes what relu was given.
// CHECK-LABEL: func.func private @layer.forward
// CHECK: return %{{[0-9a-z]*}} : tensor<f32>
// CHECK-LABEL: func.func private @layer.backward
// CHECK: %[[H:.*]] = nn.contract {{.*}}nn.path = "up"
// CHECK: nn.relu_grad %[[H]],

// The update is cut as the moments are.
// CHECK: nn.adamw {{.*}}dist.factors = {ffn = ["tensor", "data"], model = []}

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
  plan.parameter "up" {ffn = ["tensor"]} optimizer {ffn = ["tensor", "data"]}
  plan.parameter "table" {model = ["data"]}
  plan.recompute "layer" saved []
  plan.assign "layer" "up" {batch = ["data"], ffn = ["tensor"]}
}
