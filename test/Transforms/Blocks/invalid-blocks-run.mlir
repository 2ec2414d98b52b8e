// RUN: cleave-opt %s -cleave-blocks-run --split-input-file --verify-diagnostics

#tv = #nn.dims<batch, vocab>

// expected-error@+1 {{needs a body, and in nn.blocks one dimension with the number of its blocks}}
func.func private @kind(%x: tensor<5x6xf32, #tv>) -> tensor<5x6xf32, #tv> attributes {nn.blocks = {vocab = 2 : i64}}

// -----

#tv = #nn.dims<batch, vocab>

// expected-error@+1 {{needs a body, and in nn.blocks one dimension}}
func.func private @kind(%x: tensor<5x6xf32, #tv>) -> tensor<5x6xf32, #tv> attributes {nn.blocks = {batch = 2 : i64, vocab = 2 : i64}} {
  return %x : tensor<5x6xf32, #tv>
}

// -----

// A norm needs all of the dimension that it is over.

#tv = #nn.dims<batch, vocab>
#v = #nn.dims<vocab>
#t = #nn.dims<batch>

func.func private @kind(%x: tensor<5x6xf32, #tv>, %w: tensor<6xf32, #v>) -> tensor<5x6xf32, #tv> attributes {nn.blocks = {vocab = 2 : i64}} {
  // expected-error@+3 {{needs all of 'vocab' at once}}
  // expected-note@+2 {{rule: operators along the dimension are cut alike}}
  // expected-note@+1 {{suggestion: the plan without its plan.chunk}}
  %y, %rstd = nn.rms_norm %x, %w {eps = 1.0e-5 : f64} : (tensor<5x6xf32, #tv>, tensor<6xf32, #v>) -> (tensor<5x6xf32, #tv>, tensor<5xf32, #t>)
  return %y : tensor<5x6xf32, #tv>
}
func.func @step(%x: tensor<5x6xf32, #tv>, %w: tensor<6xf32, #v>) -> tensor<5x6xf32, #tv> {
  %y = call @kind(%x, %w) : (tensor<5x6xf32, #tv>, tensor<6xf32, #v>) -> tensor<5x6xf32, #tv>
  return %y : tensor<5x6xf32, #tv>
}

// -----

// The second product needs the sum over all blocks of the first.

#tm = #nn.dims<batch, model>
#vm = #nn.dims<vocab, model>
#tv = #nn.dims<batch, vocab>

func.func private @kind(%d: tensor<5x6xf32, #tv>, %w: tensor<6x4xf32, #vm>) -> tensor<5x6xf32, #tv> attributes {nn.blocks = {vocab = 2 : i64}} {
  %x = nn.contract %d, %w : (tensor<5x6xf32, #tv>, tensor<6x4xf32, #vm>) -> tensor<5x4xf32, #tm>
  // expected-error@+3 {{needs, for each block of 'vocab', what all blocks give}}
  // expected-note@+2 {{rule: operators along the dimension are cut alike}}
  // expected-note@+1 {{suggestion: the plan without its plan.chunk}}
  %l = nn.contract %x, %w : (tensor<5x4xf32, #tm>, tensor<6x4xf32, #vm>) -> tensor<5x6xf32, #tv>
  return %l : tensor<5x6xf32, #tv>
}
func.func @step(%d: tensor<5x6xf32, #tv>, %w: tensor<6x4xf32, #vm>) -> tensor<5x6xf32, #tv> {
  %y = call @kind(%d, %w) : (tensor<5x6xf32, #tv>, tensor<6x4xf32, #vm>) -> tensor<5x6xf32, #tv>
  return %y : tensor<5x6xf32, #tv>
}

// -----

// What is stacked or scanned has equal blocks.

#tm = #nn.dims<batch, model>
#vm = #nn.dims<vocab, model>
#tv = #nn.dims<batch, vocab>

func.func private @kind(%d: tensor<5x7xf32, #tv>, %w: tensor<7x4xf32, #vm>) -> tensor<5x4xf32, #tm> attributes {nn.blocks = {vocab = 2 : i64}} {
  // expected-error@+3 {{plan.chunk_indivisible: 7 elements of 'vocab' on a rank do not give 2 equal pieces}}
  // expected-note@+2 {{rule: pieces are equal where}}
  // expected-note@+1 {{suggestion: 7 pieces}}
  %x = nn.contract %d, %w : (tensor<5x7xf32, #tv>, tensor<7x4xf32, #vm>) -> tensor<5x4xf32, #tm>
  return %x : tensor<5x4xf32, #tm>
}
func.func @step(%d: tensor<5x7xf32, #tv>, %w: tensor<7x4xf32, #vm>) -> tensor<5x4xf32, #tm> {
  %y = call @kind(%d, %w) : (tensor<5x7xf32, #tv>, tensor<7x4xf32, #vm>) -> tensor<5x4xf32, #tm>
  return %y : tensor<5x4xf32, #tm>
}
