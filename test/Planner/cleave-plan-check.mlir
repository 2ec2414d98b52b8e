// RUN: cleave-opt %s -split-input-file -verify-diagnostics -cleave-plan-check=ranks=4

// Every mistake in a plan is an error at the plan's own line.

// A plan that fits.
#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {token = ["tensor.0"]}
  plan.assign "block" "up" {ffn = ["tensor.1"], token = ["tensor.0"]}
}

// -----

  // expected-error@below {{plan.ranks_mismatch: the plan's axes make 2 ranks, the cluster has 4}}
// expected-note@below {{rule: the product of all axes is the number of ranks}}
// expected-note@below {{suggestion: a cluster of 2 ranks, as local:2}}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2]
  plan.layout {}
}

// -----

plan.solution version 1 {
  // expected-error@below {{plan.batch_indivisible: global batch 6 is no multiple of 4 (ranks that share it) × 1 (micro-batch)}}
  // expected-note@below {{rule: ranks × micro divides global}}
  // expected-note@below {{suggestion: global 8 micro 1}}
  plan.batch global 6 micro 1 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {batch = ["tensor"]}
}

// -----

plan.solution version 1 {
  // expected-error@below {{plan.batch_too_large: more tokens or sequences than can be counted}}
  // expected-note@below {{rule: a micro-batch has at most 2^31 - 1 tokens and a step 2^40 sequences}}
  // expected-note@below {{given: global 1073741824 micro 268435456 sequence 8}}
  // expected-note@below {{suggestion: micro 1}}
  plan.batch global 1073741824 micro 268435456 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
}

// -----

plan.solution version 1 {
  // expected-error@below {{plan.unknown_axis: the plan has no axis 'contex'}}
  // expected-note@below {{rule: one of context}}
  // expected-note@below {{suggestion: context}}
  plan.batch global 8 micro 2 sequence 8 zigzag ["contex"]
  plan.axis "context" [4]
  plan.layout {sequence = ["context"]}
}

// -----

module attributes {nn.max_positions = 8 : i64} {
  plan.solution version 1 {
    // expected-error@below {{plan.sequence_too_long: sequences of 9 tokens, and the model has 8 positions}}
    // expected-note@below {{rule: sequence is at most the model's positions}}
    // expected-note@below {{suggestion: sequence 8}}
    plan.batch global 8 micro 2 sequence 9
    plan.axis "tensor" [2, 2]
    plan.layout {}
  }
}

// -----

plan.solution version 1 {
  // expected-error@below {{plan.bad_value: a size of the batch is below 1}}
  // expected-note@below {{rule: global, micro and sequence are at least 1}}
  // expected-note@below {{suggestion: global 1 micro 1 sequence 1}}
  plan.batch global 0 micro 1 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  // expected-error@below {{plan.bad_value: 'batch' has no list of axes}}
  // expected-note@below {{rule: axes are a list of names, as ["tensor"]}}
  // expected-note@below {{suggestion: remove 'batch' from the line}}
  plan.layout {batch = "tensor"}
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  // expected-error@below {{plan.bad_value: 'batch' has no list of axes}}
  // expected-note@below {{rule: axes are a list of names, as ["tensor"]}}
  // expected-note@below {{suggestion: remove 'batch' from the line}}
  plan.layout {batch = [1]}
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  // expected-error@below {{plan.unknown_axis: the plan has no axis 'tenser'}}
  // expected-note@below {{rule: one of tensor}}
  // expected-note@below {{suggestion: tensor}}
  plan.layout {batch = ["tenser"]}
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  // expected-error@below {{plan.axis_used_twice: the axis 'tensor.1' cuts both 'batch' and 'sequence'}}
  // expected-note@below {{rule: a line uses an axis once}}
  // expected-note@below {{suggestion: remove 'tensor.1' from 'sequence'}}
  plan.layout {batch = ["tensor"], sequence = ["tensor.1"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.unknown_parameter: no layer has a parameter 'up.wieght'}}
  // expected-note@below {{rule: one of norm.weight, up.weight}}
  // expected-note@below {{suggestion: up.weight}}
  plan.parameter "up.wieght" {ffn = ["tensor"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.unknown_factor: 'up.weight' has no dimension 'fan'}}
  // expected-note@below {{rule: one of ffn, model}}
  // expected-note@below {{suggestion: ffn}}
  plan.parameter "up.weight" {fan = ["tensor"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.axis_used_twice: the axis 'tensor.0' cuts both 'ffn' and 'model'}}
  // expected-note@below {{rule: a line uses an axis once}}
  // expected-note@below {{suggestion: remove 'tensor' from 'model'}}
  plan.parameter "up.weight" {ffn = ["tensor.0"], model = ["tensor"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.unknown_kind: the model has no kind of layer 'blok'}}
  // expected-note@below {{rule: one of block}}
  // expected-note@below {{suggestion: block}}
  plan.assign "blok" "up" {ffn = ["tensor"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.unknown_path: 'block' has no operator at 'upp'}}
  // expected-note@below {{rule: one of norm, up}}
  // expected-note@below {{suggestion: up}}
  plan.assign "block" "upp" {ffn = ["tensor"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.unknown_axis: the plan has no axis 'data'}}
  // expected-note@below {{rule: one of tensor}}
  // expected-note@below {{suggestion: tensor}}
  plan.assign "block" "up" {ffn = ["data"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.axis_used_twice: the axis 'tensor.0' cuts both 'ffn' and 'token'}}
  // expected-note@below {{rule: a line uses an axis once}}
  // expected-note@below {{suggestion: remove 'tensor.0' from 'token'}}
  plan.assign "block" "up" {ffn = ["tensor.0"], token = ["tensor.0"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.unknown_factor: 'up' has no factor 'fn'}}
  // expected-note@below {{rule: one of token, model, ffn}}
  // expected-note@below {{suggestion: ffn}}
  plan.assign "block" "up" {fn = ["tensor"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.factor_not_shardable: 'model' of 'norm' cannot be cut}}
  // expected-note@below {{rule: an operator says of which of its factors it needs all}}
  // expected-note@below {{suggestion: remove 'model' from the line}}
  plan.assign "block" "norm" {model = ["tensor"]}
}

