// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate -cleave-sharding-insert-reshards | FileCheck %s
// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate -cleave-sharding-insert-reshards > %t.once
// RUN: cleave-opt %t.once -split-input-file -cleave-sharding-insert-reshards | diff %t.once -

#m = #nn.dims<model>

dist.mesh @mesh ["tensor"] = [2]

// Two users that need the same share one reshard; a third needs none.
// CHECK-LABEL: func.func @shared
// CHECK-SAME: %[[X:[^:]*]]: tensor<6xf32,
// CHECK: %[[WHOLE:.*]] = dist.reshard %[[X]] <{{\[\[}}tensor]]> to <{{\[\[}}]]>
// CHECK: nn.relu %[[WHOLE]]
// CHECK: nn.silu %[[WHOLE]]
// CHECK: nn.gelu %[[X]]
// CHECK: %[[BACK:.*]] = dist.reshard %{{.*}} <{{\[\[}}]]> to <{{\[\[}}tensor]]>
// CHECK: return {{.*}}, %[[BACK]] :
func.func @shared(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor]]>}) -> (tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]]>}, tensor<6xf32, #m>, tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor]]>}) {
  %a = nn.relu %x {dist.factors = {model = []}} : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  %b = nn.silu %x {dist.factors = {model = []}} : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  %c = nn.gelu %x : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %a, %c, %b : tensor<6xf32, #m>, tensor<6xf32, #m>, tensor<6xf32, #m>
}

// -----

#m = #nn.dims<model>

dist.mesh @mesh ["tensor"] = [2]

// Nothing moves where everything lies as it is needed.
// CHECK-LABEL: func.func @none
// CHECK-NOT: dist.reshard
func.func @none(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor]]>}) -> tensor<6xf32, #m> {
  %a = nn.relu %x : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %a : tensor<6xf32, #m>
}
