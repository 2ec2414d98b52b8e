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

nn.scalar @loss
func.func @scalar(%x: tensor<3xf32, #nn.dims<model>>) {
  // expected-error@+1 {{addresses a scalar with a tensor}}
  nn.accumulate %x, @loss value : tensor<3xf32, #nn.dims<model>>
  return
}
