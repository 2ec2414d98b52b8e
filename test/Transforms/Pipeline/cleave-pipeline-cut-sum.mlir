// RUN: cleave-opt %s -cleave-pipeline-cut | FileCheck %s

// Two values that every kind behind a cut only adds up (`nn.sum`) go as their sum: also through
// a stage, and out of a repeat that is cut. One that a later kind reads by itself goes too.

// CHECK: func.func @stage.0({{.*}}) -> tensor<2x4xf32{{.*}}> attributes
// CHECK:   %[[START:.*]]:2 = call @start
// CHECK:   %[[SUM:.*]] = nn.add %[[START]]#0, %[[START]]#1 {nn.path = "stage.residual"}
// CHECK:   return %[[SUM]]
// CHECK: func.func @stage.1({{.*}}, %[[IN:[a-z0-9]+]]: tensor<2x4xf32, #batch_sequence>) -> tensor<2x4xf32{{.*}}> attributes
// CHECK:   %[[ZERO:.*]] = nn.fill
// CHECK:   %[[LAST:.*]]:2 = nn.repeat 2 carry(%[[IN]], %[[ZERO]] :
// CHECK:   %[[SUM1:.*]] = nn.add %[[LAST]]#0, %[[LAST]]#1
// CHECK:   return %[[SUM1]]
// CHECK: func.func @stage.2({{.*}}, %[[IN2:[a-z0-9]+]]: tensor<2x4xf32, #batch_sequence>) -> (tensor<2x4xf32{{.*}}>, tensor<2x4xf32{{.*}}>) attributes
// CHECK:   %[[ZERO2:.*]] = nn.fill
// CHECK:   %[[LAST2:.*]]:2 = nn.repeat 1 carry(%[[IN2]], %[[ZERO2]] :
// CHECK-NOT: nn.add
// CHECK:   return %[[LAST2]]#0, %[[LAST2]]#1
#t = #nn.dims<batch, sequence>
func.func private @start(tensor<2x4xi32, #t>) -> (tensor<2x4xf32, #t>, tensor<2x4xf32, #t>) attributes {nn.kind = "start"}
func.func private @layer(tensor<2x4xf32, #t>, tensor<2x4xf32, #t>) -> (tensor<2x4xf32, #t>, tensor<2x4xf32, #t>) attributes {nn.kind = "layer", nn.sum = array<i64: 0, 1>}
func.func private @end(tensor<2x4xf32, #t>, tensor<2x4xf32, #t>, tensor<f32>) -> tensor<f32> attributes {nn.kind = "end"}
func.func @forward(%tokens: tensor<2x4xi32, #t>, %targets: tensor<2x4xi32, #t>,
                   %positions: tensor<2x4xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  %x:2 = call @start(%tokens) : (tensor<2x4xi32, #t>) -> (tensor<2x4xf32, #t>, tensor<2x4xf32, #t>)
  %last:2 = nn.repeat 3 carry(%x#0, %x#1 : tensor<2x4xf32, #t>, tensor<2x4xf32, #t>) -> tensor<2x4xf32, #t>, tensor<2x4xf32, #t> attributes {layers = array<i64: 1, 1>} {
  ^bb0(%a: tensor<2x4xf32, #t>, %b: tensor<2x4xf32, #t>):
    %y:2 = func.call @layer(%a, %b) : (tensor<2x4xf32, #t>, tensor<2x4xf32, #t>) -> (tensor<2x4xf32, #t>, tensor<2x4xf32, #t>)
    nn.yield %y#0, %y#1 : tensor<2x4xf32, #t>, tensor<2x4xf32, #t>
  }
  %loss = call @end(%last#0, %last#1, %scale) : (tensor<2x4xf32, #t>, tensor<2x4xf32, #t>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 2 micro 2 sequence 4
  plan.axis "pipe" [4]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["start"] counts [1]
    plan.stage layers ["layer"] counts [2]
    plan.stage layers ["layer"] counts [1]
    plan.stage layers ["end"] counts [1]
  }
}
