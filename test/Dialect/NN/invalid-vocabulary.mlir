// RUN: cleave-opt %s --split-input-file --verify-diagnostics

#b = #nn.dims<batch>
#v = #nn.dims<vocab>
func.func @table_of_rank_one(%t: tensor<9xf32, #v>, %ids: tensor<2xi32, #b>) {
  // expected-error@+1 {{needs a table of at least two dimensions}}
  %y = nn.embedding %t, %ids : (tensor<9xf32, #v>, tensor<2xi32, #b>) -> tensor<2xf32, #b>
  return
}

// -----

#b = #nn.dims<batch>
#vm = #nn.dims<vocab, model>
#mb = #nn.dims<model, batch>
func.func @dimension_order(%t: tensor<9x3xf32, #vm>, %ids: tensor<2xi32, #b>) {
  // expected-error@+1 {{needs rows of dimensions [batch, model], not 'tensor<3x2xf32, #nn.dims<model, batch>>'}}
  %y = nn.embedding %t, %ids : (tensor<9x3xf32, #vm>, tensor<2xi32, #b>) -> tensor<3x2xf32, #mb>
  return
}

// -----

#b = #nn.dims<batch>
#bv = #nn.dims<batch, vocab>
#v = #nn.dims<vocab>
func.func @targets_of_other_rows(%x: tensor<2x9xf32, #bv>, %t: tensor<9xi32, #v>) {
  // expected-error@+1 {{needs targets and row values of dimensions [batch], not 'tensor<9xi32, #nn.dims<vocab>>'}}
  %loss, %lse = nn.cross_entropy %x, %t : (tensor<2x9xf32, #bv>, tensor<9xi32, #v>) -> (tensor<2xf32, #b>, tensor<2xf32, #b>)
  return
}

// -----

#b = #nn.dims<batch>
#vm = #nn.dims<vocab, model>
#bm = #nn.dims<batch, model>
func.func @offset(%t: tensor<9x3xf32, #vm>, %ids: tensor<2xi32, #b>) {
  // expected-error@+1 {{needs an offset of dimensions [], not 'tensor<2xi32, #nn.dims<batch>>'}}
  %y = nn.embedding %t, %ids, %ids : (tensor<9x3xf32, #vm>, tensor<2xi32, #b>, tensor<2xi32, #b>) -> tensor<2x3xf32, #bm>
  return
}

// -----

#b = #nn.dims<batch>
#vm = #nn.dims<vocab, model>
func.func @gradient_rows(%ids: tensor<2xi32, #b>, %dy: tensor<2xf32, #b>) {
  // expected-error@+1 {{needs rows of dimensions [batch, model], not 'tensor<2xf32, #nn.dims<batch>>'}}
  %y = nn.embedding_grad %ids, %dy : (tensor<2xi32, #b>, tensor<2xf32, #b>) -> tensor<9x3xf32, #vm>
  return
}

// -----

func.func @no_vocabulary(%x: tensor<f32>, %t: tensor<i32>) {
  // expected-error@+1 {{needs logits with a dimension for the vocabulary}}
  %loss, %lse = nn.cross_entropy %x, %t : (tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

#b = #nn.dims<batch>
#bv = #nn.dims<batch, vocab>
func.func @logits_gradient(%x: tensor<2x9xf32, #bv>, %t: tensor<2xi32, #b>, %r: tensor<2xf32, #b>) {
  // expected-error@+1 {{needs a gradient of dimensions [batch, vocab], not 'tensor<2xf32, #nn.dims<batch>>'}}
  %dx = nn.cross_entropy_grad %x, %t, %r, %r : (tensor<2x9xf32, #bv>, tensor<2xi32, #b>, tensor<2xf32, #b>, tensor<2xf32, #b>) -> tensor<2xf32, #b>
  return
}

// -----

#b = #nn.dims<batch>
#s = #nn.dims<sequence>
func.func @combine(%x: tensor<2xf32, #b>, %y: tensor<2xf32, #s>, %t: tensor<2xi32, #b>) {
  // expected-error@+1 {{needs operands of dimensions [batch], not 'tensor<2xf32, #nn.dims<sequence>>'}}
  %loss, %lse = nn.cross_entropy_combine %x, %y, %x, %t : (tensor<2xf32, #b>, tensor<2xf32, #s>, tensor<2xf32, #b>, tensor<2xi32, #b>) -> (tensor<2xf32, #b>, tensor<2xf32, #b>)
  return
}

// -----

#b = #nn.dims<batch>
func.func @count(%t: tensor<2xi32, #b>) {
  // expected-error@+1 {{needs a count of dimensions [], not 'tensor<2xf32, #nn.dims<batch>>'}}
  %n = nn.count_valid %t : (tensor<2xi32, #b>) -> tensor<2xf32, #b>
  return
}
