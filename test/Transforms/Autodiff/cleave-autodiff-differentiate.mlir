// RUN: cleave-opt %s -split-input-file -cleave-autodiff-differentiate | FileCheck %s
// RUN: cleave-opt %s -split-input-file -cleave-autodiff-differentiate > %t.once
// RUN: cleave-opt %t.once -split-input-file -cleave-autodiff-differentiate | diff %t.once -

#tm = #nn.dims<token, model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>

nn.parameter @w : tensor<8x6xf32, #fm> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

// The joint graph: forward, then backward from the last operator to the first.
// The input is not trained, so it gets no gradient; the weight does.
// CHECK-LABEL: func.func private @layer.joint
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x6xf32, {{.*}}, %[[W:[^:]*]]: tensor<8x6xf32, {{.*}}, %[[DY:[^:]*]]: tensor<4x8xf32,
// CHECK-SAME: nn.joint = @layer, nn.joint.arguments = array<i64: 1>, nn.joint.results = array<i64: 0>
// CHECK: %[[H:.*]] = nn.contract %[[X]], %[[W]] {nn.path = "up"}
// CHECK: %[[Y:.*]] = nn.relu %[[H]] {nn.path = "act"}
// CHECK: %[[DH:.*]] = nn.relu_grad %[[H]], %[[DY]] {nn.path = "act"}
// CHECK: %[[DW:.*]] = nn.contract %[[DH]], %[[X]] {nn.path = "up"}
// CHECK: return %[[Y]], %[[DW]]
func.func private @layer(%x: tensor<4x6xf32, #tm>, %w: tensor<8x6xf32, #fm> {nn.parameter = "w"}) -> tensor<4x8xf32, #tf> attributes {nn.kind = "layer"} {
  %h = nn.contract %x, %w {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  %y = nn.relu %h {nn.path = "act"} : (tensor<4x8xf32, #tf>) -> tensor<4x8xf32, #tf>
  return %y : tensor<4x8xf32, #tf>
}

// No entry calls it: nothing of it is trained.
// CHECK-NOT: @idle.joint
func.func private @idle(%x: tensor<4x6xf32, #tm>) -> tensor<4x6xf32, #tm> attributes {nn.kind = "idle"} {
  return %x : tensor<4x6xf32, #tm>
}

func.func @forward(%x: tensor<4x6xf32, #tm>) -> tensor<4x8xf32, #tf> attributes {nn.entry = "forward"} {
  %w = nn.load @w value : tensor<8x6xf32, #fm>
  %y = call @layer(%x, %w) : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return %y : tensor<4x8xf32, #tf>
}

// -----

#m = #nn.dims<model>

nn.parameter @w : tensor<6xf32, #m> {file_shape = array<i64: 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

// A value with two uses gets the sum of what comes back by both; what nothing
// comes back to has a gradient of zeros.
// CHECK-LABEL: func.func private @uses.joint
// CHECK-SAME: %[[W:[^:]*]]: tensor<6xf32, {{.*}}, %[[V:[^:]*]]: tensor<6xf32, {{.*}}, %[[DY:[^:]*]]: tensor<6xf32,
// CHECK: %[[A:.*]] = nn.mul %[[DY]], %[[W]]
// CHECK: %[[B:.*]] = nn.mul %[[DY]], %[[W]]
// CHECK: %[[SUM:.*]] = nn.add %[[A]], %[[B]]
// CHECK: %[[ZERO:.*]] = nn.fill {value = 0.0{{.*}}}
// CHECK: return %{{.*}}, %[[SUM]], %[[ZERO]]
func.func private @uses(%w: tensor<6xf32, #m> {nn.parameter = "w"}, %v: tensor<6xf32, #m> {nn.parameter = "v"}) -> tensor<6xf32, #m> attributes {nn.kind = "uses"} {
  %y = nn.mul %w, %w {nn.path = "square"} : (tensor<6xf32, #m>, tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %y : tensor<6xf32, #m>
}
func.func @forward() -> tensor<6xf32, #m> attributes {nn.entry = "forward"} {
  %w = nn.load @w value : tensor<6xf32, #m>
  %y = call @uses(%w, %w) : (tensor<6xf32, #m>, tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %y : tensor<6xf32, #m>
}

// -----

// Without kinds there is nothing to do.
// CHECK-LABEL: func.func @plain
// CHECK-NOT: joint
func.func @plain() { return }
