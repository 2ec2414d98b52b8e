// RUN: cleave-opt %s -cleave-overlap-place --split-input-file | FileCheck %s

// The head's weights are gathered while the layers compute, one of them rounded first, and its
// gradient is summed while they go back. What the first stretch needs comes when it comes.

#a = #nn.dims<a>
module attributes {dist.overlap = 64 : i64} {
dist.mesh @mesh ["data"] = [2]
nn.parameter @table : tensor<8xf32, #a> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @norm : tensor<8xf32, #a> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @head : tensor<8xf32, #a> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @more : tensor<8xf32, #a> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
func.func private @f(tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
func.func private @g(tensor<8xf32, #a>, tensor<8xf32, #a>, tensor<8xf32, #a>, tensor<8xbf16, #a>) -> tensor<8xf32, #a>
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<8xf32, #a>) -> tensor<8xf32, #a> {
  // CHECK: nn.load @table value
  // CHECK-NEXT: dist.all_gather %{{.*}} ["data"] :
  // CHECK: call @f(
  %t = nn.load @table value : tensor<4xf32, #a>
  %table = dist.all_gather %t dim 0 on @mesh ["data"] : (tensor<4xf32, #a>) -> tensor<8xf32, #a>
  %e = call @f(%x, %table) : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
  // A bucket has 64 bytes: two of 32, then what is left.
  // CHECK: nn.load @norm value
  // CHECK-NEXT: %[[NORM:.*]] = dist.all_gather %{{.*}} {dist.beside = 0 : i64}
  // CHECK-NEXT: nn.load @head value
  // CHECK-NEXT: %[[HEAD:.*]] = dist.all_gather %{{.*}} {dist.beside = 0 : i64}
  // CHECK-NEXT: nn.load @more value
  // CHECK-NEXT: nn.cast
  // CHECK-NEXT: %[[MORE:.*]] = dist.all_gather %{{.*}} {dist.beside = 1 : i64}
  // CHECK-NEXT: nn.repeat 4
  %y = nn.repeat 4 along ["layer"] carry(%e : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 0, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %r = func.call @f(%h, %h) : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
    nn.yield %r : tensor<8xf32, #a>
  }
  %n = nn.load @norm value : tensor<4xf32, #a>
  %norm = dist.all_gather %n dim 0 on @mesh ["data"] : (tensor<4xf32, #a>) -> tensor<8xf32, #a>
  %w = nn.load @head value : tensor<4xf32, #a>
  %head = dist.all_gather %w dim 0 on @mesh ["data"] : (tensor<4xf32, #a>) -> tensor<8xf32, #a>
  %m = nn.load @more value : tensor<4xf32, #a>
  %short = nn.cast %m : (tensor<4xf32, #a>) -> tensor<4xbf16, #a>
  %more = dist.all_gather %short dim 0 on @mesh ["data"] : (tensor<4xbf16, #a>) -> tensor<8xbf16, #a>
  // CHECK: %[[Z:.*]] = call @g(%{{.*}}, %[[NORM]], %[[HEAD]], %[[MORE]])
  %z = call @g(%y, %norm, %head, %more) : (tensor<8xf32, #a>, tensor<8xf32, #a>, tensor<8xf32, #a>, tensor<8xbf16, #a>) -> tensor<8xf32, #a>
  // CHECK-NEXT: %[[SUM:.*]] = dist.reduce_scatter %[[Z]] {{.*}}{dist.beside = 2 : i64}
  // CHECK-NEXT: call @f
  // CHECK-NEXT: dist.mask %[[SUM]]
  // CHECK-NEXT: nn.accumulate %{{.*}}, @head gradient
  %s = dist.reduce_scatter %z dim 0 on @mesh ["data"] : (tensor<8xf32, #a>) -> tensor<4xf32, #a>
  %p = dist.mask %s dim 0 size 7 value 0.0 on @mesh ["data"] : tensor<4xf32, #a>
  nn.accumulate %p, @head gradient : tensor<4xf32, #a>
  %back = call @f(%z, %z) : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
  // Nothing follows that this could run beside.
  // CHECK-NEXT: dist.reduce_scatter %{{.*}} ["data"] :
  %u = dist.reduce_scatter %back dim 0 on @mesh ["data"] : (tensor<8xf32, #a>) -> tensor<4xf32, #a>
  nn.accumulate %u, @table gradient : tensor<4xf32, #a>
  return %back : tensor<8xf32, #a>
}
}

// -----

// What may not move: weights that the stretch before changes, a sum whose tensor the next stretch
// reads, one that is returned, and a gathered value that something else is made of first.

#a = #nn.dims<a>
module attributes {dist.overlap} {
dist.mesh @mesh ["data"] = [2]
nn.parameter @w : tensor<8xf32, #a> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @v : tensor<8xf32, #a> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @u : tensor<8xf32, #a> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
func.func private @f(tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
// CHECK-LABEL: func.func @step
// CHECK-NOT: dist.beside
func.func @step(%x: tensor<8xf32, #a>) -> (tensor<8xf32, #a>, tensor<4xf32, #a>) {
  %k = nn.load @v value : tensor<4xf32, #a>
  %v = dist.all_gather %k dim 0 on @mesh ["data"] : (tensor<4xf32, #a>) -> tensor<8xf32, #a>
  %e = call @f(%x, %v) : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
  %sum = dist.all_reduce %e sum on @mesh ["data"] : tensor<8xf32, #a>
  nn.accumulate %sum, @u gradient : tensor<8xf32, #a>
  %y = nn.repeat 4 along ["layer"] carry(%e : tensor<8xf32, #a>) -> tensor<8xf32, #a> attributes {layers = array<i64: 0, 1>} {
  ^bb0(%h: tensor<8xf32, #a>):
    %part = dist.reduce_scatter %h dim 0 on @mesh ["data"] : (tensor<8xf32, #a>) -> tensor<4xf32, #a>
    nn.store %part, @w value : tensor<4xf32, #a>
    %old = nn.load @u reduced : tensor<8xf32, #a>
    nn.yield %old : tensor<8xf32, #a>
  }
  %l = nn.load @w value : tensor<4xf32, #a>
  %w = dist.all_gather %l dim 0 on @mesh ["data"] : (tensor<4xf32, #a>) -> tensor<8xf32, #a>
  %z = call @f(%y, %w) : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
  %given = dist.reduce_scatter %z dim 0 on @mesh ["data"] : (tensor<8xf32, #a>) -> tensor<4xf32, #a>
  nn.accumulate %given, @v gradient : tensor<4xf32, #a>
  %end = call @f(%z, %z) : (tensor<8xf32, #a>, tensor<8xf32, #a>) -> tensor<8xf32, #a>
  return %end, %given : tensor<8xf32, #a>, tensor<4xf32, #a>
}
}
