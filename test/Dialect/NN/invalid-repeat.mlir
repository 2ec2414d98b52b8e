// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{its name needs their numbers in braces}}
nn.parameter @scale : tensor<4xf32, #nn.dims<model>> {file_shape = array<i64: 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64, layers = array<i64: 0, 3, 1>}

// -----

// expected-error@+1 {{needs layers = [first, count, step], of which only first may be 0}}
nn.parameter @"h.{0..2}.scale" : tensor<4xf32, #nn.dims<model>> {file_shape = array<i64: 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64, layers = array<i64: 0, 3>}

// -----

#m = #nn.dims<model>
nn.parameter @"h.{0..2}.scale" : tensor<4xf32, #m> {file_shape = array<i64: 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64, layers = array<i64: 0, 3, 1>}
func.func @outside() {
  // expected-error@+1 {{addresses the tensors of 3 layers, and stands in no repeat of as many iterations}}
  %w = nn.load @"h.{0..2}.scale" value : tensor<4xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
nn.parameter @"h.{0..2}.scale" : tensor<4xf32, #m> {file_shape = array<i64: 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64, layers = array<i64: 0, 3, 1>}
func.func @too_often() {
  nn.repeat 4 {
    // expected-error@+1 {{addresses the tensors of 3 layers, and stands in no repeat of as many iterations}}
    %w = nn.load @"h.{0..2}.scale" value : tensor<4xf32, #m>
    nn.yield
  }
  return
}

// -----

func.func @never() {
  // expected-error@+1 {{runs 0 times; it needs to run at least once}}
  nn.repeat 0 {
    nn.yield
  }
  return
}

// -----

#m = #nn.dims<model>
func.func @other_type(%x: tensor<4xf32, #m>, %i: tensor<4xi32, #m>) {
  // expected-error@+1 {{carries values whose types change}}
  %y = nn.repeat 2 carry(%x : tensor<4xf32, #m>) -> tensor<4xf32, #m> {
  ^bb0(%h: tensor<4xf32, #m>):
    nn.yield %i : tensor<4xi32, #m>
  }
  return
}

// -----

#m = #nn.dims<model>
func.func @missing_value(%x: tensor<4xf32, #m>) {
  // expected-error@+1 {{needs a block that takes what it carries and scans, and yields what it carries and stacks}}
  %y = nn.repeat 2 carry(%x : tensor<4xf32, #m>) -> tensor<4xf32, #m> {
  ^bb0(%h: tensor<4xf32, #m>):
    nn.yield
  }
  return
}

// -----

#m = #nn.dims<model>
func.func @no_dimension(%x: tensor<4xf32, #m>) {
  // expected-error@+1 {{which lacks a dimension of 'along'}}
  nn.repeat 2 along ["layer"] scan(%x : tensor<4xf32, #m>) {
  ^bb0(%h: tensor<2xf32, #m>):
    nn.yield
  }
  return
}

// -----

#m = #nn.dims<model>
func.func @uneven(%x: tensor<5xf32, #m>) {
  // expected-error@+1 {{whose dimension "model" does not give 2 equal pieces}}
  nn.repeat 2 along ["model"] scan(%x : tensor<5xf32, #m>) {
  ^bb0(%h: tensor<2xf32, #m>):
    nn.yield
  }
  return
}

// -----

#m = #nn.dims<model>
func.func @wrong_slice(%x: tensor<4xf32, #m>) {
  // expected-error@+1 {{a slice is a 'tensor<2xf32}}
  nn.repeat 2 along ["model"] scan(%x : tensor<4xf32, #m>) {
  ^bb0(%h: tensor<4xf32, #m>):
    nn.yield
  }
  return
}
