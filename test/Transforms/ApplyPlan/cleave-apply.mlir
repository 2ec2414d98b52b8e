// RUN: cleave-opt %s -cleave-autodiff-differentiate -cleave-apply | FileCheck %s
// RUN: cleave-opt %s -cleave-autodiff-differentiate -cleave-apply="beta1=0.5 clip-norm=0 weight-decay=0.25" | FileCheck %s --check-prefix=OPTIONS

// OPTIONS: nn.clip_scale
// OPTIONS-NOT: clip
// OPTIONS: nn.adamw {{.*}}beta1 = 5.000000e-01{{.*}}weight_decay = 2.500000e-01

#t = #nn.dims<batch, sequence>
#bsm = #nn.dims<batch, sequence, model>
#fm = #nn.dims<ffn, model>
#bsf = #nn.dims<batch, sequence, ffn>
#vm = #nn.dims<vocab, model>

// The plan is gone, the mesh is there, and the kind is cut in two.
// CHECK-NOT: plan.solution
// CHECK: nn.accumulator @step.valid : tensor<f32>
// CHECK: nn.accumulator @step.scale : tensor<f32>
// CHECK: nn.accumulator @step.loss : tensor<f32>
// CHECK: nn.accumulator @step.squares : tensor<f32>
// CHECK: dist.mesh @mesh ["data", "tensor"] = [2, 2]
// CHECK: nn.parameter @layers.0.up {{.*}}dist.gradient = #dist.sharding<{{\[\[}}tensor], []]>, dist.moment1 = #dist.sharding<{{\[\[}}tensor], []]>, dist.moment2 = #dist.sharding<{{\[\[}}tensor], []]>, dist.reduced = #dist.sharding<{{\[\[}}tensor], []]>, dist.value = #dist.sharding<{{\[\[}}tensor], []]>

// CHECK-LABEL: func.func private @layer.forward
// CHECK-SAME: tensor<4x3x6xf32, #{{.*}}> {dist.sharding = #dist.sharding<{{\[\[}}data], [], []]>
// CHECK: nn.contract {{.*}}dist.factors = {batch = ["data"], ffn = ["tensor"]}
// The input of relu is saved for its gradient.
// CHECK: return %{{.*}}, %[[H:.*]] : tensor<f32>, tensor<4x3x8xf32,
// CHECK-LABEL: func.func private @layer.backward
// CHECK: nn.relu_grad
// CHECK: nn.contract {{.*}}dist.factors = {batch = ["data"], ffn = ["tensor"]}

// CHECK-NOT: @layer.joint
// CHECK-NOT: @forward
// CHECK: func.func @count(%{{.*}}: tensor<4x3xi32, {{.*}}> {dist.sharding = #dist.sharding<{{\[\[}}data], []]>
// CHECK: func.func @prepare() -> (tensor<f32> {dist.sharding = #dist.sharding<[]>, nn.name = "valid"})
// CHECK: func.func @microbatch
// CHECK: call @layer.forward
// CHECK: nn.accumulate %{{.*}}, @step.loss value
// CHECK: call @layer.backward
// CHECK: nn.accumulate %{{.*}}, @layers.0.up gradient
// CHECK: call @embed.backward
// CHECK: nn.accumulate %{{.*}}, @table gradient
// CHECK: func.func @update
// CHECK: %[[G:.*]] = nn.load @layers.0.up gradient
// CHECK: nn.store %[[G]], @layers.0.up reduced
// CHECK: %[[R:.*]] = nn.load @layers.0.up reduced
// CHECK: %[[S:.*]] = nn.sum_squares %[[R]]
// CHECK: nn.accumulate %[[S]], @step.squares value
// CHECK: nn.clip_scale
// CHECK: nn.adamw
// CHECK: func.func @evaluate
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
  plan.parameter "up" {ffn = ["tensor"]}
  plan.assign "layer" "up" {batch = ["data"], ffn = ["tensor"]}
}
