// RUN: cleave-opt %s -split-input-file -verify-diagnostics -cleave-apply

// expected-error@below {{holds 0 plans; cleave-apply needs one plan.solution}}
module {}

// -----

// expected-error@below {{has no @forward to make a step of}}
module {
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}
}

// -----

#t = #nn.dims<batch, sequence>
// expected-error@below {{'func.func' op must take tokens, targets, positions and a scale}}
func.func @forward(%tokens: tensor<2x3xi32, #t>) { return }
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

#t = #nn.dims<batch, sequence>
// expected-error@below {{'func.func' op needs a scale of type tensor<f32>, not 'tensor<f64>'}}
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f64>) -> tensor<f64> { return %scale : tensor<f64> }
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

#t = #nn.dims<batch, sequence>
func.func private @kind(%x: tensor<f32>) -> tensor<f32> attributes {nn.kind = "kind"} { return %x : tensor<f32> }
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{'func.call' op enters @kind, which has no joint graph; run cleave-autodiff-differentiate first}}
  %y = call @kind(%scale) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

#t = #nn.dims<batch, sequence>
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{'nn.reciprocal' op computes outside every kind of layer, where no gradient reaches it}}
  %y = nn.reciprocal %scale : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

#t = #nn.dims<batch, sequence>
func.func private @kind(%x: tensor<f32>) -> tensor<f32> attributes {nn.kind = "kind"} { return %x : tensor<f32> }
// expected-error@below {{'func.func' op is a joint graph without 'nn.joint.results'}}
func.func private @kind.joint(%x: tensor<f32>) -> tensor<f32> attributes {nn.joint = @kind} { return %x : tensor<f32> }
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  return %scale : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

#t = #nn.dims<batch, sequence>
func.func private @kind(%x: tensor<f32>) -> tensor<f32> attributes {nn.kind = "kind"} { return %x : tensor<f32> }
// expected-error@below {{'func.func' op is no joint graph of @kind: it takes and returns other numbers of values}}
func.func private @kind.joint(%x: tensor<f32>) -> tensor<f32> attributes {nn.joint = @kind, nn.joint.results = array<i64: 0>, nn.joint.arguments = array<i64: 0>} { return %x : tensor<f32> }
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  return %scale : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

#t = #nn.dims<batch, sequence>
// expected-error@below {{'func.func' op takes or returns what is no tensor with named dimensions: 'index'}}
func.func private @kind(%x: index) attributes {nn.kind = "kind"} { return }
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  return %scale : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

#t = #nn.dims<batch, sequence>
// expected-error@below {{'dist.mesh' op is there already: a plan has been applied to this module}}
dist.mesh @mesh ["data"] = [2]
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  return %scale : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

#t = #nn.dims<batch, sequence>
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  return %scale : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  // expected-error@below {{'plan.layout' op names an axis that the plan has not: "dta"}}
  plan.layout {batch = ["dta"]}
}

// -----

#t = #nn.dims<batch, sequence>
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  return %scale : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  // expected-error@below {{'plan.layout' op needs a list of axes for 'batch'}}
  plan.layout {batch = "data"}
}

// -----

#t = #nn.dims<batch, sequence>
func.func private @kind(%x: tensor<f32>) -> tensor<f32> attributes {nn.kind = "kind"} { return %x : tensor<f32> }
// expected-note@below {{'func.func' returns a value that is no sum over pieces}}
func.func private @kind.joint(%x: tensor<f32>, %g: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {nn.joint = @kind, nn.joint.results = array<i64: 0>, nn.joint.arguments = array<i64: 0>} { return %x, %g : tensor<f32>, tensor<f32> }
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  %y = call @kind(%scale) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
  // expected-error@below {{'plan.chunk' op runs 'kind' in pieces along 'batch', which it cannot}}
  plan.chunk "kind" along ["batch"] pieces [2]
}

// -----

#t = #nn.dims<batch, sequence>
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  // expected-note@below {{this one}}
  %y = nn.batch_sum %scale : tensor<f32>
  // expected-error@below {{'nn.batch_sum' op sums over the whole batch what needs another such sum}}
  %z = nn.batch_sum %y : tensor<f32>
  return %z : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

#t = #nn.dims<batch, sequence>
func.func @forward(%tokens: tensor<2x3xi32, #t>, %targets: tensor<2x3xi32, #t>, %positions: tensor<2x3xi32, #t>, %scale: tensor<f32>) -> tensor<f32> {
  %last = nn.repeat 2 carry(%scale : tensor<f32>) -> tensor<f32> {
  ^bb0(%x: tensor<f32>):
    // expected-error@below {{'nn.batch_sum' op sums over the whole batch in a repeat of layers; it may stand behind one}}
    %y = nn.batch_sum %x : tensor<f32>
    nn.yield %y : tensor<f32>
  }
  return %last : tensor<f32>
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 3
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}
