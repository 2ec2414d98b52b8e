// RUN: cleave-opt %s -split-input-file -cleave-autodiff-differentiate -cleave-apply | FileCheck %s

// What a kind reads of the whole batch is counted by a survey before `prepare` where a step has
// several micro-batches (here two); it goes no further than it must. One that has the batch
// alone knows it, and nothing is run twice.

// CHECK: nn.accumulator @step.terms : tensor<f32>
// CHECK: nn.accumulator @step.sum.0 : tensor<f32>
// CHECK: func.func @count
// CHECK: func.func @survey(
// CHECK-NOT: @layer.forward
// CHECK: %[[C:.*]] = call @counts.forward
// CHECK-NOT: call
// CHECK: nn.accumulate %[[C]], @step.sum.0 value
// CHECK-NEXT: return
// CHECK: func.func @prepare
// CHECK: func.func @microbatch
// CHECK: call @counts.forward
// CHECK: %[[ALL:.*]] = nn.load @step.sum.0 value
// CHECK: %[[TERM:.*]] = call @term.forward(%{{.*}}, %[[ALL]])
// CHECK: call @layer.forward
// CHECK: nn.accumulate %[[TERM]], @step.terms value
// CHECK: call @term.backward
// CHECK: func.func @update{{.*}}nn.name = "objective"
// CHECK: func.func @evaluate
// CHECK-NOT: @term.forward
// CHECK: return

// CHECK: nn.accumulator @step.terms : tensor<f32>
// CHECK-NOT: @step.sum
// CHECK-NOT: @survey
// CHECK: func.func @microbatch
// CHECK: %[[OWN:.*]] = call @counts.forward
// CHECK: call @term.forward(%{{.*}}, %[[OWN]])
#t = #nn.dims<batch, sequence>
nn.parameter @w : tensor<f32> {file_shape = array<i64>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
func.func private @counts(%x: tensor<?x?xi32, #t>) -> tensor<f32> attributes {nn.kind = "counts"} {
  %n = nn.count_valid %x : (tensor<?x?xi32, #t>) -> tensor<f32>
  return %n : tensor<f32>
}
func.func private @term(%w: tensor<f32> {nn.parameter = "w"}, %all: tensor<f32>) -> tensor<f32> attributes {nn.kind = "term"} {
  %y = nn.mul %w, %all : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func private @layer(%w: tensor<f32> {nn.parameter = "w"}, %s: tensor<f32>) -> tensor<f32> attributes {nn.kind = "layer"} {
  %y = nn.mul %w, %s : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func @forward(%tokens: tensor<?x?xi32, #t>, %targets: tensor<?x?xi32, #t>, %positions: tensor<?x?xi32, #t>, %scale: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {nn.entry = "forward"} {
  %w = nn.load @w value : tensor<f32>
  %n = call @counts(%tokens) : (tensor<?x?xi32, #t>) -> tensor<f32>
  %all = nn.batch_sum %n : tensor<f32>
  %term = call @term(%w, %all) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %loss = call @layer(%w, %scale) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss, %term : tensor<f32>, tensor<f32>
}
plan.solution version 1 {
  plan.batch global 4 micro 2 sequence 3
  plan.axis "data" [1]
  plan.layout {}
}

// -----

#t = #nn.dims<batch, sequence>
nn.parameter @w : tensor<f32> {file_shape = array<i64>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
func.func private @counts(%x: tensor<?x?xi32, #t>) -> tensor<f32> attributes {nn.kind = "counts"} {
  %n = nn.count_valid %x : (tensor<?x?xi32, #t>) -> tensor<f32>
  return %n : tensor<f32>
}
func.func private @term(%w: tensor<f32> {nn.parameter = "w"}, %all: tensor<f32>) -> tensor<f32> attributes {nn.kind = "term"} {
  %y = nn.mul %w, %all : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func private @layer(%w: tensor<f32> {nn.parameter = "w"}, %s: tensor<f32>) -> tensor<f32> attributes {nn.kind = "layer"} {
  %y = nn.mul %w, %s : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func @forward(%tokens: tensor<?x?xi32, #t>, %targets: tensor<?x?xi32, #t>, %positions: tensor<?x?xi32, #t>, %scale: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {nn.entry = "forward"} {
  %w = nn.load @w value : tensor<f32>
  %n = call @counts(%tokens) : (tensor<?x?xi32, #t>) -> tensor<f32>
  %all = nn.batch_sum %n : tensor<f32>
  %term = call @term(%w, %all) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %loss = call @layer(%w, %scale) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss, %term : tensor<f32>, tensor<f32>
}
plan.solution version 1 {
  plan.batch global 4 micro 4 sequence 3
  plan.axis "data" [1]
  plan.layout {}
}
