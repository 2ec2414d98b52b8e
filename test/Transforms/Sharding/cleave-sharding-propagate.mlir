// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate | FileCheck %s
// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate > %t.once
// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate -cleave-sharding-propagate | diff %t.once -

#bsm = #nn.dims<batch, sequence, model>
#bsf = #nn.dims<batch, sequence, ffn>
#fm = #nn.dims<ffn, model>
#mf = #nn.dims<model, ffn>

dist.mesh @mesh ["data", "tensor"] = [2, 2]

// A column split, then a row split: the sum is left partial, passes through what
// is linear in it, and is completed for what is not.
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: tensor<8x6xf32, #{{.*}}> {dist.sharding = #dist.sharding<{{\[\[}}tensor], []]>}
func.func @mlp(%x: tensor<4x2x6xf32, #bsm> {dist.sharding = #dist.sharding<[[data], [], []]>}, %up: tensor<8x6xf32, #fm> {dist.sharding = #dist.sharding<[[tensor], []]>}, %down: tensor<6x8xf32, #mf> {dist.sharding = #dist.sharding<[[], [tensor]]>}) -> tensor<4x2x6xf32, #bsm> {
  // CHECK: nn.contract
  // CHECK-SAME: dist.in = [#dist.sharding<{{\[\[}}data], [], []]>, #dist.sharding<{{\[\[}}tensor], []]>]
  // CHECK-SAME: dist.out = [#dist.sharding<{{\[\[}}data], [], [tensor]]>]
  %h = nn.contract %x, %up {dist.factors = {batch = ["data"], ffn = ["tensor"]}} : (tensor<4x2x6xf32, #bsm>, tensor<8x6xf32, #fm>) -> tensor<4x2x8xf32, #bsf>
  // CHECK: nn.relu {{.*}}dist.out = [#dist.sharding<{{\[\[}}data], [], [tensor]]>]
  %a = nn.relu %h : (tensor<4x2x8xf32, #bsf>) -> tensor<4x2x8xf32, #bsf>
  // CHECK: nn.contract
  // CHECK-SAME: dist.in = [#dist.sharding<{{\[\[}}data], [], [tensor]]>, #dist.sharding<{{\[\[}}], [tensor]]>]
  // CHECK-SAME: dist.out = [#dist.sharding<{{\[\[}}data], [], []], partial [tensor]>]
  %y = nn.contract %a, %down {dist.factors = {batch = ["data"], ffn = ["tensor"]}} : (tensor<4x2x8xf32, #bsf>, tensor<6x8xf32, #mf>) -> tensor<4x2x6xf32, #bsm>
  // CHECK: nn.add
  // CHECK-SAME: dist.out = [#dist.sharding<{{\[\[}}data], [], []], partial [tensor]>]
  %twice = nn.add %y, %y : (tensor<4x2x6xf32, #bsm>, tensor<4x2x6xf32, #bsm>) -> tensor<4x2x6xf32, #bsm>
  // CHECK: nn.add
  // CHECK-SAME: dist.in = [#dist.sharding<{{\[\[}}data], [], []]>, #dist.sharding<{{\[\[}}data], [], []]>]
  %z = nn.add %x, %twice : (tensor<4x2x6xf32, #bsm>, tensor<4x2x6xf32, #bsm>) -> tensor<4x2x6xf32, #bsm>
  return %z : tensor<4x2x6xf32, #bsm>
}

// -----

#bsm = #nn.dims<batch, sequence, model>
#bs = #nn.dims<batch, sequence>
#m = #nn.dims<model>

dist.mesh @mesh ["data", "tensor"] = [2, 2]

nn.parameter @norm : tensor<6xf32, #m> {file_shape = array<i64: 6>, init_mean = 1.0 : f64, init_std = 0.0 : f64}

// Each rank sees its batch and its part of the sequence: the gradient of the
// norm's weight is a sum over both axes, and so is what is kept of it.
// CHECK: nn.parameter @norm {{.*}}dist.gradient = #dist.sharding<{{\[\[}}]], partial [data, tensor]>
// CHECK-LABEL: func.func @norm_backward
func.func @norm_backward(%x: tensor<4x2x6xf32, #bsm>, %w: tensor<6xf32, #m>, %r: tensor<4x2xf32, #bs>, %g: tensor<4x2x6xf32, #bsm>) {
  // CHECK: nn.rms_norm_grad
  // CHECK-SAME: dist.out = [#dist.sharding<{{\[\[}}data], [tensor], []]>, #dist.sharding<{{\[\[}}]], partial [data, tensor]>]
  %dx, %dw = nn.rms_norm_grad %x, %w, %r, %g {dist.factors = {batch = ["data"], sequence = ["tensor"]}} : (tensor<4x2x6xf32, #bsm>, tensor<6xf32, #m>, tensor<4x2xf32, #bs>, tensor<4x2x6xf32, #bsm>) -> (tensor<4x2x6xf32, #bsm>, tensor<6xf32, #m>)
  // CHECK: nn.accumulate {{.*}}dist.in = [#dist.sharding<{{\[\[}}]], partial [data, tensor]>]
  nn.accumulate %dw, @norm gradient : tensor<6xf32, #m>
  return
}

// -----

#vm = #nn.dims<vocab, model>
#tv = #nn.dims<token, vocab>
#tm = #nn.dims<token, model>

dist.mesh @mesh ["data", "tensor"] = [2, 2]

nn.parameter @tied : tensor<8x6xf32, #vm> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

// A tied weight gets two contributions, partial over different axes: both are
// added as terms over the union of these.
// CHECK: nn.parameter @tied {{.*}}dist.gradient = #dist.sharding<{{\[\[}}], []], partial [data, tensor]>
// CHECK-LABEL: func.func @two_uses
func.func @two_uses(%a: tensor<4x8xf32, #tv>, %b: tensor<4x6xf32, #tm>) {
  // CHECK: nn.contract {{.*}}partial [data]>
  %one = nn.contract %a, %b {dist.factors = {token = ["data"]}} : (tensor<4x8xf32, #tv>, tensor<4x6xf32, #tm>) -> tensor<8x6xf32, #vm>
  // CHECK: nn.accumulate {{.*}}dist.in = [#dist.sharding<{{\[\[}}], []], partial [data, tensor]>]
  nn.accumulate %one, @tied gradient : tensor<8x6xf32, #vm>
  // CHECK: nn.contract {{.*}}partial [tensor]>
  %two = nn.contract %a, %b {dist.factors = {token = ["tensor"]}} : (tensor<4x8xf32, #tv>, tensor<4x6xf32, #tm>) -> tensor<8x6xf32, #vm>
  // CHECK: nn.accumulate {{.*}}dist.in = [#dist.sharding<{{\[\[}}], []], partial [data, tensor]>]
  nn.accumulate %two, @tied gradient : tensor<8x6xf32, #vm>
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, group>
#k = #nn.dims<batch, sequence, kv_head>
#w = #nn.dims<kv_head, group>

dist.mesh @mesh ["tensor.0", "tensor.1"] = [2, 2]

// Fewer key heads than ranks: queries are cut by both parts of the axis, keys by
// the first, and a gradient that sums over the queries of a key head is partial
// over the second.
// CHECK-LABEL: func.func @keys
func.func @keys(%dq: tensor<2x3x2x4xf32, #q> {dist.sharding = #dist.sharding<[[], [], ["tensor.0"], ["tensor.1"]]>}, %w: tensor<2x4xf32, #w>) -> tensor<2x3x2xf32, #k> {
  // CHECK: nn.contract
  // CHECK-SAME: dist.in = [#dist.sharding<{{\[\[}}], [], [tensor.0], [tensor.1]]>, #dist.sharding<{{\[\[}}tensor.0], [tensor.1]]>]
  // CHECK-SAME: dist.out = [#dist.sharding<{{\[\[}}], [], [tensor.0]], partial [tensor.1]>]
  %dk = nn.contract %dq, %w : (tensor<2x3x2x4xf32, #q>, tensor<2x4xf32, #w>) -> tensor<2x3x2xf32, #k>
  return %dk : tensor<2x3x2xf32, #k>
}

// -----

#m = #nn.dims<model>

dist.mesh @mesh ["tensor"] = [2]

// A callee takes what its first call brings; without anything said all is whole.
// CHECK-LABEL: func.func private @inner
// CHECK-SAME: dist.sharding = #dist.sharding<{{\[\[}}tensor]]>
// CHECK-SAME: -> (tensor<6xf32, #{{.*}}> {dist.sharding = #dist.sharding<{{\[\[}}tensor]]>})
func.func private @inner(%x: tensor<6xf32, #m>) -> tensor<6xf32, #m> {
  %y = nn.relu %x : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %y : tensor<6xf32, #m>
}
// CHECK-LABEL: func.func @outer
// CHECK-SAME: {dist.sharding = #dist.sharding<{{\[\[}}]]>}) -> (tensor<6xf32, #{{.*}}> {dist.sharding = #dist.sharding<{{\[\[}}]]>})
func.func @outer(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor]]>}, %z: tensor<6xf32, #m>) -> (tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]]>}) {
  // CHECK: call @inner{{.*}} {dist.in = [#dist.sharding<{{\[\[}}tensor]]>], dist.out = [#dist.sharding<{{\[\[}}tensor]]>]}
  %y = func.call @inner(%x) : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  // CHECK: return {dist.in = [#dist.sharding<{{\[\[}}]]>]}
  return %y : tensor<6xf32, #m>
}

// -----

#bsm = #nn.dims<batch, sequence, model>
#bsc = #nn.dims<batch, sequence, choice>
#bscf = #nn.dims<batch, sequence, choice, ffn>
#bscm = #nn.dims<batch, sequence, choice, model>
#efm = #nn.dims<expert, ffn, model>
#emf = #nn.dims<expert, model, ffn>

dist.mesh @mesh ["data", "tensor"] = [2, 2]

// Each rank has experts of its own: what goes on between them is zero on the ranks
// that don't have a token's expert, and passes through what makes zeros of zeros.
// CHECK-LABEL: func.func @experts
func.func @experts(%x: tensor<4x2x6xf32, #bsm>, %w: tensor<4x2x2xf32, #bsc>, %i: tensor<4x2x2xi32, #bsc>, %up: tensor<4x8x6xf32, #efm> {dist.sharding = #dist.sharding<[["data"], [], []]>}, %down: tensor<4x6x8xf32, #emf> {dist.sharding = #dist.sharding<[["data"], [], []]>}) -> tensor<4x2x6xf32, #bsm> {
  // CHECK: nn.expert_contract {{.*}}dist.out = [#dist.sharding<{{\[\[}}], [], [], []], apart [data]>]
  %g = nn.expert_contract %x, %up, %i {dist.factors = {expert = ["data"]}} : (tensor<4x2x6xf32, #bsm>, tensor<4x8x6xf32, #efm>, tensor<4x2x2xi32, #bsc>) -> tensor<4x2x2x8xf32, #bscf>
  // CHECK: nn.silu {{.*}}dist.in = [#dist.sharding<{{\[\[}}], [], [], []], apart [data]>], dist.out = [#dist.sharding<{{\[\[}}], [], [], []], apart [data]>]
  %a = nn.silu %g : (tensor<4x2x2x8xf32, #bscf>) -> tensor<4x2x2x8xf32, #bscf>
  // Both factors of a product, or one.
  // CHECK: nn.mul {{.*}}dist.in = [#dist.sharding<{{\[\[}}], [], [], []], apart [data]>, #dist.sharding<{{\[\[}}], [], [], []], apart [data]>], dist.out = [#dist.sharding<{{\[\[}}], [], [], []], apart [data]>]
  %b = nn.mul %a, %g : (tensor<4x2x2x8xf32, #bscf>, tensor<4x2x2x8xf32, #bscf>) -> tensor<4x2x2x8xf32, #bscf>
  // CHECK: nn.mul {{.*}}dist.in = [#dist.sharding<{{\[\[}}], [], [], []], apart [data]>, #dist.sharding<{{\[\[}}], [], []]>], dist.out = [#dist.sharding<{{\[\[}}], [], [], []], apart [data]>]
  %c = nn.mul %b, %w : (tensor<4x2x2x8xf32, #bscf>, tensor<4x2x2xf32, #bsc>) -> tensor<4x2x2x8xf32, #bscf>
  // CHECK: nn.expert_contract {{.*}}dist.in = [#dist.sharding<{{\[\[}}], [], [], []], apart [data]>, {{.*}}dist.out = [#dist.sharding<{{\[\[}}], [], [], []], apart [data]>]
  %d = nn.expert_contract %c, %down, %i {dist.factors = {expert = ["data"]}} : (tensor<4x2x2x8xf32, #bscf>, tensor<4x6x8xf32, #emf>, tensor<4x2x2xi32, #bsc>) -> tensor<4x2x2x6xf32, #bscm>
  // A sum of what several ranks hold is a partial value like others.
  // CHECK: nn.sum {{.*}}dist.out = [#dist.sharding<{{\[\[}}], [], []], partial [data]>]
  %e = nn.sum %d : (tensor<4x2x2x6xf32, #bscm>) -> tensor<4x2x6xf32, #bsm>
  // Not zero at zero: complete first.
  // CHECK: nn.sigmoid {{.*}}dist.in = [#dist.sharding<{{\[\[}}], [], [], []]>]
  %s = nn.sigmoid %g : (tensor<4x2x2x8xf32, #bscf>) -> tensor<4x2x2x8xf32, #bscf>
  return %e : tensor<4x2x6xf32, #bsm>
}

// -----

#bm = #nn.dims<batch, model>
#bc = #nn.dims<batch, choice>
#bcf = #nn.dims<batch, choice, ffn>
#efm = #nn.dims<expert, ffn, model>

dist.mesh @mesh ["data"] = [2]

// With two indices into one dimension nobody knows whose zeros meet.
// CHECK-LABEL: func.func @two_routings
func.func @two_routings(%x: tensor<4x6xf32, #bm>, %i: tensor<4x2xi32, #bc>, %j: tensor<4x2xi32, #bc>, %t: tensor<4x8x6xf32, #efm> {dist.sharding = #dist.sharding<[["data"], [], []]>}) -> tensor<4x2x8xf32, #bcf> {
  // CHECK: nn.expert_contract {{.*}}apart [data]
  %g = nn.expert_contract %x, %t, %i {dist.factors = {expert = ["data"]}} : (tensor<4x6xf32, #bm>, tensor<4x8x6xf32, #efm>, tensor<4x2xi32, #bc>) -> tensor<4x2x8xf32, #bcf>
  // CHECK: nn.expert_contract {{.*}}dist.out = [#dist.sharding<{{\[\[}}], [], []], partial [data]>]
  %h = nn.expert_contract %x, %t, %j {dist.factors = {expert = ["data"]}} : (tensor<4x6xf32, #bm>, tensor<4x8x6xf32, #efm>, tensor<4x2xi32, #bc>) -> tensor<4x2x8xf32, #bcf>
  // CHECK: nn.mul {{.*}}dist.in = [#dist.sharding<{{\[\[}}], [], []], apart [data]>, #dist.sharding<{{\[\[}}], [], []]>]
  %m = nn.mul %g, %h : (tensor<4x2x8xf32, #bcf>, tensor<4x2x8xf32, #bcf>) -> tensor<4x2x8xf32, #bcf>
  return %m : tensor<4x2x8xf32, #bcf>
}

// -----

#bsm = #nn.dims<batch, sequence, model>
#bsf = #nn.dims<batch, sequence, ffn>
#mf = #nn.dims<model, ffn>

dist.mesh @mesh ["data", "tensor"] = [2, 2]

// What is returned lies as it is made; a sum that an operator here completes is returned
// complete, so that it is not made twice. One that nobody completes stays terms.
// CHECK-LABEL: func.func @kept
// CHECK-SAME: -> (tensor<4x2x6xf32, #{{.*}}> {dist.sharding = #dist.sharding<{{\[\[}}data], [], []]>},
// CHECK-SAME: tensor<4x2x6xf32, #{{.*}}> {dist.sharding = #dist.sharding<{{\[\[}}data], [], []], partial [tensor]>})
func.func @kept(%x: tensor<4x2x6xf32, #bsm> {dist.sharding = #dist.sharding<[[data], [], []]>}, %a: tensor<4x2x8xf32, #bsf> {dist.sharding = #dist.sharding<[[data], [], [tensor]]>}, %down: tensor<6x8xf32, #mf> {dist.sharding = #dist.sharding<[[], [tensor]]>}) -> (tensor<4x2x6xf32, #bsm>, tensor<4x2x6xf32, #bsm>) {
  // CHECK: nn.contract
  // CHECK-SAME: dist.out = [#dist.sharding<{{\[\[}}data], [], []], partial [tensor]>]
  %y = nn.contract %a, %down {dist.factors = {batch = ["data"], ffn = ["tensor"]}} : (tensor<4x2x8xf32, #bsf>, tensor<6x8xf32, #mf>) -> tensor<4x2x6xf32, #bsm>
  %z = nn.add %x, %y : (tensor<4x2x6xf32, #bsm>, tensor<4x2x6xf32, #bsm>) -> tensor<4x2x6xf32, #bsm>
  %t = nn.contract %a, %down {dist.factors = {batch = ["data"], ffn = ["tensor"]}} : (tensor<4x2x8xf32, #bsf>, tensor<6x8xf32, #mf>) -> tensor<4x2x6xf32, #bsm>
  return %y, %t : tensor<4x2x6xf32, #bsm>, tensor<4x2x6xf32, #bsm>
}