// -----

// expected-error@below {{holds 0 plans; one plan.solution is checked}}
module {}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "pipe" [4]
  plan.layout {}
  // expected-error@below {{plan.stage_layers_mismatch: the model has no @forward of at most 4096 layers}}
  // expected-note@below {{rule: a pipeline's stages are made of the layers that @forward calls}}
  // expected-note@below {{suggestion: leave out plan.pipeline}}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    plan.stage layers ["b"] counts [1]
    plan.stage layers ["c"] counts [1]
    plan.stage layers ["d"] counts [1]
  }
}

// -----

// Attention's queries can be cut if they have positions, its keys never.
#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
#bs = #nn.dims<batch, sequence>
func.func private @block(%q: tensor<1x4x2x4xf32, #q>, %p: tensor<1x4xi32, #bs>) attributes {nn.kind = "block"} {
  %y, %lse = nn.attention %q, %q, %q, %p, %p {scale = 0.5 : f64, nn.path = "placed"} : (tensor<1x4x2x4xf32, #q>, tensor<1x4x2x4xf32, #q>, tensor<1x4x2x4xf32, #q>, tensor<1x4xi32, #bs>, tensor<1x4xi32, #bs>) -> (tensor<1x4x2x4xf32, #q>, tensor<1x4x2xf32, #l>)
  return
}
plan.solution version 1 {
  plan.batch global 1 micro 1 sequence 4
  plan.axis "context" [4]
  plan.layout {sequence = ["context"]}
  // expected-error@below {{plan.factor_not_shardable: 'key_sequence' of 'placed' cannot be cut}}
  // expected-note@below {{rule: an operator says of which of its factors it needs all}}
  // expected-note@below {{suggestion: remove 'key_sequence' from the line}}
  plan.assign "block" "placed" {key_sequence = ["context"]}
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
func.func private @block(%q: tensor<1x4x2x4xf32, #q>) attributes {nn.kind = "block"} {
  %y, %lse = nn.attention %q, %q, %q {scale = 0.5 : f64, nn.path = "rows"} : (tensor<1x4x2x4xf32, #q>, tensor<1x4x2x4xf32, #q>, tensor<1x4x2x4xf32, #q>) -> (tensor<1x4x2x4xf32, #q>, tensor<1x4x2xf32, #l>)
  return
}
plan.solution version 1 {
  plan.batch global 1 micro 1 sequence 4
  plan.axis "context" [4]
  plan.layout {sequence = ["context"]}
  // expected-error@below {{plan.factor_not_shardable: 'sequence' of 'rows' cannot be cut}}
  // expected-note@below {{rule: an operator says of which of its factors it needs all}}
  // expected-note@below {{suggestion: remove 'sequence' from the line}}
  plan.assign "block" "rows" {sequence = ["context"]}
}

// -----

#tm = #nn.dims<token, model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %b = nn.contract %x, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "data" [4]
  plan.layout {batch = ["data"]}
  plan.precision "block" "up" compute bf16 store bf16
  // expected-error@below {{plan.unknown_path: 'block' has no operator at 'ups'}}
  // expected-note@below {{rule: one of up}}
  // expected-note@below {{suggestion: up}}
  plan.precision "block" "ups" compute bf16
}
