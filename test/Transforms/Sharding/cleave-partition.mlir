// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate -cleave-sharding-insert-reshards -cleave-partition | FileCheck %s

#bsm = #nn.dims<batch, sequence, model>
#bsf = #nn.dims<batch, sequence, ffn>
#fm = #nn.dims<ffn, model>
#mf = #nn.dims<model, ffn>

dist.mesh @mesh ["data", "tensor"] = [2, 2]

// Column split, then row split: one all_reduce. Notes of the steps before are gone.
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: %{{.*}}: tensor<2x4x6xf32, {{.*}}, %{{.*}}: tensor<4x6xf32, {{.*}}, %{{.*}}: tensor<6x4xf32,
// CHECK-NOT: dist.in
// CHECK: %[[H:.*]] = nn.contract {{.*}} -> tensor<2x4x4xf32,
// CHECK-NEXT: %[[A:.*]] = nn.relu %[[H]]
// CHECK-NEXT: %[[Y:.*]] = nn.contract %[[A]], {{.*}} -> tensor<2x4x6xf32,
// CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce %[[Y]] sum on @mesh ["tensor"]
// CHECK-NEXT: return %[[SUM]]
func.func @mlp(%x: tensor<4x4x6xf32, #bsm> {dist.sharding = #dist.sharding<[[data], [], []]>}, %up: tensor<8x6xf32, #fm> {dist.sharding = #dist.sharding<[[tensor], []]>}, %down: tensor<6x8xf32, #mf> {dist.sharding = #dist.sharding<[[], [tensor]]>}) -> (tensor<4x4x6xf32, #bsm> {dist.sharding = #dist.sharding<[[data], [], []]>}) {
  %h = nn.contract %x, %up {dist.factors = {batch = ["data"], ffn = ["tensor"]}} : (tensor<4x4x6xf32, #bsm>, tensor<8x6xf32, #fm>) -> tensor<4x4x8xf32, #bsf>
  %a = nn.relu %h : (tensor<4x4x8xf32, #bsf>) -> tensor<4x4x8xf32, #bsf>
  %y = nn.contract %a, %down {dist.factors = {batch = ["data"], ffn = ["tensor"]}} : (tensor<4x4x8xf32, #bsf>, tensor<6x8xf32, #mf>) -> tensor<4x4x6xf32, #bsm>
  return %y : tensor<4x4x6xf32, #bsm>
}

// The same between sequence shards: an all_gather before, a reduce_scatter after.
// CHECK-LABEL: func.func @mlp_between_shards
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x2x6xf32,
// CHECK: %[[ALL:.*]] = dist.all_gather %[[X]] dim 1 on @mesh ["tensor"] {{.*}}: (tensor<2x2x6xf32, {{.*}}) -> tensor<2x4x6xf32,
// CHECK-NEXT: nn.contract %[[ALL]],
// CHECK-NEXT: nn.relu
// CHECK-NEXT: %[[Y:.*]] = nn.contract
// CHECK-NEXT: %[[MINE:.*]] = dist.reduce_scatter %[[Y]] dim 1 on @mesh ["tensor"] {{.*}}: (tensor<2x4x6xf32, {{.*}}) -> tensor<2x2x6xf32,
// CHECK-NEXT: return %[[MINE]]
func.func @mlp_between_shards(%x: tensor<4x4x6xf32, #bsm> {dist.sharding = #dist.sharding<[[data], [tensor], []]>}, %up: tensor<8x6xf32, #fm> {dist.sharding = #dist.sharding<[[tensor], []]>}, %down: tensor<6x8xf32, #mf> {dist.sharding = #dist.sharding<[[], [tensor]]>}) -> (tensor<4x4x6xf32, #bsm> {dist.sharding = #dist.sharding<[[data], [tensor], []]>}) {
  %h = nn.contract %x, %up {dist.factors = {batch = ["data"], ffn = ["tensor"]}} : (tensor<4x4x6xf32, #bsm>, tensor<8x6xf32, #fm>) -> tensor<4x4x8xf32, #bsf>
  %a = nn.relu %h : (tensor<4x4x8xf32, #bsf>) -> tensor<4x4x8xf32, #bsf>
  %y = nn.contract %a, %down {dist.factors = {batch = ["data"], ffn = ["tensor"]}} : (tensor<4x4x8xf32, #bsf>, tensor<6x8xf32, #mf>) -> tensor<4x4x6xf32, #bsm>
  return %y : tensor<4x4x6xf32, #bsm>
}

// -----

#vm = #nn.dims<vocab, model>
#t = #nn.dims<token>
#tm = #nn.dims<token, model>
#tv = #nn.dims<token, vocab>

dist.mesh @mesh ["tensor"] = [2]

// Rows of the table are spread over the ranks: each looks up what it has, by the
// place where its rows begin (4 rows for a vocabulary of 7), and the sum is whole.
// CHECK-LABEL: func.func @embedding
// CHECK-SAME: %[[TABLE:[^:]*]]: tensor<4x6xf32,
// CHECK-DAG: %[[AT:.*]] = dist.offset block 4 on @mesh ["tensor"] : tensor<i32>
// CHECK: %[[MINE:.*]] = nn.embedding %{{.*}}, %{{.*}}, %[[AT]]
// CHECK-NEXT: dist.all_reduce %[[MINE]] sum on @mesh ["tensor"]
func.func @embedding(%table: tensor<7x6xf32, #vm> {dist.sharding = #dist.sharding<[[tensor], []]>}, %ids: tensor<5xi32, #t>) -> (tensor<5x6xf32, #tm> {dist.sharding = #dist.sharding<[[], []]>}) {
  %x = nn.embedding %table, %ids {dist.factors = {vocab = ["tensor"]}} : (tensor<7x6xf32, #vm>, tensor<5xi32, #t>) -> tensor<5x6xf32, #tm>
  return %x : tensor<5x6xf32, #tm>
}

// The loss of cut logits: the last rank's padding must not count, so it is set
// below all logits; maximum, sum and the target's logit are exchanged.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %[[LOGITS:[^:]*]]: tensor<5x4xf32,
// CHECK-DAG: %[[MASKED:.*]] = dist.mask %[[LOGITS]] dim 1 size 7 value {{-1.*|0xFFF0.*}} on @mesh ["tensor"]
// CHECK-DAG: %[[AT:.*]] = dist.offset block 4 on @mesh ["tensor"]
// CHECK: nn.cross_entropy_partial %[[MASKED]], %{{.*}}, %[[AT]]
// CHECK: dist.all_reduce %{{.*}} max on @mesh ["tensor"]
// CHECK: nn.rescale_sum
// CHECK: dist.all_reduce %{{.*}} sum on @mesh ["tensor"]
// CHECK: nn.cross_entropy_combine
func.func @loss(%logits: tensor<5x7xf32, #tv> {dist.sharding = #dist.sharding<[[], [tensor]]>}, %targets: tensor<5xi32, #t>) -> tensor<5xf32, #t> {
  %loss, %lse = nn.cross_entropy %logits, %targets : (tensor<5x7xf32, #tv>, tensor<5xi32, #t>) -> (tensor<5xf32, #t>, tensor<5xf32, #t>)
  return %loss : tensor<5xf32, #t>
}

// -----

#vm = #nn.dims<vocab, model>

dist.mesh @mesh ["tensor"] = [2]

nn.parameter @w : tensor<7x6xf32, #vm> {file_shape = array<i64: 7, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64, dist.value = #dist.sharding<[[tensor], []]>}

// What is kept has zeros in its padding.
// CHECK-LABEL: func.func @keep
// CHECK: %[[NEW:.*]] = nn.mul
// CHECK-NEXT: %[[CLEAN:.*]] = dist.mask %[[NEW]] dim 0 size 7 value 0.0{{.*}} on @mesh ["tensor"]
// CHECK-NEXT: nn.store %[[CLEAN]], @w value : tensor<4x6xf32,
func.func @keep(%s: tensor<f32>) {
  %w = nn.load @w value : tensor<7x6xf32, #vm>
  %new = nn.mul %w, %s : (tensor<7x6xf32, #vm>, tensor<f32>) -> tensor<7x6xf32, #vm>
  nn.store %new, @w value : tensor<7x6xf32, #vm>
  return
}
