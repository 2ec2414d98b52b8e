// Operators of a plugin go the whole way: differentiated, planned, sharded,
// partitioned and interpreted. Four ranks (data 2, tensor 2) give the loss and
// the gradients of one rank; the vocabulary of 7 is cut unevenly.

// RUN: cleave-opt %s --load-dialect-plugin=%plugins/SoftCap.so --cleave-autodiff-differentiate --cse --canonicalize -o %t.grad
// RUN: cleave-opt %t.grad --load-dialect-plugin=%plugins/SoftCap.so --cleave-plan="ranks=4 sequence=4 global-batch=4 pins=dp=2,tp=2" --cleave-plan-check=ranks=4 -o %t.plan
// RUN: FileCheck %s --input-file=%t.plan --check-prefix=PLAN
// RUN: cleave-opt %t.plan --load-dialect-plugin=%plugins/SoftCap.so --cleave-apply --cleave-sharding-propagate --cleave-sharding-insert-reshards --cleave-partition --cse --canonicalize -o %t.4
// RUN: FileCheck %s --input-file=%t.4
// RUN: cleave-opt %t.grad --load-dialect-plugin=%plugins/SoftCap.so --cleave-plan="ranks=1 sequence=4 global-batch=4" --cleave-apply --cleave-sharding-propagate --cleave-sharding-insert-reshards --cleave-partition -o %t.1

// RUN: python3 %S/Inputs/layouts.py deal %t.1 | cleave-opt --load-dialect-plugin=%plugins/SoftCap.so --cleave-interpret="function=microbatch ranks=1" -o %t.1.out
// RUN: python3 %S/Inputs/layouts.py deal %t.4 | cleave-opt --load-dialect-plugin=%plugins/SoftCap.so --cleave-interpret="function=microbatch ranks=4" -o %t.4.out
// RUN: python3 %S/Inputs/layouts.py compare %t.1.out %t.4.out | FileCheck %s --check-prefix=EQUAL

// A wrong program is noticed: without its sums the two do not agree.
// RUN: sed 's/dist.all_reduce \(%[^ ]*\) sum on @mesh .* : /dist.keep_first \1 on @mesh [] : /' %t.4 > %t.wrong
// RUN: python3 %S/Inputs/layouts.py deal %t.wrong | cleave-opt --load-dialect-plugin=%plugins/SoftCap.so --cleave-interpret="function=microbatch ranks=4" -o %t.wrong.out
// RUN: not python3 %S/Inputs/layouts.py compare %t.1.out %t.wrong.out

// PLAN: plan.assign "block" "mlp.cap" {batch = ["data"], ffn = ["tensor"]}
// PLAN: plan.assign "block" "mlp.gauge" {batch = ["data"], ffn = ["tensor"]}
// PLAN: plan.assign "head" "head.cap" {batch = ["data"], vocab = ["tensor"]}

// CHECK-LABEL: func.func private @block.forward
// CHECK: ext.softcap %{{.*}} : tensor<2x4x3xf32
// CHECK: ext.scale_sum %{{.*}} : (tensor<2x4x3xf32, #{{.*}}>) -> tensor<2x4xf32
// CHECK: dist.all_reduce %{{.*}} sum on @mesh ["tensor"]
// CHECK-NOT: dist.all_reduce
// CHECK-LABEL: func.func private @block.backward
// CHECK-LABEL: func.func private @head.forward
// CHECK: ext.softcap %{{.*}} : tensor<2x4x4xf32
// CHECK-LABEL: func.func @microbatch

// EQUAL: step.loss: 1 numbers agree
// EQUAL: embed.weight: 28 numbers agree
// EQUAL: up.weight: 24 numbers agree
// EQUAL: down.weight: 24 numbers agree
// EQUAL: head.weight: 28 numbers agree

#bs = #nn.dims<batch, sequence>
#bsm = #nn.dims<batch, sequence, model>
#bsf = #nn.dims<batch, sequence, ffn>
#bsv = #nn.dims<batch, sequence, vocab>
#vm = #nn.dims<vocab, model>
#fm = #nn.dims<ffn, model>
#mf = #nn.dims<model, ffn>

nn.parameter @embed.weight : tensor<7x4xf32, #vm> {file_shape = array<i64: 7, 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @up.weight : tensor<6x4xf32, #fm> {file_shape = array<i64: 6, 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @down.weight : tensor<4x6xf32, #mf> {file_shape = array<i64: 4, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
nn.parameter @head.weight : tensor<7x4xf32, #vm> {file_shape = array<i64: 7, 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

