// RUN: cleave-opt %s -cleave-pipeline-cut | FileCheck %s

// A value that a later stage needs goes through the one between (%kept); a repeat that is
// cut carries on where it stopped; layers of a step of two keep their numbers.

// CHECK: dist.mesh @mesh ["pipe"] = [3]
// CHECK: module @part.0 attributes {pipe.axes = ["pipe"], pipe.index = 0 : i64, pipe.ranks = 3 : i64, pipe.stages = 3 : i64}
// CHECK:   nn.parameter @"w{1..3:2}.g"
// CHECK-SAME: layers = array<i64: 1, 2, 2>
// CHECK:   func.func @stage.0(%[[TOKENS:.*]]: tensor<2x4xi32{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}: tensor<f32>{{.*}}) -> (tensor<2x4xf32{{.*}}>, tensor<2x4xf32{{.*}}>)
// CHECK:     %[[KEPT:.*]] = call @start(%[[TOKENS]])
// CHECK:     %[[LAST:.*]] = nn.repeat 2 carry(%[[KEPT]] :
// CHECK-SAME: layers = array<i64: 1, 2>
// CHECK:       nn.load @"w{1..3:2}.g" value
// CHECK:     return %[[KEPT]], %[[LAST]]
// CHECK: module @part.1
// CHECK:   nn.parameter @"w{5..5:2}.g"
// CHECK:   func.func @stage.1(
// CHECK-SAME: %[[PASSED:[a-z0-9]+]]: tensor<2x4xf32, #batch_sequence>, %[[CARRIED:[a-z0-9]+]]: tensor<2x4xf32, #batch_sequence>) ->
// CHECK:     %[[NEXT:.*]] = nn.repeat 1 carry(%[[CARRIED]] :
// CHECK-SAME: layers = array<i64: 5, 2>
// CHECK:     return %[[PASSED]], %[[NEXT]]
// CHECK-NOT: @start
// CHECK: module @part.2
// CHECK:   func.func @stage.2(
// CHECK-NOT: nn.repeat
// CHECK:     call @end(
#t = #nn.dims<batch, sequence>
#m = #nn.dims<sequence>
nn.parameter @"w{1..5:2}.g" : tensor<4xf32, #m> {file_shape = array<i64: 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64, layers = array<i64: 1, 3, 2>}
func.func private @start(tensor<2x4xi32, #t>) -> tensor<2x4xf32, #t> attributes {nn.kind = "start"}
func.func private @layer(tensor<2x4xf32, #t>, tensor<4xf32, #m>) -> tensor<2x4xf32, #t> attributes {nn.kind = "layer"}
func.func private @end(tensor<2x4xf32, #t>, tensor<2x4xf32, #t>, tensor<f32>) -> tensor<f32> attributes {nn.kind = "end"}
func.func @forward(%tokens: tensor<2x4xi32, #t>, %targets: tensor<2x4xi32, #t>,
                   %positions: tensor<2x4xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  %kept = call @start(%tokens) : (tensor<2x4xi32, #t>) -> tensor<2x4xf32, #t>
  %last = nn.repeat 3 carry(%kept : tensor<2x4xf32, #t>) -> tensor<2x4xf32, #t> attributes {layers = array<i64: 1, 2>} {
  ^bb0(%x: tensor<2x4xf32, #t>):
    %w = nn.load @"w{1..5:2}.g" value : tensor<4xf32, #m>
    %y = func.call @layer(%x, %w) : (tensor<2x4xf32, #t>, tensor<4xf32, #m>) -> tensor<2x4xf32, #t>
    nn.yield %y : tensor<2x4xf32, #t>
  }
  %loss = call @end(%last, %kept, %scale) : (tensor<2x4xf32, #t>, tensor<2x4xf32, #t>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 2 micro 2 sequence 4
  plan.axis "pipe" [3]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["start", "layer"] counts [1, 2]
    plan.stage layers ["layer"] counts [1]
    plan.stage layers ["end"] counts [1]
  }
}
