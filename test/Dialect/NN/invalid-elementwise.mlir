// RUN: cleave-opt %s --split-input-file --verify-diagnostics

#bm = #nn.dims<batch, model>
#m = #nn.dims<model>
func.func @lost_dimension(%x: tensor<2x3xf32, #bm>, %y: tensor<3xf32, #m>) {
  // expected-error@+1 {{has dimension 'batch' in an operand but not in its result}}
  %z = nn.add %x, %y : (tensor<2x3xf32, #bm>, tensor<3xf32, #m>) -> tensor<3xf32, #m>
  return
}

// -----

#bm = #nn.dims<batch, model>
#m = #nn.dims<model>
func.func @lost_in_activation(%x: tensor<2x3xf32, #bm>) {
  // expected-error@+1 {{'nn.silu' op has dimension 'batch' in an operand but not in its result}}
  %z = nn.silu %x : (tensor<2x3xf32, #bm>) -> tensor<3xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
func.func @no_terms() {
  // expected-error@+1 {{needs at least one term}}
  %z = nn.add_n : () -> tensor<3xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
func.func @other_type(%x: tensor<3xf32, #m>, %y: tensor<3xbf16, #m>) {
  // expected-error@+1 {{has a term of another type than its result}}
  %z = nn.add_n %x, %y : (tensor<3xf32, #m>, tensor<3xbf16, #m>) -> tensor<3xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
func.func @no_other_type(%x: tensor<3xf32, #m>) {
  // expected-error@below {{needs f32 and bf16, one to the other, not 'f32' to 'f32'}}
  %y = nn.cast %x : (tensor<3xf32, #m>) -> tensor<3xf32, #m>
  return
}

// -----

#mf = #nn.dims<model, ffn>
#fm = #nn.dims<ffn, model>
func.func @other_dimensions(%x: tensor<3x3xf32, #mf>) {
  // expected-error@below {{needs a result of its input's dimensions, in the same order}}
  %y = nn.cast %x : (tensor<3x3xf32, #mf>) -> tensor<3x3xbf16, #fm>
  return
}
