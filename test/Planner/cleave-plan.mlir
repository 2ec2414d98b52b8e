// RUN: cleave-opt %s -cleave-plan="ranks=4 sequence=8 global-batch=8 pins=dp=2,tp=2,sp=1 cluster=local:4" | FileCheck %s --check-prefix=BOTH
// RUN: cleave-opt %s -cleave-plan="ranks=4 sequence=8 global-batch=8 pins=tp=4,micro_batch=2" | FileCheck %s --check-prefix=PARTS
// RUN: cleave-opt %s -cleave-plan="ranks=2 sequence=8 global-batch=8" | FileCheck %s --check-prefix=DATA
// RUN: cleave-opt %s -cleave-plan="ranks=12 sequence=7 global-batch=8 pins=cp=3,tp=2,sp=1,zero=1" | FileCheck %s --check-prefix=CONTEXT
// A plan that is there gives way; the same request gives the same plan.
// RUN: cleave-opt %s -cleave-plan="ranks=4 sequence=8 global-batch=8 pins=tp=4,micro_batch=2" > %t.once
// RUN: cleave-opt %s -cleave-plan="ranks=2 sequence=8 global-batch=8" -cleave-plan="ranks=4 sequence=8 global-batch=8 pins=tp=4,micro_batch=2" | diff %t.once -
// What is written passes the check.
// RUN: cleave-opt %t.once -cleave-plan-check=ranks=4 | diff %t.once -

// RUN: not cleave-opt %s -cleave-plan="ranks=4 pins=tpp=2" 2>&1 | FileCheck %s --check-prefix=PIN
// RUN: not cleave-opt %s -cleave-plan="ranks=4 global-batch=8 pins=dp=3" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not cleave-opt %s -cleave-plan="ranks=4 global-batch=8 pins=cp=3" 2>&1 | FileCheck %s --check-prefix=SHARE
// RUN: not cleave-opt %s -cleave-plan="ranks=4 global-batch=8 pins=cp=2,dp=4" 2>&1 | FileCheck %s --check-prefix=BOTHLEFT
// RUN: not cleave-opt %s -cleave-plan="ranks=16 global-batch=8 pins=tp=16" 2>&1 | FileCheck %s --check-prefix=HEADS
// RUN: not cleave-opt %s -cleave-plan="ranks=2 global-batch=7" 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not cleave-opt %s -cleave-plan="ranks=2 global-batch=0" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not cleave-opt %s -cleave-plan="ranks=0" 2>&1 | FileCheck %s --check-prefix=NORANK
// RUN: echo 'module {}' | not cleave-opt -cleave-plan 2>&1 | FileCheck %s --check-prefix=NOKIND

// PIN: error: plan.unknown_pin: --pin has no key 'tpp'
// PIN: note: try: tp
// RANKS: error: plan.ranks_mismatch: dp × tp is not the number of ranks
// RANKS: note: given: dp=3, ranks=4
// SHARE: error: plan.ranks_mismatch: cp does not divide the number of ranks
// SHARE: note: given: cp=3, ranks=4
// SHARE: note: rule: dp × cp × tp = ranks
// SHARE: note: try: cp one of 1, 2, 4
// BOTHLEFT: error: plan.ranks_mismatch: dp × cp × tp is not the number of ranks
// BOTHLEFT: note: given: dp=4, cp=2, ranks=4
// HEADS: error: plan.heads_indivisible: the attention heads cannot be split 16 ways
// BATCH: error: plan.batch_indivisible: the global batch cannot be dealt out evenly
// SIZE: error: plan.batch_indivisible: sizes must be at least 1
// NORANK: error: plan.ranks_mismatch: a plan needs at least one rank
// NOKIND: error: has no kind of layer to plan: no function with 'nn.kind'

