// RUN: cleave-opt %s -cleave-blocks-run --split-input-file | FileCheck %s

// Seven words in three blocks: two of three in a repeat, then one of one. The forward
// carries (max, sum, target's logit); the backward adds up the input's gradient, and
// rows of the parameter's where they are kept.

#t = #nn.dims<batch>
#tm = #nn.dims<batch, model>
#vm = #nn.dims<vocab, model>
#tv = #nn.dims<batch, vocab>

nn.parameter @w : tensor<7x4xf32, #vm> {file_shape = array<i64: 7, 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

// CHECK-NOT: @head
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[^:]*]]: tensor<5x4xf32, {{[^%]*}}%[[T:[^:]*]]: tensor<5xi32,
// CHECK-DAG: %[[NONE:.*]] = nn.fill {value = -1.000000e+30 : f64}
// CHECK-DAG: %[[ZERO:.*]] = nn.fill {value = 0.000000e+00 : f64} : () -> tensor<5xf32,
// CHECK-DAG: %[[BEGINS:.*]] = nn.constant dense<[0, 3]> : tensor<2xi32, #[[V:.*]]>
// CHECK: %[[M:.*]]:3 = nn.repeat 2 along ["vocab"] carry(%[[NONE]], %[[ZERO]], %[[ZERO]] : {{.*}}) scan(%[[BEGINS]] : tensor<2xi32, #[[V]]>) -> {{.*}} {
// CHECK-NEXT: ^bb0(%[[A:[^:]*]]: {{[^%]*}}, %[[B:[^:]*]]: {{[^%]*}}, %[[C:[^:]*]]: {{[^%]*}}, %[[AT:[^:]*]]: tensor<i32>):
// CHECK-NEXT: %[[W:.*]] = nn.load @w value rows [0, 3, 7] : tensor<3x4xf32,
// CHECK-NEXT: %[[L:.*]] = nn.contract %[[X]], %[[W]] {nn.path = "logits"}
// CHECK-NEXT: %[[P:.*]], %[[Q:.*]], %[[R:.*]] = nn.cross_entropy_partial %[[L]], %[[T]], %[[AT]], %[[A]], %[[B]], %[[C]]
// CHECK-NEXT: nn.yield %[[P]], %[[Q]], %[[R]]
// CHECK: %[[REST:.*]] = nn.constant dense<6> : tensor<i32>
// CHECK-NEXT: %[[W:.*]] = nn.load @w value rows [6, 0, 7] : tensor<1x4xf32,
// CHECK-NEXT: %[[L:.*]] = nn.contract %[[X]], %[[W]]
// CHECK-NEXT: %[[P:.*]], %[[Q:.*]], %[[R:.*]] = nn.cross_entropy_partial %[[L]], %[[T]], %[[REST]], %[[M]]#0, %[[M]]#1, %[[M]]#2
// CHECK-NEXT: %[[LOSS:.*]], %[[LSE:.*]] = nn.cross_entropy_combine %[[P]], %[[Q]], %[[R]], %[[T]]
// CHECK-NEXT: nn.sum %[[LOSS]]
// CHECK: %[[D:.*]] = nn.repeat 2 along ["vocab"] carry(
// CHECK: %[[W:.*]] = nn.load @w value rows [0, 3, 7]
// CHECK: %[[L:.*]] = nn.contract %[[X]], %[[W]]
// CHECK: %[[G:.*]] = nn.cross_entropy_grad %[[L]], %[[T]], %[[LSE]], %{{.*}} : (tensor<5x3xf32,
// CHECK: %[[DX:.*]] = nn.contract %[[G]], %[[W]]
// CHECK: %[[SUM:.*]] = nn.add %{{.*}}, %[[DX]]
// CHECK: %[[DW:.*]] = nn.contract %[[G]], %[[X]]
// CHECK: nn.accumulate %[[DW]], @w gradient rows [0, 3, 7] : tensor<3x4xf32,
// CHECK: nn.yield %[[SUM]]
// CHECK: nn.accumulate %{{.*}}, @w gradient rows [6, 0, 7] : tensor<1x4xf32,
// CHECK-NOT: nn.accumulate
// CHECK: return
func.func private @head.forward(%x: tensor<5x4xf32, #tm>, %w: tensor<7x4xf32, #vm>, %t: tensor<5xi32, #t>) -> (tensor<f32>, tensor<5xf32, #t>) attributes {nn.blocks = {vocab = 3 : i64}} {
  %l = nn.contract %x, %w {nn.path = "logits"} : (tensor<5x4xf32, #tm>, tensor<7x4xf32, #vm>) -> tensor<5x7xf32, #tv>
  %loss, %lse = nn.cross_entropy %l, %t : (tensor<5x7xf32, #tv>, tensor<5xi32, #t>) -> (tensor<5xf32, #t>, tensor<5xf32, #t>)
  %s = nn.sum %loss : (tensor<5xf32, #t>) -> tensor<f32>
  return %s, %lse : tensor<f32>, tensor<5xf32, #t>
}
func.func private @head.backward(%x: tensor<5x4xf32, #tm>, %w: tensor<7x4xf32, #vm>, %t: tensor<5xi32, #t>, %lse: tensor<5xf32, #t>, %g: tensor<5xf32, #t>) -> (tensor<5x4xf32, #tm>, tensor<7x4xf32, #vm>) attributes {nn.blocks = {vocab = 3 : i64}} {
  %l = nn.contract %x, %w : (tensor<5x4xf32, #tm>, tensor<7x4xf32, #vm>) -> tensor<5x7xf32, #tv>
  %d = nn.cross_entropy_grad %l, %t, %lse, %g : (tensor<5x7xf32, #tv>, tensor<5xi32, #t>, tensor<5xf32, #t>, tensor<5xf32, #t>) -> tensor<5x7xf32, #tv>
  %dx = nn.contract %d, %w : (tensor<5x7xf32, #tv>, tensor<7x4xf32, #vm>) -> tensor<5x4xf32, #tm>
  %dw = nn.contract %d, %x : (tensor<5x7xf32, #tv>, tensor<5x4xf32, #tm>) -> tensor<7x4xf32, #vm>
  return %dx, %dw : tensor<5x4xf32, #tm>, tensor<7x4xf32, #vm>
}
func.func @step(%x: tensor<5x4xf32, #tm>, %t: tensor<5xi32, #t>, %g: tensor<5xf32, #t>) -> (tensor<f32>, tensor<5x4xf32, #tm>) {
  %w = nn.load @w value : tensor<7x4xf32, #vm>
  %s, %lse = call @head.forward(%x, %w, %t) : (tensor<5x4xf32, #tm>, tensor<7x4xf32, #vm>, tensor<5xi32, #t>) -> (tensor<f32>, tensor<5xf32, #t>)
  %b:2 = call @head.backward(%x, %w, %t, %lse, %g) : (tensor<5x4xf32, #tm>, tensor<7x4xf32, #vm>, tensor<5xi32, #t>, tensor<5xf32, #t>, tensor<5xf32, #t>) -> (tensor<5x4xf32, #tm>, tensor<7x4xf32, #vm>)
  nn.accumulate %b#1, @w gradient : tensor<7x4xf32, #vm>
  return %s, %b#0 : tensor<f32>, tensor<5x4xf32, #tm>
}

// -----

// A matrix that is no kept tensor is scanned, and the gradient of it stacked. The last
// rank's padding is masked by where a block lies in the rank's.

#tm = #nn.dims<batch, model>
#vm = #nn.dims<vocab, model>
#tv = #nn.dims<batch, vocab>

dist.mesh @mesh ["tensor"] = [2]

// CHECK-LABEL: func.func @given
// CHECK-SAME: %[[D:[^:]*]]: tensor<5x4xf32, {{[^%]*}}%[[W:[^:]*]]: tensor<6x4xf32,
// CHECK: %[[OUT:.*]] = nn.repeat 3 along ["vocab"] scan(%{{.*}}, %[[W]] : tensor<3xi32, {{.*}}>, tensor<6x4xf32, {{.*}}>) stack(tensor<6x4xf32,
// CHECK-NEXT: ^bb0(%[[AT:[^:]*]]: tensor<i32>, %[[V:[^:]*]]: tensor<2x4xf32,
// CHECK: %[[L:.*]] = nn.contract %[[D]], %[[V]]
// CHECK: %[[M:.*]] = dist.mask %[[L]] dim 1 size 11 value 0.0{{.*}} from %[[AT]] : tensor<i32> of 6 on @mesh ["tensor"] : tensor<5x2xf32,
// CHECK: %[[R:.*]] = nn.contract %[[M]], %[[D]]
// CHECK: nn.yield %[[R]] : tensor<2x4xf32,
// CHECK: return %[[OUT]]
func.func private @kind(%d: tensor<5x4xf32, #tm>, %w: tensor<6x4xf32, #vm>) -> tensor<6x4xf32, #vm> attributes {nn.blocks = {vocab = 3 : i64}} {
  %l = nn.contract %d, %w : (tensor<5x4xf32, #tm>, tensor<6x4xf32, #vm>) -> tensor<5x6xf32, #tv>
  %m = dist.mask %l dim 1 size 11 value 0.0 on @mesh ["tensor"] : tensor<5x6xf32, #tv>
  %r = nn.contract %m, %d : (tensor<5x6xf32, #tv>, tensor<5x4xf32, #tm>) -> tensor<6x4xf32, #vm>
  return %r : tensor<6x4xf32, #vm>
}
func.func @given(%d: tensor<5x4xf32, #tm>, %w: tensor<6x4xf32, #vm>) -> tensor<6x4xf32, #vm> {
  %r = call @kind(%d, %w) : (tensor<5x4xf32, #tm>, tensor<6x4xf32, #vm>) -> tensor<6x4xf32, #vm>
  return %r : tensor<6x4xf32, #vm>
}

// -----

// What is kept may change between the call and where it is read: then it is taken as
// it was.

#tm = #nn.dims<batch, model>
#vm = #nn.dims<vocab, model>
#tv = #nn.dims<batch, vocab>

nn.parameter @w : tensor<6x4xf32, #vm> {file_shape = array<i64: 6, 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

// CHECK-LABEL: func.func @changed
// CHECK: %[[W:.*]] = nn.load @w value : tensor<6x4xf32
// CHECK: nn.store %{{.*}}, @w value
// CHECK: nn.repeat 2 along ["vocab"] carry({{.*}}) scan(%{{.*}}, %[[W]] :
// CHECK-NOT: nn.load
// CHECK: return
func.func private @kind(%x: tensor<5x4xf32, #tm>, %w: tensor<6x4xf32, #vm>) -> tensor<5x4xf32, #tm> attributes {nn.blocks = {vocab = 2 : i64}} {
  %l = nn.contract %x, %w : (tensor<5x4xf32, #tm>, tensor<6x4xf32, #vm>) -> tensor<5x6xf32, #tv>
  %r = nn.contract %l, %w : (tensor<5x6xf32, #tv>, tensor<6x4xf32, #vm>) -> tensor<5x4xf32, #tm>
  return %r : tensor<5x4xf32, #tm>
}
func.func @changed(%x: tensor<5x4xf32, #tm>, %other: tensor<6x4xf32, #vm>) -> tensor<5x4xf32, #tm> {
  %w = nn.load @w value : tensor<6x4xf32, #vm>
  nn.store %other, @w value : tensor<6x4xf32, #vm>
  %r = call @kind(%x, %w) : (tensor<5x4xf32, #tm>, tensor<6x4xf32, #vm>) -> tensor<5x4xf32, #tm>
  return %r : tensor<5x4xf32, #tm>
}
