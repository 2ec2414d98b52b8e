// RUN: cleave-opt %s -cleave-overlap-write-out --split-input-file | FileCheck %s

// Layers of two kinds in turn, forward and back: each is a repeat of one, and what one stacks
// the other one scans.

#a = #nn.dims<a>
#la = #nn.dims<layer, a>
module attributes {dist.overlap} {
dist.mesh @mesh ["data"] = [2]
nn.parameter @"layers.{3..3}.up" : tensor<8xf32, #a> {layers = array<i64: 3, 1, 1>, file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
func.func private @full.forward(tensor<8xf32, #a>, tensor<8xf32, #a>) -> (tensor<8xf32, #a>, tensor<8xf32, #a>)
func.func private @full.backward(tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:.*]]: tensor
// CHECK-NOT: nn.repeat
func.func @step(%x: tensor<8xf32, #a>) -> tensor<8xf32, #a> {
  // CHECK: %[[UP:.*]] = nn.load @"layers.{3..3}.up" value {dist.layer = 3 : i64}
  // CHECK: %[[WHOLE:.*]] = dist.all_gather %[[UP]] {{.*}}{nn.path = "layers.3.up value"}
  // CHECK: %[[Y:.*]]:2 = call @full.forward(%[[X]], %[[WHOLE]]) {dist.layer = 3 : i64}
  %y, %kept = nn.repeat 1 along ["layer"] carry(%x : tensor<8xf32, #a>) -> tensor<8xf32, #a> stack(tensor<1x8xf32, #la>) attributes {layers = array<i64: 3, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %up = nn.load @"layers.{3..3}.up" value : tensor<4xf32, #a>
    %whole = dist.all_gather %up dim 0 on @mesh ["data"] {nn.path = "layers.*.up value"} : (tensor<4xf32, #a>) -> tensor<8xf32, #a>
    %r:2 = func.call @full.forward(%h, %whole) : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> (tensor<8xf32, #a>, tensor<8xf32, #a>)
    nn.yield %r#0, %r#1 : tensor<8xf32, #a>, tensor<8xf32, #a>
  }
  // CHECK: %[[Z:.*]] = call @full.backward(%[[Y]]#0, %[[Y]]#1) {dist.layer = 3 : i64}
  // CHECK: nn.accumulate %[[Z]], @"layers.{3..3}.up" gradient
  %z = nn.repeat 1 along ["layer"] reverse carry(%y : tensor<8xf32, #a>) scan(%kept : tensor<1x8xf32, #la>) -> tensor<8xf32, #a> attributes {layers = array<i64: 3, 1>} {
  ^bb0(%h: tensor<8xf32, #a>, %k: tensor<8xf32, #a>):
    %r = func.call @full.backward(%h, %k) : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
    nn.accumulate %r, @"layers.{3..3}.up" gradient : tensor<8xf32, #a>
    nn.yield %r : tensor<8xf32, #a>
  }
  // CHECK: return %[[Z]]
  return %z : tensor<8xf32, #a>
}
}

// -----

// What stays: a repeat whose stack is returned (a stage keeps it), and with it the one that
// makes what it scans; one that calls nothing; and one of several turns.

#a = #nn.dims<a>
#la = #nn.dims<layer, a>
module attributes {dist.overlap} {
func.func private @f(tensor<8xf32, #a>) -> tensor<8xf32, #a>
// CHECK-LABEL: func.func @step
// CHECK-COUNT-4: nn.repeat
// CHECK-NOT: dist.layer
func.func @step(%x: tensor<8xf32, #a>) -> (tensor<8xf32, #a>, tensor<1x8xf32, #la>) {
  %y, %kept = nn.repeat 1 along ["layer"] carry(%x : tensor<8xf32, #a>) -> tensor<8xf32, #a> stack(tensor<1x8xf32, #la>) attributes {layers = array<i64: 0, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %r = func.call @f(%h) : (tensor<8xf32, #a>) -> tensor<8xf32, #a>
    nn.yield %r, %r : tensor<8xf32, #a>, tensor<8xf32, #a>
  }
  %z, %more = nn.repeat 1 along ["layer"] carry(%y : tensor<8xf32, #a>) scan(%kept : tensor<1x8xf32, #la>) -> tensor<8xf32, #a> stack(tensor<1x8xf32, #la>) attributes {layers = array<i64: 1, 1>} {
  ^bb0(%h: tensor<8xf32, #a>, %k: tensor<8xf32, #a>):
    %r = func.call @f(%k) : (tensor<8xf32, #a>) -> tensor<8xf32, #a>
    nn.yield %r, %r : tensor<8xf32, #a>, tensor<8xf32, #a>
  }
  %u = nn.repeat 1 along ["layer"] carry(%z : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 2, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %r = nn.mul %h, %h : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
    nn.yield %r : tensor<8xf32, #a>
  }
  %v = nn.repeat 2 along ["layer"] carry(%u : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 3, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %r = func.call @f(%h) : (tensor<8xf32, #a>) -> tensor<8xf32, #a>
    nn.yield %r : tensor<8xf32, #a>
  }
  return %v, %more : tensor<8xf32, #a>, tensor<1x8xf32, #la>
}
}

// -----

// Nothing changes where the plan does not ask for it.

#a = #nn.dims<a>
func.func private @f(tensor<8xf32, #a>) -> tensor<8xf32, #a>
// CHECK-LABEL: func.func @step
// CHECK: nn.repeat 1
func.func @step(%x: tensor<8xf32, #a>) -> tensor<8xf32, #a> {
  %y = nn.repeat 1 along ["layer"] carry(%x : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 0, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %r = func.call @f(%h) : (tensor<8xf32, #a>) -> tensor<8xf32, #a>
    nn.yield %r : tensor<8xf32, #a>
  }
  return %y : tensor<8xf32, #a>
}