func.func private @embed(%tokens: tensor<?x?xi32, #bs> {nn.name = "tokens"}, %table: tensor<7x4xf32, #vm> {nn.parameter = "embed.weight"}) -> tensor<?x?x4xf32, #bsm> attributes {nn.kind = "embed"} {
  %x = nn.embedding %table, %tokens {nn.path = "embed"} : (tensor<7x4xf32, #vm>, tensor<?x?xi32, #bs>) -> tensor<?x?x4xf32, #bsm>
  return %x : tensor<?x?x4xf32, #bsm>
}

func.func private @block(%x: tensor<?x?x4xf32, #bsm> {nn.name = "x"}, %up: tensor<6x4xf32, #fm> {nn.parameter = "up.weight"}, %down: tensor<4x6xf32, #mf> {nn.parameter = "down.weight"}) -> tensor<?x?x4xf32, #bsm> attributes {nn.kind = "block"} {
  %h = nn.contract %x, %up {nn.path = "mlp.up"} : (tensor<?x?x4xf32, #bsm>, tensor<6x4xf32, #fm>) -> tensor<?x?x6xf32, #bsf>
  %c = ext.softcap %h {cap = 0.5, nn.path = "mlp.cap"} : tensor<?x?x6xf32, #bsf>
  %d = nn.contract %c, %down {nn.path = "mlp.down"} : (tensor<?x?x6xf32, #bsf>, tensor<4x6xf32, #mf>) -> tensor<?x?x4xf32, #bsm>
  %g = ext.scale_sum %c {scale = 0.25, nn.path = "mlp.gauge"} : (tensor<?x?x6xf32, #bsf>) -> tensor<?x?xf32, #bs>
  %both = nn.add %d, %g {nn.path = "mlp.join"} : (tensor<?x?x4xf32, #bsm>, tensor<?x?xf32, #bs>) -> tensor<?x?x4xf32, #bsm>
  %y = nn.add %x, %both {nn.path = "residual"} : (tensor<?x?x4xf32, #bsm>, tensor<?x?x4xf32, #bsm>) -> tensor<?x?x4xf32, #bsm>
  return %y : tensor<?x?x4xf32, #bsm>
}

func.func private @head(%x: tensor<?x?x4xf32, #bsm> {nn.name = "x"}, %w: tensor<7x4xf32, #vm> {nn.parameter = "head.weight"}, %targets: tensor<?x?xi32, #bs> {nn.name = "targets"}, %scale: tensor<f32> {nn.name = "scale"}) -> tensor<f32> attributes {nn.kind = "head"} {
  %h = nn.contract %x, %w {nn.path = "head.logits"} : (tensor<?x?x4xf32, #bsm>, tensor<7x4xf32, #vm>) -> tensor<?x?x7xf32, #bsv>
  %c = ext.softcap %h {cap = 2.0, nn.path = "head.cap"} : tensor<?x?x7xf32, #bsv>
  %each, %lse = nn.cross_entropy %c, %targets {nn.path = "head.loss"} : (tensor<?x?x7xf32, #bsv>, tensor<?x?xi32, #bs>) -> (tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>)
  %sum = nn.sum %each {nn.path = "head.loss"} : (tensor<?x?xf32, #bs>) -> tensor<f32>
  %loss = nn.mul %sum, %scale {nn.path = "head.loss"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

func.func @forward(%tokens: tensor<?x?xi32, #bs>, %targets: tensor<?x?xi32, #bs>, %positions: tensor<?x?xi32, #bs>, %scale: tensor<f32>) -> tensor<f32> attributes {nn.entry = "forward"} {
  %table = nn.load @embed.weight value : tensor<7x4xf32, #vm>
  %up = nn.load @up.weight value : tensor<6x4xf32, #fm>
  %down = nn.load @down.weight value : tensor<4x6xf32, #mf>
  %w = nn.load @head.weight value : tensor<7x4xf32, #vm>
  %x = call @embed(%tokens, %table) : (tensor<?x?xi32, #bs>, tensor<7x4xf32, #vm>) -> tensor<?x?x4xf32, #bsm>
  %y = call @block(%x, %up, %down) : (tensor<?x?x4xf32, #bsm>, tensor<6x4xf32, #fm>, tensor<4x6xf32, #mf>) -> tensor<?x?x4xf32, #bsm>
  %loss = call @head(%y, %w, %targets, %scale) : (tensor<?x?x4xf32, #bsm>, tensor<7x4xf32, #vm>, tensor<?x?xi32, #bs>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
