// RUN: cleave-opt %s -cleave-sharding-propagate -cleave-sharding-insert-reshards -cleave-partition | FileCheck %s
// RUN: cleave-opt %s -cleave-sharding-propagate -cleave-sharding-insert-reshards -cleave-partition -cleave-interpret="function=numbers ranks=4" | FileCheck %s --check-prefix=VALUE

// Which collectives a change of placement becomes. Here each function returns
// its argument under another sharding.

#ab = #nn.dims<a, b>

dist.mesh @mesh ["x", "y"] = [2, 2]

// CHECK-LABEL: func.func @complete
// CHECK: dist.all_reduce %{{.*}} sum on @mesh ["x"]
// CHECK-NEXT: return
func.func @complete(%v: tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[], []], partial [x]>}) -> (tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[], []]>}) {
  return %v : tensor<4x8xf32, #ab>
}

// CHECK-LABEL: func.func @partial_to_cut
// CHECK-NEXT: dist.reduce_scatter %{{.*}} dim 1 on @mesh ["x"] {{.*}}: (tensor<4x8xf32, {{.*}}) -> tensor<4x4xf32,
// CHECK-NEXT: return
func.func @partial_to_cut(%v: tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[], []], partial [x]>}) -> (tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[], [x]]>}) {
  return %v : tensor<4x8xf32, #ab>
}

// CHECK-LABEL: func.func @other_dimension
// CHECK-NEXT: dist.all_to_all %{{.*}} split 1 gather 0 on @mesh ["x"] {{.*}}: (tensor<2x8xf32, {{.*}}) -> tensor<4x4xf32,
// CHECK-NEXT: return
func.func @other_dimension(%v: tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[x], []]>}) -> (tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[], [x]]>}) {
  return %v : tensor<4x8xf32, #ab>
}

// The inner part of a cut moves, the outer stays.
// CHECK-LABEL: func.func @inner_axis
// CHECK-NEXT: dist.all_to_all %{{.*}} split 1 gather 0 on @mesh ["y"] {{.*}}: (tensor<1x8xf32, {{.*}}) -> tensor<2x4xf32,
// CHECK-NEXT: return
func.func @inner_axis(%v: tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[x, y], []]>}) -> (tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[x], [y]]>}) {
  return %v : tensor<4x8xf32, #ab>
}

// CHECK-LABEL: func.func @cut_more
// CHECK-NEXT: dist.slice %{{.*}} dim 0 on @mesh ["y"] : (tensor<2x8xf32, {{.*}}) -> tensor<1x8xf32,
// CHECK-NEXT: return
func.func @cut_more(%v: tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[x], []]>}) -> (tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[x, y], []]>}) {
  return %v : tensor<4x8xf32, #ab>
}

// Blocks of 3 of 5 rows do not contain blocks of 2: the rows are gathered first.
// CHECK-LABEL: func.func @uneven
// CHECK-NEXT: dist.all_gather %{{.*}} dim 0 on @mesh ["x"] {{.*}}: (tensor<3x8xf32, {{.*}}) -> tensor<5x8xf32,
// CHECK-NEXT: dist.slice %{{.*}} dim 0 on @mesh ["x", "y"] : (tensor<5x8xf32, {{.*}}) -> tensor<2x8xf32,
// CHECK-NEXT: return
func.func @uneven(%v: tensor<5x8xf32, #ab> {dist.sharding = #dist.sharding<[[x], []]>}) -> (tensor<5x8xf32, #ab> {dist.sharding = #dist.sharding<[[x, y], []]>}) {
  return %v : tensor<5x8xf32, #ab>
}

// CHECK-LABEL: func.func @become_partial
// CHECK-NEXT: dist.keep_first %{{.*}} on @mesh ["x"]
// CHECK-NEXT: return
func.func @become_partial(%v: tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[], []]>}) -> (tensor<4x8xf32, #ab> {dist.sharding = #dist.sharding<[[], []], partial [x]>}) {
  return %v : tensor<4x8xf32, #ab>
}

// Rows over x with terms over y become columns over y: a reduce_scatter, then a
// gather of rows, and each says where the value lies before and after it. Three rows of two columns, uneven; each rank's block is checked.
// CHECK-LABEL: func.func @numbers
// CHECK-NEXT: dist.reduce_scatter %{{.*}} dim 1 on @mesh ["y"] {dist.from = #dist.sharding<{{\[\[}}x], []], partial [y]>, dist.to = #dist.sharding<{{\[\[}}x], [y]]>} : (tensor<2x2xf32, {{.*}}) -> tensor<2x1xf32,
// CHECK-NEXT: dist.all_gather %{{.*}} dim 0 on @mesh ["x"] {dist.from = #dist.sharding<{{\[\[}}x], [y]]>, dist.to = #dist.sharding<{{\[\[}}], [y]]>} : (tensor<2x1xf32, {{.*}}) -> tensor<3x1xf32,
// VALUE: @numbers
// VALUE-SAME: -> (tensor<3x1xf32, #{{.*}}> {cleave.value = [
// VALUE-SAME: dense<{{\[\[}}1.100000e+01], [1.300000e+01], [1.500000e+01]]> : tensor<3x1xf64>,
// VALUE-SAME: dense<{{\[\[}}2.200000e+01], [2.400000e+01], [2.600000e+01]]> : tensor<3x1xf64>,
// VALUE-SAME: dense<{{\[\[}}1.100000e+01], [1.300000e+01], [1.500000e+01]]> : tensor<3x1xf64>,
// VALUE-SAME: dense<{{\[\[}}2.200000e+01], [2.400000e+01], [2.600000e+01]]> : tensor<3x1xf64>]
func.func @numbers(%v: tensor<3x2xf32, #ab> {dist.sharding = #dist.sharding<[[x], []], partial [y]>, cleave.value = [
    dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>, dense<[[10.0, 20.0], [10.0, 20.0]]> : tensor<2x2xf32>,
    dense<[[5.0, 6.0], [-9.0, -9.0]]> : tensor<2x2xf32>, dense<[[10.0, 20.0], [-9.0, -9.0]]> : tensor<2x2xf32>]}) -> (tensor<3x2xf32, #ab> {dist.sharding = #dist.sharding<[[], [y]]>}) {
  return %v : tensor<3x2xf32, #ab>
}
