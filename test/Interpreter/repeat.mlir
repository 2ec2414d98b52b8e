// RUN: cleave-opt %s --cleave-interpret | FileCheck %s

#m = #nn.dims<model>
#lm = #nn.dims<layer, model>

// The repeat runs over layers 3 and 5, forward; the second over the same, from the last.
nn.parameter @"h.{3..5:2}.w" : tensor<2xf32, #m> {file_shape = array<i64: 2>, init_mean = 0.0 : f64, init_std = 0.0 : f64, layers = array<i64: 3, 2, 2>}
nn.accumulator @total : tensor<f32>

// CHECK: func.func private @fill
func.func private @fill(%x: tensor<2xf32, #m>) {
  %last = nn.repeat 2 carry(%x : tensor<2xf32, #m>) -> tensor<2xf32, #m> {
  ^bb0(%v: tensor<2xf32, #m>):
    nn.store %v, @"h.{3..5:2}.w" value : tensor<2xf32, #m>
    %y = nn.add %v, %x : (tensor<2xf32, #m>, tensor<2xf32, #m>) -> tensor<2xf32, #m>
    nn.yield %y : tensor<2xf32, #m>
  }
  return
}

// w of layer 3 = x, of layer 5 = 2x; tapes hold what came before each layer.
// CHECK: func.func @main
// CHECK-SAME: -> (tensor<2xf32, {{[^>]*}}> {cleave.value = [dense<[8.000000e+00, 2.300000e+01]>
// CHECK-SAME: tensor<2x2xf32, {{[^>]*}}> {cleave.value = [dense<{{\[}}[1.000000e+00, 2.000000e+00], [2.000000e+00, 6.000000e+00]]>
// CHECK-SAME: tensor<2x2xf32, {{[^>]*}}> {cleave.value = [dense<{{\[}}[4.000000e+00, 9.000000e+00], [3.000000e+00, 5.000000e+00]]>
func.func @main(%x: tensor<2xf32, #m> {cleave.value = dense<[1.0, 2.0]> : tensor<2xf32>}) -> (tensor<2xf32, #m>, tensor<2x2xf32, #lm>, tensor<2x2xf32, #lm>) {
  call @fill(%x) : (tensor<2xf32, #m>) -> ()
  // h ← h + w·x: 1 + 1·1 = 2, then 2 + 2·1 = 4 for the first element.
  %y, %tape = nn.repeat 2 along ["layer"] carry(%x : tensor<2xf32, #m>) -> tensor<2xf32, #m> stack(tensor<2x2xf32, #lm>) {
  ^bb0(%h: tensor<2xf32, #m>):
    %w = nn.load @"h.{3..5:2}.w" value : tensor<2xf32, #m>
    %p = nn.mul %w, %x : (tensor<2xf32, #m>, tensor<2xf32, #m>) -> tensor<2xf32, #m>
    %z = nn.add %h, %p : (tensor<2xf32, #m>, tensor<2xf32, #m>) -> tensor<2xf32, #m>
    nn.yield %z, %h : tensor<2xf32, #m>, tensor<2xf32, #m>
  }
  %one = nn.fill {value = 1.0 : f64} : () -> tensor<2xf32, #m>
  %last, %back = nn.repeat 2 along ["layer"] reverse carry(%one : tensor<2xf32, #m>) scan(%tape : tensor<2x2xf32, #lm>) -> tensor<2xf32, #m> stack(tensor<2x2xf32, #lm>) {
  ^bb0(%g: tensor<2xf32, #m>, %t: tensor<2xf32, #m>):
    %w = nn.load @"h.{3..5:2}.w" value : tensor<2xf32, #m>
    %gt = nn.add %g, %t : (tensor<2xf32, #m>, tensor<2xf32, #m>) -> tensor<2xf32, #m>
    %s = nn.add %g, %w : (tensor<2xf32, #m>, tensor<2xf32, #m>) -> tensor<2xf32, #m>
    nn.yield %gt, %s : tensor<2xf32, #m>, tensor<2xf32, #m>
  }
  %sum = nn.add %y, %last : (tensor<2xf32, #m>, tensor<2xf32, #m>) -> tensor<2xf32, #m>
  return %sum, %tape, %back : tensor<2xf32, #m>, tensor<2x2xf32, #lm>, tensor<2x2xf32, #lm>
}
