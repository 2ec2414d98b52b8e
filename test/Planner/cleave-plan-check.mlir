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
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2]
  plan.layout {}
}

// -----

plan.solution version 1 {
  // expected-error@below {{plan.batch_indivisible: global batch 6 is no multiple of 4 (ranks that share it) × 1 (micro-batch)}}
  plan.batch global 6 micro 1 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {batch = ["tensor"]}
}

// -----

plan.solution version 1 {
  // expected-error@below {{plan.batch_indivisible: sizes must be at least 1}}
  plan.batch global 0 micro 1 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  // expected-error@below {{plan.bad_value: 'batch' needs a list of axes, as ["tensor"]}}
  plan.layout {batch = "tensor"}
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  // expected-error@below {{plan.bad_value: 'batch' needs a list of axes}}
  plan.layout {batch = [1]}
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  // expected-error@below {{plan.unknown_axis: the plan has no axis 'tenser' (did you mean 'tensor'?)}}
  plan.layout {batch = ["tenser"]}
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  // expected-error@below {{plan.axis_used_twice: the axis 'tensor.1' cuts both 'batch' and 'sequence'}}
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
  // expected-error@below {{plan.unknown_parameter: no layer has a parameter 'up.wieght' (did you mean 'up.weight'?)}}
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
  // expected-error@below {{plan.unknown_kind: the model has no kind of layer 'blok' (did you mean 'block'?)}}
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
  // expected-error@below {{plan.unknown_path: 'block' has no operator at 'upp' (did you mean 'up'?)}}
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
  // expected-error@below {{plan.unknown_factor: 'up' has no factor 'fn' (did you mean 'ffn'?)}}
  plan.assign "block" "up" {fn = ["tensor"]}
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
#fm = #nn.dims<ffn, model>
#tf = #nn.dims<token, ffn>
func.func private @block(%x: tensor<4x6xf32, #tm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  // expected-note@below {{the operator needs all of it}}
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<4x6xf32, #tm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #tf>
  return
}
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "tensor" [2, 2]
  plan.layout {}
  // expected-error@below {{plan.factor_not_shardable: 'model' of 'norm' cannot be cut}}
  plan.assign "block" "norm" {model = ["tensor"]}
}

// -----

// expected-error@below {{holds 0 plans; one plan.solution is checked}}
module {}
