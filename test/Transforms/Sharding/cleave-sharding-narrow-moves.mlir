// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate -cleave-sharding-insert-reshards -cleave-sharding-narrow-moves | FileCheck %s
// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate -cleave-sharding-insert-reshards -cleave-sharding-narrow-moves -cleave-partition | FileCheck %s --check-prefix=LOCAL

#fm = #nn.dims<ffn, model>
#sm = #nn.dims<sequence, model>
#sf = #nn.dims<sequence, ffn>

dist.mesh @mesh ["data"] = [2]

// The weight is only read rounded: callers round their blocks and gather those. The scale
// is read as it is, too.
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: tensor<4x6xf32, #{{[a-z_]*}}> {{{[^}]*}}}, %[[W:[^:]*]]: tensor<8x6xbf16,
// CHECK-SAME: %[[S:[^:]*]]: tensor<4x6xf32,
// CHECK: nn.cast %[[S]]
// CHECK: nn.contract %{{.*}}, %[[W]]
func.func private @layer(%x: tensor<4x6xf32, #sm> {dist.sharding = #dist.sharding<[[data], []]>}, %w: tensor<8x6xf32, #fm> {dist.sharding = #dist.sharding<[[], []]>}, %s: tensor<4x6xf32, #sm> {dist.sharding = #dist.sharding<[[], []]>}) -> (tensor<4x8xf32, #sf>, tensor<4x6xf32, #sm>) {
  %x16 = nn.cast %x : (tensor<4x6xf32, #sm>) -> tensor<4x6xbf16, #sm>
  %w16 = nn.cast %w : (tensor<8x6xf32, #fm>) -> tensor<8x6xbf16, #fm>
  %s16 = nn.cast %s : (tensor<4x6xf32, #sm>) -> tensor<4x6xbf16, #sm>
  %s32 = nn.cast %s16 : (tensor<4x6xbf16, #sm>) -> tensor<4x6xf32, #sm>
  %t = nn.mul %s32, %s : (tensor<4x6xf32, #sm>, tensor<4x6xf32, #sm>) -> tensor<4x6xf32, #sm>
  %y = nn.contract %x16, %w16 : (tensor<4x6xbf16, #sm>, tensor<8x6xbf16, #fm>) -> tensor<4x8xf32, #sf>
  return %y, %t : tensor<4x8xf32, #sf>, tensor<4x6xf32, #sm>
}

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x6xf32, {{.*}}, %[[W:[^:]*]]: tensor<8x6xf32,
// CHECK: %[[OWN:.*]] = nn.cast %[[W]] {dist.in = [#dist.sharding<{{\[\[}}data], []]>], dist.out = [#dist.sharding<{{\[\[}}data], []]>]}
// CHECK-NEXT: %[[ALL:.*]] = dist.reshard %[[OWN]] {{.*}} : tensor<8x6xbf16,
// CHECK: call @layer(%[[X]], %[[ALL]],
// One reshard for both calls.
// CHECK-NOT: dist.reshard {{.*}}bf16
// CHECK: call @layer(%[[X]], %[[ALL]],
// LOCAL-LABEL: func.func @step
// LOCAL: dist.all_gather %{{.*}} dim 0 on @mesh ["data"] {{.*}} (tensor<4x6xbf16, {{.*}}) -> tensor<8x6xbf16,
// LOCAL: dist.all_gather %{{.*}} dim 0 on @mesh ["data"] {{.*}} (tensor<2x6xf32,
func.func @step(%x: tensor<4x6xf32, #sm> {dist.sharding = #dist.sharding<[[data], []]>}, %w: tensor<8x6xf32, #fm> {dist.sharding = #dist.sharding<[[data], []]>}) -> (tensor<4x8xf32, #sf>, tensor<4x8xf32, #sf>) {
  %y, %s = call @layer(%x, %w, %x) : (tensor<4x6xf32, #sm>, tensor<8x6xf32, #fm>, tensor<4x6xf32, #sm>) -> (tensor<4x8xf32, #sf>, tensor<4x6xf32, #sm>)
  %z, %u = call @layer(%x, %w, %s) : (tensor<4x6xf32, #sm>, tensor<8x6xf32, #fm>, tensor<4x6xf32, #sm>) -> (tensor<4x8xf32, #sf>, tensor<4x6xf32, #sm>)
  return %y, %z : tensor<4x8xf32, #sf>, tensor<4x8xf32, #sf>
}

// -----

#m = #nn.dims<model>

dist.mesh @mesh ["data"] = [2]

// What was widened moves as it was before; a sum is completed in f32.
// CHECK-LABEL: func.func @widened
// CHECK-SAME: %[[X:[^:]*]]: tensor<6xbf16,
// CHECK: %[[ALL:.*]] = dist.reshard %[[X]] {{.*}} : tensor<6xbf16,
// CHECK-NEXT: %[[WIDE:.*]] = nn.cast %[[ALL]]
// CHECK: nn.relu %[[WIDE]]
// CHECK: %[[SUM:.*]] = dist.reshard %{{.*}} : tensor<6xf32,
// CHECK-NEXT: nn.cast %[[SUM]]
func.func @widened(%x: tensor<6xbf16, #m> {dist.sharding = #dist.sharding<[[data]]>}, %p: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]], partial [data]>}) -> (tensor<6xf32, #m>, tensor<6xbf16, #m>) {
  %wide = nn.cast %x : (tensor<6xbf16, #m>) -> tensor<6xf32, #m>
  %y = nn.relu %wide {dist.factors = {model = []}} : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  %n = nn.cast %p : (tensor<6xf32, #m>) -> tensor<6xbf16, #m>
  return %y, %n : tensor<6xf32, #m>, tensor<6xbf16, #m>
}

// -----

#m = #nn.dims<model>

dist.mesh @mesh ["data"] = [2]

// Who takes a block of what it has sends nothing, and rounds no more than that.
// CHECK-LABEL: func.func private @rounds
// CHECK-SAME: tensor<6xf32,
func.func private @rounds(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[data]]>}) -> tensor<6xbf16, #m> {
  %n = nn.cast %x : (tensor<6xf32, #m>) -> tensor<6xbf16, #m>
  return %n : tensor<6xbf16, #m>
}

func.func @slice(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]]>}) -> tensor<6xbf16, #m> {
  %y = call @rounds(%x) : (tensor<6xf32, #m>) -> tensor<6xbf16, #m>
  return %y : tensor<6xbf16, #m>
}
