// RUN: cleave-opt %s --split-input-file --verify-diagnostics -cleave-pipeline-cut

// expected-error@below {{holds 0 plans; cleave-pipeline-cut needs one plan.solution}}
module {}

// -----

// expected-error@below {{has no pipeline to cut the model for}}
plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.layout {}
}

// -----

// expected-error@below {{has no @forward to cut into stages}}
module {
  plan.solution version 1 {
    plan.batch global 8 micro 1 sequence 8
    plan.axis "pipe" [2]
    plan.layout {}
    plan.pipeline "1f1b" over "pipe" {
      plan.stage layers ["a"] counts [1]
      plan.stage layers ["b"] counts [1]
    }
  }
}

// -----

#t = #nn.dims<batch, sequence>
func.func private @layer(tensor<2x4xi32, #t>, tensor<f32>) -> tensor<f32> attributes {nn.kind = "layer"}
func.func @forward(%tokens: tensor<2x4xi32, #t>, %targets: tensor<2x4xi32, #t>,
                   %positions: tensor<2x4xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  %loss = call @layer(%tokens, %scale) : (tensor<2x4xi32, #t>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 2 micro 2 sequence 4
  plan.axis "pipe" [2]
  plan.layout {}
  // expected-error@below {{has 2 layers in its stages; the model has 1}}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["layer"] counts [1]
    plan.stage layers ["layer"] counts [1]
  }
}

// -----

// A repeat with two layers in each iteration ends between iterations.
#t = #nn.dims<batch, sequence>
func.func private @layer(tensor<f32>) -> tensor<f32> attributes {nn.kind = "layer"}
func.func @forward(%tokens: tensor<2x4xi32, #t>, %targets: tensor<2x4xi32, #t>,
                   %positions: tensor<2x4xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  %last = nn.repeat 2 carry(%scale : tensor<f32>) -> tensor<f32> {
  ^bb0(%x: tensor<f32>):
    %y = func.call @layer(%x) : (tensor<f32>) -> tensor<f32>
    %z = func.call @layer(%y) : (tensor<f32>) -> tensor<f32>
    nn.yield %z : tensor<f32>
  }
  return %last : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 2 micro 2 sequence 4
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    // expected-error@below {{ends between layers of which an iteration has several}}
    plan.stage layers ["layer"] counts [1]
    plan.stage layers ["layer"] counts [3]
  }
}
