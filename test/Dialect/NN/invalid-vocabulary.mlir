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
  // expected-error@+1 {{needs the dimensions of its ids, then those of a row, in its result}}
  %y = nn.embedding %t, %ids : (tensor<9x3xf32, #vm>, tensor<2xi32, #b>) -> tensor<3x2xf32, #mb>
  return
}

// -----

#b = #nn.dims<batch>
#bv = #nn.dims<batch, vocab>
#v = #nn.dims<vocab>
func.func @targets_of_other_rows(%x: tensor<2x9xf32, #bv>, %t: tensor<9xi32, #v>) {
  // expected-error@+1 {{needs targets, losses and log-sum-exps of the rows of its logits}}
  %loss, %lse = nn.cross_entropy %x, %t : (tensor<2x9xf32, #bv>, tensor<9xi32, #v>) -> (tensor<2xf32, #b>, tensor<2xf32, #b>)
  return
}
