// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{needs a tensor type with named dimensions}}
nn.parameter @w : tensor<3xf32> {file_shape = array<i64: 3>, init_mean = 0.0 : f64, init_std = 0.0 : f64}

// -----

// expected-error@+1 {{needs a static shape}}
nn.parameter @w : tensor<?xf32, #nn.dims<model>> {file_shape = array<i64: 3>, init_mean = 0.0 : f64, init_std = 0.0 : f64}

// -----

// expected-error@+1 {{has another number of elements than its shape in files}}
nn.parameter @w : tensor<4xf32, #nn.dims<model>> {file_shape = array<i64: 3>, init_mean = 0.0 : f64, init_std = 0.0 : f64}

// -----

func.func @nobody() {
  // expected-error@+1 {{names no parameter: @w}}
  %w = nn.load @w value : tensor<3xf32, #nn.dims<model>>
  return
}

// -----

func.func private @w()
func.func @not_a_parameter(%x: tensor<f32>) {
  // expected-error@+1 {{names no parameter: @w}}
  nn.store %x, @w value : tensor<f32>
  return
}

// -----

nn.accumulator @loss : tensor<f32>
func.func @scalar(%x: tensor<3xf32, #nn.dims<model>>) {
  // expected-error@+1 {{has the type 'tensor<3xf32, #nn.dims<model>>' where its accumulator is a 'tensor<f32>'}}
  nn.accumulate %x, @loss value : tensor<3xf32, #nn.dims<model>>
  return
}

// -----

nn.parameter @w : tensor<3xf32, #nn.dims<model>> {file_shape = array<i64: 3>, init_mean = 0.0 : f64, init_std = 0.0 : f64}
func.func @other_dimensions() {
  // expected-error@+1 {{has the type 'tensor<3xf32, #nn.dims<ffn>>' where its parameter is a 'tensor<3xf32, #nn.dims<model>>'}}
  %w = nn.load @w value : tensor<3xf32, #nn.dims<ffn>>
  return
}

// -----

#m = #nn.dims<model>
func.func @sum(%x: tensor<3xf32, #m>) {
  // expected-error@+1 {{has the dimension 'ffn', which its input lacks}}
  %y = nn.sum_squares %x : (tensor<3xf32, #m>) -> tensor<3xf32, #nn.dims<ffn>>
  return
}

// -----

#m = #nn.dims<model>
func.func @clip(%x: tensor<3xf32, #m>) {
  // expected-error@+1 {{needs scalars of dimensions [], not 'tensor<3xf32, #nn.dims<model>>'}}
  %n, %s = nn.clip_scale %x : (tensor<3xf32, #m>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

#m = #nn.dims<model>
#f = #nn.dims<ffn>
func.func @moment(%p: tensor<3xf32, #m>, %v: tensor<3xf32, #f>, %s: tensor<f32>) {
  // expected-error@+1 {{needs a gradient, moments and results of dimensions [model], not 'tensor<3xf32, #nn.dims<ffn>>'}}
  %new, %m1, %m2 = nn.adamw %p, %p, %p, %v, %s, %s, %s, %s {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, weight_decay = 0.1 : f64} : (tensor<3xf32, #m>, tensor<3xf32, #m>, tensor<3xf32, #m>, tensor<3xf32, #f>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<3xf32, #m>, tensor<3xf32, #m>, tensor<3xf32, #m>)
  return
}

// -----

nn.parameter @w : tensor<8x6xf32, #nn.dims<ffn, model>> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 0.0 : f64}
func.func @rows() {
  // expected-error@+1 {{means 2 rows from 7 of 8}}
  %w = nn.load @w value rows [7, 0, 8] : tensor<2x6xf32, #nn.dims<ffn, model>>
  return
}

// -----

nn.parameter @w : tensor<8x6xf32, #nn.dims<ffn, model>> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 0.0 : f64}
func.func @rows() {
  // expected-error@+1 {{needs rows = [begin, step, all], of a tensor that has rows}}
  %w = nn.load @w value rows [0, 8] : tensor<2x6xf32, #nn.dims<ffn, model>>
  return
}

// -----

// expected-error@+1 {{has "{}" in its name if, and only if, the slices of its first dimension are tensors in files}}
nn.parameter @"w.{}" : tensor<8x6xf32, #nn.dims<ffn, model>> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 0.0 : f64}

// -----

// expected-error@+1 {{has "{}" in its name if, and only if, the slices of its first dimension are tensors in files}}
nn.parameter @"w" : tensor<8x6xf32, #nn.dims<ffn, model>> {file_shape = array<i64: 6>, slices, init_mean = 0.0 : f64, init_std = 0.0 : f64}

// -----

// expected-error@+1 {{has another number of elements than its shape in files}}
nn.parameter @"w.{}" : tensor<8x6xf32, #nn.dims<ffn, model>> {file_shape = array<i64: 8>, init_mean = 0.0 : f64, init_std = 0.0 : f64, slices}
