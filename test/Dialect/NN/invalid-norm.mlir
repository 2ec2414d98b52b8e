// RUN: cleave-opt %s --split-input-file --verify-diagnostics

#bm = #nn.dims<batch, model>
#b = #nn.dims<batch>
#m = #nn.dims<model>
func.func @weight_of_first_dimension(%x: tensor<2x3xf32, #bm>, %w: tensor<2xf32, #b>) {
  // expected-error@+1 {{needs a weight whose dimensions are the last ones of the input}}
  %y, %r = nn.rms_norm %x, %w {eps = 1.0e-5 : f64} : (tensor<2x3xf32, #bm>, tensor<2xf32, #b>) -> (tensor<2x3xf32, #bm>, tensor<3xf32, #m>)
  return
}

// -----

#m = #nn.dims<model>
func.func @nothing_left_for_rows(%x: tensor<3xf32, #m>) {
  // expected-error@+1 {{needs a weight whose dimensions are the last ones of the input}}
  %y, %r = nn.rms_norm %x, %x {eps = 1.0e-5 : f64} : (tensor<3xf32, #m>, tensor<3xf32, #m>) -> (tensor<3xf32, #m>, tensor<f32>)
  return
}

// -----

#bm = #nn.dims<batch, model>
#m = #nn.dims<model>
func.func @statistics(%x: tensor<2x3xf32, #bm>, %w: tensor<3xf32, #m>) {
  // expected-error@+1 {{needs one statistic for each row of the input}}
  %y, %mean, %r = nn.layer_norm %x, %w, %w {eps = 1.0e-5 : f64} : (tensor<2x3xf32, #bm>, tensor<3xf32, #m>, tensor<3xf32, #m>) -> (tensor<2x3xf32, #bm>, tensor<3xf32, #m>, tensor<3xf32, #m>)
  return
}

// -----

#bm = #nn.dims<batch, model>
#b = #nn.dims<batch>
#m = #nn.dims<model>
func.func @sizes(%x: tensor<2x3xf32, #bm>, %w: tensor<4xf32, #m>) {
  // expected-error@+1 {{has two sizes for dimension 'model'}}
  %y, %r = nn.rms_norm %x, %w {eps = 1.0e-5 : f64} : (tensor<2x3xf32, #bm>, tensor<4xf32, #m>) -> (tensor<2x3xf32, #bm>, tensor<2xf32, #b>)
  return
}

// -----

#bm = #nn.dims<batch, model>
#b = #nn.dims<batch>
#m = #nn.dims<model>
func.func @bias(%x: tensor<2x3xf32, #bm>, %w: tensor<3xf32, #m>, %c: tensor<2xf32, #b>) {
  // expected-error@+1 {{needs a bias of dimensions [model], not 'tensor<2xf32, #nn.dims<batch>>'}}
  %y, %mean, %r = nn.layer_norm %x, %w, %c {eps = 1.0e-5 : f64} : (tensor<2x3xf32, #bm>, tensor<3xf32, #m>, tensor<2xf32, #b>) -> (tensor<2x3xf32, #bm>, tensor<2xf32, #b>, tensor<2xf32, #b>)
  return
}

// -----

#bm = #nn.dims<batch, model>
#b = #nn.dims<batch>
#m = #nn.dims<model>
func.func @rms_gradient(%x: tensor<2x3xf32, #bm>, %w: tensor<3xf32, #m>, %r: tensor<2xf32, #b>) {
  // expected-error@+1 {{needs gradients of dimensions [batch, model], not 'tensor<3xf32, #nn.dims<model>>'}}
  %dx, %dw = nn.rms_norm_grad %x, %w, %r, %w : (tensor<2x3xf32, #bm>, tensor<3xf32, #m>, tensor<2xf32, #b>, tensor<3xf32, #m>) -> (tensor<2x3xf32, #bm>, tensor<3xf32, #m>)
  return
}

// -----

#bm = #nn.dims<batch, model>
#b = #nn.dims<batch>
#m = #nn.dims<model>
func.func @rms_weight_gradient(%x: tensor<2x3xf32, #bm>, %w: tensor<3xf32, #m>, %r: tensor<2xf32, #b>) {
  // expected-error@+1 {{needs a weight gradient of dimensions [model], not 'tensor<2xf32, #nn.dims<batch>>'}}
  %dx, %dw = nn.rms_norm_grad %x, %w, %r, %x : (tensor<2x3xf32, #bm>, tensor<3xf32, #m>, tensor<2xf32, #b>, tensor<2x3xf32, #bm>) -> (tensor<2x3xf32, #bm>, tensor<2xf32, #b>)
  return
}

// -----

#bm = #nn.dims<batch, model>
#b = #nn.dims<batch>
#m = #nn.dims<model>
func.func @layer_norm_gradients(%x: tensor<2x3xf32, #bm>, %w: tensor<3xf32, #m>, %r: tensor<2xf32, #b>) {
  // expected-error@+1 {{needs weight and bias gradients of dimensions [model], not 'tensor<2xf32, #nn.dims<batch>>'}}
  %dx, %dw, %db = nn.layer_norm_grad %x, %w, %r, %r, %x : (tensor<2x3xf32, #bm>, tensor<3xf32, #m>, tensor<2xf32, #b>, tensor<2xf32, #b>, tensor<2x3xf32, #bm>) -> (tensor<2x3xf32, #bm>, tensor<3xf32, #m>, tensor<2xf32, #b>)
  return
}
