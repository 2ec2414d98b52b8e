// RUN: cleave-opt %s --split-input-file --verify-diagnostics

#bm = #nn.dims<batch, model>
#f = #nn.dims<ffn>
#b = #nn.dims<batch>
func.func @in_one_operand(%x: tensor<2x3xf32, #bm>, %w: tensor<4xf32, #f>) {
  // expected-error@+1 {{has dimension 'model' in one operand only and not in its result}}
  %y = nn.contract %x, %w : (tensor<2x3xf32, #bm>, tensor<4xf32, #f>) -> tensor<2xf32, #b>
  return
}

// -----

#bm = #nn.dims<batch, model>
#m = #nn.dims<model>
#bf = #nn.dims<batch, ffn>
func.func @result_from_nowhere(%x: tensor<2x3xf32, #bm>, %w: tensor<3xf32, #m>) {
  // expected-error@+1 {{has dimension 'ffn' in its result but in no operand}}
  %y = nn.contract %x, %w : (tensor<2x3xf32, #bm>, tensor<3xf32, #m>) -> tensor<2x5xf32, #bf>
  return
}

// -----

#bm = #nn.dims<batch, model>
#f = #nn.dims<ffn>
func.func @sum_from_nowhere(%x: tensor<2x3xf32, #bm>) {
  // expected-error@+1 {{has dimension 'ffn' in its result but in no operand}}
  %y = nn.sum %x : (tensor<2x3xf32, #bm>) -> tensor<2xf32, #f>
  return
}

// -----

#qm = #nn.dims<qkv, model>
#m = #nn.dims<model>
func.func @unstack_lacks(%x: tensor<2x3xf32, #qm>) {
  // expected-error@+1 {{names the dimension 'group', which the whole tensor lacks}}
  %y:2 = nn.unstack %x {dim = "group"} : (tensor<2x3xf32, #qm>) -> (tensor<3xf32, #m>, tensor<3xf32, #m>)
  return
}

// -----

#qm = #nn.dims<qkv, model>
#m = #nn.dims<model>
func.func @unstack_count(%x: tensor<3x3xf32, #qm>) {
  // expected-error@+1 {{has 2 parts along 'qkv' of size 3}}
  %y:2 = nn.unstack %x {dim = "qkv"} : (tensor<3x3xf32, #qm>) -> (tensor<3xf32, #m>, tensor<3xf32, #m>)
  return
}

// -----

#qm = #nn.dims<qkv, model>
#m = #nn.dims<model>
#f = #nn.dims<ffn>
func.func @unstack_type(%x: tensor<2x3xf32, #qm>) {
  // expected-error@+1 {{has a part of type 'tensor<3xf32, #nn.dims<ffn>>' where 'tensor<3xf32, #nn.dims<model>>' belongs}}
  %y:2 = nn.unstack %x {dim = "qkv"} : (tensor<2x3xf32, #qm>) -> (tensor<3xf32, #m>, tensor<3xf32, #f>)
  return
}

// -----

#qm = #nn.dims<qkv, model>
#m = #nn.dims<model>
func.func @stack_count(%x: tensor<3xf32, #m>) {
  // expected-error@+1 {{has 1 parts along 'qkv' of size 2}}
  %y = nn.stack %x {dim = "qkv"} : (tensor<3xf32, #m>) -> tensor<2x3xf32, #qm>
  return
}
