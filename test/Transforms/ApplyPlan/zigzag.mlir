// RUN: cleave-opt %s -split-input-file -verify-diagnostics -cleave-autodiff-differentiate -cleave-apply | FileCheck %s

// Inputs come in the order of the plan, and attention is not told that they come in order.
#vkd = #nn.dims<vocab, kv_head, head_dim>
#bs = #nn.dims<batch, sequence>
#bskd = #nn.dims<batch, sequence, kv_head, head_dim>
#bsk = #nn.dims<batch, sequence, kv_head>
nn.parameter @e : tensor<5x2x4xf32, #vkd> {file_shape = array<i64: 5, 8>, init_mean = 0.0 : f64, init_std = 0.02 : f64}
// CHECK-LABEL: func.func private @kind.forward
// CHECK: nn.attention {{.*}} {dist.factors = {sequence = ["context"]}, nn.path = "scores", scale = 5.000000e-01 : f64}
// CHECK: func.func @count(%{{.*}} {dist.sharding = #dist.sharding<{{\[\[\], \[\]\]}}>, nn.name = "targets", nn.zigzag = 2 : i64})
// CHECK: func.func @microbatch({{.*}}nn.name = "tokens", nn.zigzag = 2 : i64}, {{.*}}nn.name = "targets", nn.zigzag = 2 : i64}, {{.*}}nn.name = "positions", nn.zigzag = 2 : i64})
// CHECK: func.func @update({{.*}}nn.name = "rate"},
func.func private @kind(%t: tensor<?x?xi32, #bs> {nn.name = "tokens"}, %p: tensor<?x?xi32, #bs> {nn.name = "positions"}, %e: tensor<5x2x4xf32, #vkd> {nn.parameter = "e"}, %scale: tensor<f32> {nn.name = "scale"}) -> tensor<f32> attributes {nn.kind = "kind"} {
  %x = nn.embedding %e, %t : (tensor<5x2x4xf32, #vkd>, tensor<?x?xi32, #bs>) -> tensor<?x?x2x4xf32, #bskd>
  %y, %lse = nn.attention %x, %x, %x, %p, %p {scale = 0.5 : f64, nn.path = "scores"} : (tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2x4xf32, #bskd>, tensor<?x?xi32, #bs>, tensor<?x?xi32, #bs>) -> (tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2xf32, #bsk>)
  %s = nn.sum %y : (tensor<?x?x2x4xf32, #bskd>) -> tensor<f32>
  %l = nn.mul %s, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
func.func @forward(%t: tensor<?x?xi32, #bs>, %targets: tensor<?x?xi32, #bs>, %p: tensor<?x?xi32, #bs>, %scale: tensor<f32>) -> tensor<f32> attributes {nn.entry = "forward"} {
  %e = nn.load @e value : tensor<5x2x4xf32, #vkd>
  %l = call @kind(%t, %p, %e, %scale) : (tensor<?x?xi32, #bs>, tensor<?x?xi32, #bs>, tensor<5x2x4xf32, #vkd>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 2 micro 2 sequence 7 zigzag ["context"]
  plan.axis "context" [2]
  plan.layout {sequence = ["context"]}
  plan.assign "kind" "scores" {sequence = ["context"]}
}

// -----

// Without another order it is told so.
#vkd = #nn.dims<vocab, kv_head, head_dim>
#bs = #nn.dims<batch, sequence>
#bskd = #nn.dims<batch, sequence, kv_head, head_dim>
#bsk = #nn.dims<batch, sequence, kv_head>
nn.parameter @e : tensor<5x2x4xf32, #vkd> {file_shape = array<i64: 5, 8>, init_mean = 0.0 : f64, init_std = 0.02 : f64}
// CHECK-LABEL: func.func private @kind.forward
// What is no position of a token stays what it is.
// CHECK: nn.attention %[[X:[^,]*]], %[[X]], %[[X]], %[[P:[^,]*]], %[[P]] {nn.path = "scores", ordered, scale = 5.000000e-01 : f64}
// CHECK: nn.attention %{{.*}}, %[[P]], %{{.*}} {nn.path = "others", scale = 5.000000e-01 : f64}
// CHECK-NOT: nn.zigzag
func.func private @kind(%t: tensor<?x?xi32, #bs> {nn.name = "tokens"}, %p: tensor<?x?xi32, #bs> {nn.name = "positions"}, %e: tensor<5x2x4xf32, #vkd> {nn.parameter = "e"}, %scale: tensor<f32> {nn.name = "scale"}) -> tensor<f32> attributes {nn.kind = "kind"} {
  %x = nn.embedding %e, %t : (tensor<5x2x4xf32, #vkd>, tensor<?x?xi32, #bs>) -> tensor<?x?x2x4xf32, #bskd>
  %y, %lse = nn.attention %x, %x, %x, %p, %p {scale = 0.5 : f64, nn.path = "scores"} : (tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2x4xf32, #bskd>, tensor<?x?xi32, #bs>, tensor<?x?xi32, #bs>) -> (tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2xf32, #bsk>)
  %z, %lse2 = nn.attention %y, %y, %y, %p, %t {scale = 0.5 : f64, nn.path = "others"} : (tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2x4xf32, #bskd>, tensor<?x?xi32, #bs>, tensor<?x?xi32, #bs>) -> (tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2xf32, #bsk>)
  %s = nn.sum %z : (tensor<?x?x2x4xf32, #bskd>) -> tensor<f32>
  %l = nn.mul %s, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
func.func @forward(%t: tensor<?x?xi32, #bs>, %targets: tensor<?x?xi32, #bs>, %p: tensor<?x?xi32, #bs>, %scale: tensor<f32>) -> tensor<f32> attributes {nn.entry = "forward"} {
  %e = nn.load @e value : tensor<5x2x4xf32, #vkd>
  %l = call @kind(%t, %p, %e, %scale) : (tensor<?x?xi32, #bs>, tensor<?x?xi32, #bs>, tensor<5x2x4xf32, #vkd>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 2 micro 2 sequence 7
  plan.axis "context" [2]
  plan.layout {}
}

// -----

#vkd = #nn.dims<vocab, kv_head, head_dim>
#bs = #nn.dims<batch, sequence>
#bskd = #nn.dims<batch, sequence, kv_head, head_dim>
#bsk = #nn.dims<batch, sequence, kv_head>
nn.parameter @e : tensor<5x2x4xf32, #vkd> {file_shape = array<i64: 5, 8>, init_mean = 0.0 : f64, init_std = 0.02 : f64}
func.func private @kind(%t: tensor<?x?xi32, #bs> {nn.name = "tokens"}, %e: tensor<5x2x4xf32, #vkd> {nn.parameter = "e"}, %scale: tensor<f32> {nn.name = "scale"}) -> tensor<f32> attributes {nn.kind = "kind"} {
  %x = nn.embedding %e, %t : (tensor<5x2x4xf32, #vkd>, tensor<?x?xi32, #bs>) -> tensor<?x?x2x4xf32, #bskd>
  // expected-note@below {{given: an operator without positions}}
  %y, %lse = nn.attention %x, %x, %x {scale = 0.5 : f64} : (tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2x4xf32, #bskd>) -> (tensor<?x?x2x4xf32, #bskd>, tensor<?x?x2xf32, #bsk>)
  %s = nn.sum %y : (tensor<?x?x2x4xf32, #bskd>) -> tensor<f32>
  %l = nn.mul %s, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
func.func @forward(%t: tensor<?x?xi32, #bs>, %targets: tensor<?x?xi32, #bs>, %p: tensor<?x?xi32, #bs>, %scale: tensor<f32>) -> tensor<f32> attributes {nn.entry = "forward"} {
  %e = nn.load @e value : tensor<5x2x4xf32, #vkd>
  %l = call @kind(%t, %e, %scale) : (tensor<?x?xi32, #bs>, tensor<5x2x4xf32, #vkd>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
plan.solution version 1 {
  // expected-error@below {{plan.zigzag_unsupported: 'nn.attention' takes the rows of a sequence for its positions}}
  // expected-note@below {{rule: tokens stand in another order only if every operator that compares them is given their positions}}
  // expected-note@below {{suggestion: remove zigzag from plan.batch}}
  plan.batch global 2 micro 2 sequence 7 zigzag ["context"]
  plan.axis "context" [2]
  plan.layout {}
}
