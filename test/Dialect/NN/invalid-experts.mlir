// RUN: cleave-opt %s --split-input-file --verify-diagnostics

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @softmax_of_a_scalar(%x: tensor<f32>) {
  // expected-error@+1 {{needs a dimension to go along}}
  %y = nn.softmax %x : (tensor<f32>) -> tensor<f32>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @softmax_elsewhere(%x: tensor<3x4xf32, #be>) {
  // expected-error@+1 {{needs operands and results of dimensions [batch, expert], not 'tensor<3x2xf32, #nn.dims<batch, choice>>'}}
  %y = nn.softmax %x : (tensor<3x4xf32, #be>) -> tensor<3x2xf32, #bc>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @too_many(%x: tensor<3x4xf32, #be>) {
  // expected-error@+1 {{takes 5 of 4 elements}}
  %y = nn.top_k %x : (tensor<3x4xf32, #be>) -> tensor<3x5xi32, #bc>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @float_indices(%x: tensor<3x4xf32, #be>) {
  // expected-error@+1 {{needs indices of i32}}
  %y = nn.top_k %x : (tensor<3x4xf32, #be>) -> tensor<3x2xf32, #bc>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @picked_under_the_same_name(%x: tensor<3x4xf32, #be>) {
  // expected-error@+1 {{picks along "expert" and calls the picked ones alike}}
  %y = nn.top_k %x : (tensor<3x4xf32, #be>) -> tensor<3x4xi32, #be>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @rows_of_indices(%x: tensor<3x4xf32, #be>, %i: tensor<3xi32, #b>) {
  // expected-error@+1 {{needs indices and what is picked of dimensions [batch, choice], not 'tensor<3xi32, #nn.dims<batch>>'}}
  %y = nn.pick %x, %i : (tensor<3x4xf32, #be>, tensor<3xi32, #b>) -> tensor<3x2xf32, #bc>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @place_elsewhere(%x: tensor<3x2xf32, #bc>, %i: tensor<3x2xi32, #bc>) {
  // expected-error@+1 {{needs a dimension to pick along}}
  %y = nn.place %x, %i : (tensor<3x2xf32, #bc>, tensor<3x2xi32, #bc>) -> tensor<f32>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @input_of_other_rows(%x: tensor<8xf32, #nn.dims<model>>, %t: tensor<4x5x8xf32, #efm>, %i: tensor<3x2xi32, #bc>) {
  // expected-error@+1 {{needs an input that starts with the dimensions of the indices}}
  %y = nn.expert_contract %x, %t, %i : (tensor<8xf32, #nn.dims<model>>, tensor<4x5x8xf32, #efm>, tensor<3x2xi32, #bc>) -> tensor<3x2x5xf32, #bcf>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @table_of_other_dimensions(%x: tensor<3x8xf32, #bm>, %t: tensor<4x5xf32, #nn.dims<expert, ffn>>, %i: tensor<3x2xi32, #bc>) {
  // expected-error@+1 {{needs a table of the dimension that is picked from}}
  %y = nn.expert_contract %x, %t, %i : (tensor<3x8xf32, #bm>, tensor<4x5xf32, #nn.dims<expert, ffn>>, tensor<3x2xi32, #bc>) -> tensor<3x2x5xf32, #bcf>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @sizes(%x: tensor<3x8xf32, #bm>, %t: tensor<4x5x7xf32, #efm>, %i: tensor<3x2xi32, #bc>) {
  // expected-error@+1 {{has two sizes for dimension 'model'}}
  %y = nn.expert_contract %x, %t, %i : (tensor<3x8xf32, #bm>, tensor<4x5x7xf32, #efm>, tensor<3x2xi32, #bc>) -> tensor<3x2x5xf32, #bcf>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @offset(%x: tensor<3x8xf32, #bm>, %t: tensor<4x5x8xf32, #efm>, %i: tensor<3x2xi32, #bc>) {
  // expected-error@+1 {{needs an offset that is one i32}}
  %y = nn.expert_contract %x, %t, %i, %i : (tensor<3x8xf32, #bm>, tensor<4x5x8xf32, #efm>, tensor<3x2xi32, #bc>, tensor<3x2xi32, #bc>) -> tensor<3x2x5xf32, #bcf>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @outer_of_other_rows(%x: tensor<8xf32, #nn.dims<model>>, %g: tensor<3x2x5xf32, #bcf>, %i: tensor<3x2xi32, #bc>) {
  // expected-error@+1 {{needs operands that start with the dimensions of the indices}}
  %y = nn.expert_outer %g, %x, %i : (tensor<3x2x5xf32, #bcf>, tensor<8xf32, #nn.dims<model>>, tensor<3x2xi32, #bc>) -> tensor<4x5x8xf32, #efm>
  return
}

// -----

#b = #nn.dims<batch>
#be = #nn.dims<batch, expert>
#bc = #nn.dims<batch, choice>
#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>
func.func @outer_in_another_order(%x: tensor<3x8xf32, #bm>, %g: tensor<3x2x5xf32, #bcf>, %i: tensor<3x2xi32, #bc>) {
  // expected-error@+1 {{needs a result of the dimension that is picked from}}
  %y = nn.expert_outer %x, %g, %i : (tensor<3x8xf32, #bm>, tensor<3x2x5xf32, #bcf>, tensor<3x2xi32, #bc>) -> tensor<4x5x8xf32, #efm>
  return
}