// BOTH: plan.solution version 1 cluster "local:4" {
// BOTH-NEXT: plan.batch global 8 micro 4 sequence 8
// BOTH-NEXT: plan.axis "data" [2]
// BOTH-NEXT: plan.axis "tensor" [2]
// BOTH-NEXT: plan.layout {batch = ["data"], sequence = ["tensor"]}
// BOTH-NEXT: plan.parameter "q.weight" {kv_head = ["tensor"]}
// BOTH-NEXT: plan.parameter "up.weight" {ffn = ["tensor"]}
// BOTH-NEXT: plan.assign "block" "norm" {batch = ["data"], sequence = ["tensor"]}
// BOTH-NEXT: plan.assign "block" "q" {batch = ["data"], kv_head = ["tensor"]}
// BOTH-NEXT: plan.assign "block" "up" {batch = ["data"], ffn = ["tensor"]}
// BOTH-NEXT: }

// Two key heads on four ranks: the axis has parts, for key heads and for queries.
// PARTS: plan.batch global 8 micro 2 sequence 8
// PARTS: plan.axis "data" [1]
// PARTS: plan.axis "tensor" [2, 2]
// PARTS: plan.layout {}
// PARTS: plan.parameter "q.weight" {group = ["tensor.1"], kv_head = ["tensor.0"]}
// PARTS: plan.parameter "up.weight" {ffn = ["tensor"]}
// PARTS: plan.assign "block" "norm" {}
// PARTS: plan.assign "block" "q" {group = ["tensor.1"], kv_head = ["tensor.0"]}

// Each sequence over three ranks, in zig-zag; ZeRO over all ranks that share tokens.
// CONTEXT: plan.batch global 8 micro 4 sequence 7 zigzag ["context"]
// CONTEXT-NEXT: plan.axis "data" [2]
// CONTEXT-NEXT: plan.axis "context" [3]
// CONTEXT-NEXT: plan.axis "tensor" [2]
// CONTEXT-NEXT: plan.layout {batch = ["data"], sequence = ["context", "tensor"]}
// CONTEXT-NEXT: plan.parameter "norm.weight" {} optimizer {model = ["data", "context"]}
// CONTEXT: plan.assign "block" "norm" {batch = ["data"], sequence = ["context", "tensor"]}
// CONTEXT: plan.assign "block" "q" {batch = ["data"], kv_head = ["tensor"], sequence = ["context"]}

// DATA: plan.axis "data" [2]
// DATA: plan.axis "tensor" [1]
// DATA-NOT: plan.parameter
// DATA: plan.assign "block" "q" {batch = ["data"]}

#bsm = #nn.dims<batch, sequence, model>
#bs = #nn.dims<batch, sequence>
#m = #nn.dims<model>
#q = #nn.dims<kv_head, group, model>
#bsq = #nn.dims<batch, sequence, kv_head, group>
#fm = #nn.dims<ffn, model>
#bsf = #nn.dims<batch, sequence, ffn>

nn.parameter @q.weight : tensor<2x4x6xf32, #q> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

func.func private @block(%x: tensor<?x?x6xf32, #bsm>, %n: tensor<6xf32, #m> {nn.parameter = "norm.weight"}, %q: tensor<2x4x6xf32, #q> {nn.parameter = "q.weight"}, %up: tensor<8x6xf32, #fm> {nn.parameter = "up.weight"}) attributes {nn.kind = "block"} {
  %h, %r = nn.rms_norm %x, %n {eps = 1.0e-5 : f64, nn.path = "norm"} : (tensor<?x?x6xf32, #bsm>, tensor<6xf32, #m>) -> (tensor<?x?x6xf32, #bsm>, tensor<?x?xf32, #bs>)
  %a = nn.contract %h, %q {nn.path = "q"} : (tensor<?x?x6xf32, #bsm>, tensor<2x4x6xf32, #q>) -> tensor<?x?x2x4xf32, #bsq>
  %b = nn.contract %h, %up {nn.path = "up"} : (tensor<?x?x6xf32, #bsm>, tensor<8x6xf32, #fm>) -> tensor<?x?x8xf32, #bsf>
  return
}
