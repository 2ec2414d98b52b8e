// RUN: cleave-opt %s -cleave-overlap-decide --split-input-file | FileCheck %s

// Weights are gathered ahead, one of them rounded first; gradients are summed behind. Of one
// kind and over the same axes they share a bucket.

#a = #nn.dims<a>
module attributes {dist.overlap} {
dist.mesh @mesh ["data", "tensor"] = [2, 2]
nn.parameter @"layers.{0..3}.up" : tensor<8xf32, #a> {layers = array<i64: 0, 4, 1>, file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @"layers.{0..3}.down" : tensor<8xf32, #a> {layers = array<i64: 0, 4, 1>, file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @"layers.{0..3}.gate" : tensor<8xf32, #a> {layers = array<i64: 0, 4, 1>, file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
// CHECK-LABEL: @step
func.func @step(%x: tensor<8xf32, #a>) -> tensor<8xf32, #a> {
  %y = nn.repeat 4 along ["layer"] carry(%x : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 0, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %up = nn.load @"layers.{0..3}.up" value : tensor<4xf32, #a>
    // CHECK: dist.all_gather %{{.*}} ["data"] {dist.ahead = 0 : i64}
    %g = dist.all_gather %up dim 0 on @mesh ["data"] : (tensor<4xf32, #a>) -> tensor<8xf32, #a>
    %down = nn.load @"layers.{0..3}.down" value : tensor<4xf32, #a>
    %short = nn.cast %down : (tensor<4xf32, #a>) -> tensor<4xbf16, #a>
    // CHECK: dist.all_gather %{{.*}} ["data"] {dist.ahead = 0 : i64}
    %d = dist.all_gather %short dim 0 on @mesh ["data"] : (tensor<4xbf16, #a>) -> tensor<8xbf16, #a>
    %wide = nn.cast %d : (tensor<8xbf16, #a>) -> tensor<8xf32, #a>
    // What this turn makes, and needs, is exchanged when it comes.
    // CHECK: dist.all_reduce %{{.*}} sum on @mesh ["tensor"] :
    %r = dist.all_reduce %h sum on @mesh ["tensor"] : tensor<8xf32, #a>
    %p = nn.mul %r, %g : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
    %q = nn.mul %p, %wide : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
    // CHECK: dist.reduce_scatter %{{.*}} ["data"] {dist.behind = 1 : i64}
    %s = dist.reduce_scatter %p dim 0 on @mesh ["data"] : (tensor<8xf32, #a>) -> tensor<4xf32, #a>
    nn.accumulate %s, @"layers.{0..3}.up" gradient : tensor<4xf32, #a>
    // CHECK: dist.reduce_scatter %{{.*}} ["tensor"] {dist.behind = 2 : i64}
    %t = dist.reduce_scatter %p dim 0 on @mesh ["tensor"] : (tensor<8xf32, #a>) -> tensor<4xf32, #a>
    nn.accumulate %t, @"layers.{0..3}.down" gradient : tensor<4xf32, #a>
    // Padding is set to zero on the way.
    // CHECK: dist.reduce_scatter %{{.*}} ["data"] {dist.behind = 1 : i64}
    %v = nn.mul %q, %q : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
    %u = dist.reduce_scatter %v dim 0 on @mesh ["data"] : (tensor<8xf32, #a>) -> tensor<4xf32, #a>
    %m = dist.mask %u dim 0 size 7 value 0.0 on @mesh ["data"] : tensor<4xf32, #a>
    nn.accumulate %m, @"layers.{0..3}.gate" gradient : tensor<4xf32, #a>
    nn.yield %q : tensor<8xf32, #a>
  }
  return %y : tensor<8xf32, #a>
}
}

// -----

// What may not move: a result that the turn reads, one that goes on, an operand that the
// layer was given, a tensor that the turn has changed before, one that all turns change, and
// anything where there is one turn.

#a = #nn.dims<a>
module attributes {dist.overlap} {
dist.mesh @mesh ["data"] = [2]
nn.parameter @"layers.{0..3}.up" : tensor<8xf32, #a> {layers = array<i64: 0, 4, 1>, file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @all : tensor<8xf32, #a> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @one : tensor<8xf32, #a> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
// CHECK-LABEL: @step
// CHECK-NOT: {{ahead|behind}}
func.func @step(%x: tensor<8xf32, #a>) -> tensor<8xf32, #a> {
  %y = nn.repeat 4 along ["layer"] carry(%x : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 0, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %given = dist.all_reduce %h sum on @mesh ["data"] : tensor<8xf32, #a>
    nn.accumulate %given, @all gradient : tensor<8xf32, #a>
    %part = nn.mul %h, %h : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
    %read = dist.all_reduce %part sum on @mesh ["data"] : tensor<8xf32, #a>
    nn.accumulate %read, @"layers.{0..3}.up" gradient : tensor<8xf32, #a>
    nn.store %part, @"layers.{0..3}.up" value : tensor<8xf32, #a>
    %new = nn.load @"layers.{0..3}.up" value : tensor<8xf32, #a>
    %changed = dist.all_reduce %new sum on @mesh ["data"] : tensor<8xf32, #a>
    %old = nn.load @all value : tensor<8xf32, #a>
    %shared = dist.all_reduce %old sum on @mesh ["data"] : tensor<8xf32, #a>
    nn.store %changed, @all value : tensor<8xf32, #a>
    %sum = nn.add %read, %shared : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
    nn.yield %sum : tensor<8xf32, #a>
  }
  %z = nn.repeat 1 along ["layer"] carry(%y : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 0, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %up = nn.load @one value : tensor<4xf32, #a>
    %g = dist.all_gather %up dim 0 on @mesh ["data"] : (tensor<4xf32, #a>) -> tensor<8xf32, #a>
    nn.yield %g : tensor<8xf32, #a>
  }
  return %z : tensor<8xf32, #a>
}
}

// -----

// Nothing is decided where the plan does not ask for it.

#a = #nn.dims<a>
dist.mesh @mesh ["data"] = [2]
nn.parameter @"layers.{0..3}.up" : tensor<8xf32, #a> {layers = array<i64: 0, 4, 1>, file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
// CHECK-LABEL: @step
// CHECK-NOT: ahead
func.func @step(%x: tensor<8xf32, #a>) -> tensor<8xf32, #a> {
  %y = nn.repeat 4 along ["layer"] carry(%x : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 0, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %up = nn.load @"layers.{0..3}.up" value : tensor<4xf32, #a>
    %g = dist.all_gather %up dim 0 on @mesh ["data"] : (tensor<4xf32, #a>) -> tensor<8xf32, #a>
    nn.yield %g : tensor<8xf32, #a>
  }
  return %y : tensor<8xf32, #a>
}

// -----

// What a turn has added to a kept tensor is summed from there, where nothing else comes to it
// behind; here something does for `down`.

#a = #nn.dims<a>
module attributes {dist.overlap} {
dist.mesh @mesh ["data"] = [2]
nn.parameter @"layers.{0..3}.up" : tensor<8xf32, #a> {layers = array<i64: 0, 4, 1>, file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @"layers.{0..3}.down" : tensor<8xf32, #a> {layers = array<i64: 0, 4, 1>, file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
// CHECK-LABEL: @step
func.func @step(%x: tensor<8xf32, #a>) -> tensor<8xf32, #a> {
  %y = nn.repeat 4 along ["layer"] carry(%x : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 0, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    nn.accumulate %h, @"layers.{0..3}.up" gradient : tensor<8xf32, #a>
    %up = nn.load @"layers.{0..3}.up" gradient : tensor<8xf32, #a>
    // CHECK: dist.reduce_scatter {{.*}}dist.behind = 0
    %s = dist.reduce_scatter %up dim 0 on @mesh ["data"] : (tensor<8xf32, #a>) -> tensor<4xf32, #a>
    nn.store %s, @"layers.{0..3}.up" reduced : tensor<4xf32, #a>
    nn.accumulate %h, @"layers.{0..3}.down" gradient : tensor<8xf32, #a>
    %down = nn.load @"layers.{0..3}.down" gradient : tensor<8xf32, #a>
    // CHECK: dist.reduce_scatter %{{.*}} ["data"] :
    %t = dist.reduce_scatter %down dim 0 on @mesh ["data"] : (tensor<8xf32, #a>) -> tensor<4xf32, #a>
    nn.store %t, @"layers.{0..3}.down" reduced : tensor<4xf32, #a>
    nn.accumulate %h, @"layers.{0..3}.down" gradient : tensor<8xf32, #a>
    nn.yield %h : tensor<8xf32, #a>
  }
  return %y : tensor<8xf32, #a>
}
}
