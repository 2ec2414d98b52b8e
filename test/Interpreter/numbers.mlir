// RUN: cleave-opt %s --cleave-interpret=ranks=2 | FileCheck %s

#rm = #nn.dims<row, model>
#m = #nn.dims<model>

// The gradient is added up from nothing, the value is what the file gives.
// CHECK: nn.parameter @w
// CHECK-SAME: cleave.state = {
// CHECK-SAME: gradient = [dense<[6.000000e+00, 8.000000e+00]> : tensor<2xf64>, dense<[2.000000e+00, 4.000000e+00]> : tensor<2xf64>]
// CHECK-SAME: moment1 = [dense<[5.000000e-01, -5.000000e-01]> : tensor<2xf64>
nn.parameter @w : tensor<2xf32, #m> {file_shape = array<i64: 2>, init_mean = 0.0 : f64, init_std = 0.0 : f64,
    cleave.value = [dense<[3.0, 4.0]> : tensor<2xf32>, dense<[1.0, 2.0]> : tensor<2xf32>]}

func.func private @scaled(%x: tensor<2x2xf32, #rm>, %w: tensor<2xf32, #m>) -> tensor<2x2xf32, #rm> {
  %y = nn.mul %x, %w : (tensor<2x2xf32, #rm>, tensor<2xf32, #m>) -> tensor<2x2xf32, #rm>
  return %y : tensor<2x2xf32, #rm>
}

// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<2x2xf32, #{{.*}}> {cleave.value = [
// CHECK-SAME: dense<{{\[}}[3.500000e+00, -8.500000e+00], [6.500000e+00, -5.000000e-01]]> : tensor<2x2xf64>
// CHECK-SAME: dense<1.500000e+00> : tensor<2x2xf64>
func.func @main(%x: tensor<2x2xf32, #rm> {cleave.value = [dense<[[1.0, -2.0], [2.0, 0.0]]> : tensor<2x2xf32>,
                                                          dense<[[1.0, 1.0], [1.0, 1.0]]> : tensor<2x2xf32>]}) -> tensor<2x2xf32, #rm> {
  %half = arith.constant dense<[0.5, -0.5]> : tensor<2xf32, #m>
  %w = nn.load @w value : tensor<2xf32, #m>
  %y = call @scaled(%x, %w) : (tensor<2x2xf32, #rm>, tensor<2xf32, #m>) -> tensor<2x2xf32, #rm>
  %z = nn.add %y, %half : (tensor<2x2xf32, #rm>, tensor<2xf32, #m>) -> tensor<2x2xf32, #rm>
  nn.accumulate %w, @w gradient : tensor<2xf32, #m>
  nn.accumulate %w, @w gradient : tensor<2xf32, #m>
  nn.store %half, @w moment1 : tensor<2xf32, #m>
  return %z : tensor<2x2xf32, #rm>
}
