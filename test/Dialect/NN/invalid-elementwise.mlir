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
