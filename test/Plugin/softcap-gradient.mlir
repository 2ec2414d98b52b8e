// RUN: cleave-opt %s --load-dialect-plugin=%plugins/SoftCap.so --cleave-autodiff-differentiate | FileCheck %s

// A layer kind with the foreign operator gets its joint graph: the gradient
// comes from the operator's own file, and carries its path.

#m = #nn.dims<model>

nn.parameter @w : tensor<3xf32, #m> {file_shape = array<i64: 3>, init_mean = 0.0 : f64, init_std = 0.0 : f64}

func.func private @capped(%w: tensor<3xf32, #m> {nn.name = "w", nn.parameter = "w"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.kind = "capped"} {
  %y = ext.softcap %w {cap = 2.0 : f64, nn.path = "cap"} : tensor<3xf32, #m>
  %loss = nn.sum %y {nn.path = "loss"} : (tensor<3xf32, #m>) -> tensor<f32>
  return %loss : tensor<f32>
}

func.func @forward() -> tensor<f32> attributes {nn.entry = "forward"} {
  %w = nn.load @w value : tensor<3xf32, #m>
  %loss = call @capped(%w) : (tensor<3xf32, #m>) -> tensor<f32>
  return %loss : tensor<f32>
}

// CHECK-LABEL: func.func private @capped.joint
// CHECK: %[[Y:.*]] = ext.softcap
// CHECK: nn.mul %[[Y]], %[[Y]] {{{.*}}nn.path = "cap"
// CHECK: nn.fill {{{.*}}value = -2.500000e-01
