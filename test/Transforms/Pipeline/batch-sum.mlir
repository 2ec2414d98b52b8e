// RUN: cleave-opt %s -cleave-pipeline-cut | FileCheck %s

// What stands between layers is in the stage that reads it. What it is made of goes that far and
// no further, and the term made of it to the end, where it is returned with the loss. All parts
// know that two stages are to be surveyed, and that there is a term.

// CHECK: module @part.0 attributes {{.*}}pipe.surveyed = 2 : i64, pipe.terms
// CHECK: func.func @stage.0({{.*}}) -> (tensor<2x4xi32, {{.*}}>, tensor<f32>)
// CHECK-NOT: nn.batch_sum
// CHECK: module @part.1 attributes {{.*}}pipe.surveyed = 2 : i64, pipe.terms
// CHECK: func.func @stage.1({{.*}}%[[COUNT:[a-z0-9]+]]: tensor<f32>) -> (tensor<2x4xi32, {{.*}}>, tensor<f32>)
// CHECK: %[[ALL:.*]] = nn.batch_sum %[[COUNT]]
// CHECK: %[[TERM:.*]] = call @term(%{{.*}}, %[[ALL]])
// CHECK: return %{{.*}}, %[[TERM]]
// CHECK: module @part.2 attributes {{.*}}pipe.surveyed = 2 : i64, pipe.terms
// CHECK: func.func @stage.2({{.*}}%[[PASSED:[a-z0-9]+]]: tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK: %[[LOSS:.*]] = call @end
// CHECK: return %[[LOSS]], %[[PASSED]]
#t = #nn.dims<batch, sequence>
func.func private @start(tensor<2x4xi32, #t>) -> (tensor<2x4xi32, #t>, tensor<f32>) attributes {nn.kind = "start"}
func.func private @term(tensor<f32>, tensor<f32>) -> tensor<f32> attributes {nn.kind = "term"}
func.func private @end(tensor<2x4xi32, #t>, tensor<f32>) -> tensor<f32> attributes {nn.kind = "end"}
func.func @forward(%tokens: tensor<2x4xi32, #t>, %targets: tensor<2x4xi32, #t>,
                   %positions: tensor<2x4xi32, #t>, %scale: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %kept, %count = call @start(%tokens) : (tensor<2x4xi32, #t>) -> (tensor<2x4xi32, #t>, tensor<f32>)
  %all = nn.batch_sum %count : tensor<f32>
  %term = call @term(%scale, %all) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %loss = call @end(%kept, %scale) : (tensor<2x4xi32, #t>, tensor<f32>) -> tensor<f32>
  return %loss, %term : tensor<f32>, tensor<f32>
}
plan.solution version 1 {
  plan.batch global 4 micro 2 sequence 4
  plan.axis "pipe" [3]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["start"] counts [1]
    plan.stage layers ["term"] counts [1]
    plan.stage layers ["end"] counts [1]
  }
}
