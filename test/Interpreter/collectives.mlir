// RUN: cleave-opt %s --cleave-interpret="ranks=4 function=reduce" | FileCheck %s --check-prefix=REDUCE
// RUN: cleave-opt %s --cleave-interpret="ranks=4 function=gather" | FileCheck %s --check-prefix=GATHER
// RUN: cleave-opt %s --cleave-interpret="ranks=4 function=scatter" | FileCheck %s --check-prefix=SCATTER
// RUN: cleave-opt %s --cleave-interpret="ranks=4 function=transpose" | FileCheck %s --check-prefix=TRANSPOSE
// RUN: cleave-opt %s --cleave-interpret="ranks=4 function=place" | FileCheck %s --check-prefix=PLACE
// RUN: not cleave-opt %s --cleave-interpret="ranks=2 function=scatter" 2>&1 | FileCheck %s --check-prefix=RANKS

// RANKS: has a 'cleave.value' for 4 ranks, not for 2

// Ranks 0 to 3 stand at (data, tensor) = (0,0), (0,1), (1,0), (1,1).
dist.mesh @mesh ["data", "tensor"] = [2, 2]

// REDUCE-LABEL: @reduce
// REDUCE: cleave.value = [dense<3.000000e+00> : tensor<1xf64>, dense<3.000000e+00> : tensor<1xf64>, dense<1.200000e+01> : tensor<1xf64>, dense<1.200000e+01> : tensor<1xf64>]
// REDUCE: cleave.value = [dense<4.000000e+00> : tensor<1xf64>, dense<8.000000e+00> : tensor<1xf64>, dense<4.000000e+00> : tensor<1xf64>, dense<8.000000e+00> : tensor<1xf64>]
// REDUCE: cleave.value = [dense<1.500000e+01> : tensor<1xf64>, dense<1.500000e+01> : tensor<1xf64>, dense<1.500000e+01> : tensor<1xf64>, dense<1.500000e+01> : tensor<1xf64>]
func.func @reduce(%x: tensor<1xf32> {cleave.value = [dense<1.0> : tensor<1xf32>, dense<2.0> : tensor<1xf32>, dense<4.0> : tensor<1xf32>, dense<8.0> : tensor<1xf32>]})
    -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) {
  %0 = dist.all_reduce %x sum on @mesh ["tensor"] : tensor<1xf32>
  %1 = dist.all_reduce %x max on @mesh ["data"] : tensor<1xf32>
  %2 = dist.all_reduce %x sum on @mesh ["data", "tensor"] : tensor<1xf32>
  return %0, %1, %2 : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
}

// Three elements in blocks of two: what is past the end is cut off. Joining by
// (tensor, data) puts the blocks of rank 2 before those of rank 1.
// GATHER-LABEL: @gather
// GATHER: cleave.value = [dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf64>, dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf64>, dense<[5.000000e+00, 6.000000e+00, 7.000000e+00]> : tensor<3xf64>, dense<[5.000000e+00, 6.000000e+00, 7.000000e+00]> : tensor<3xf64>]
// GATHER: cleave.value = [dense<[1.000000e+00, 2.000000e+00, 5.000000e+00, 6.000000e+00, 3.000000e+00, 4.000000e+00, 7.000000e+00, 8.000000e+00]> : tensor<8xf64>
func.func @gather(%x: tensor<2xf32> {cleave.value = [dense<[1.0, 2.0]> : tensor<2xf32>, dense<[3.0, 4.0]> : tensor<2xf32>, dense<[5.0, 6.0]> : tensor<2xf32>, dense<[7.0, 8.0]> : tensor<2xf32>]})
    -> (tensor<3xf32>, tensor<8xf32>) {
  %0 = dist.all_gather %x dim 0 on @mesh ["tensor"] : (tensor<2xf32>) -> tensor<3xf32>
  %1 = dist.all_gather %x dim 0 on @mesh ["tensor", "data"] : (tensor<2xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<3xf32>, tensor<8xf32>
}

// SCATTER-LABEL: @scatter
// SCATTER: cleave.value = [dense<[1.100000e+01, 2.200000e+01]> : tensor<2xf64>, dense<[3.300000e+01, 0.000000e+00]> : tensor<2xf64>, dense<3.000000e+02> : tensor<2xf64>, dense<[3.000000e+02, 0.000000e+00]> : tensor<2xf64>]
func.func @scatter(%x: tensor<3xf32> {cleave.value = [dense<[1.0, 2.0, 3.0]> : tensor<3xf32>, dense<[10.0, 20.0, 30.0]> : tensor<3xf32>, dense<100.0> : tensor<3xf32>, dense<200.0> : tensor<3xf32>]})
    -> tensor<2xf32> {
  %0 = dist.reduce_scatter %x dim 0 on @mesh ["tensor"] : (tensor<3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// Rank 0 holds row 0, rank 1 row 1 of a 2×3 matrix; after it, columns 0–1 and 2.
// TRANSPOSE-LABEL: @transpose
// TRANSPOSE: cleave.value = [dense<{{\[}}[1.000000e+00, 2.000000e+00], [4.000000e+00, 5.000000e+00]]> : tensor<2x2xf64>, dense<{{\[}}[3.000000e+00, 0.000000e+00], [6.000000e+00, 0.000000e+00]]> : tensor<2x2xf64>
func.func @transpose(%x: tensor<1x3xf32> {cleave.value = [dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>, dense<[[4.0, 5.0, 6.0]]> : tensor<1x3xf32>, dense<0.0> : tensor<1x3xf32>, dense<0.0> : tensor<1x3xf32>]})
    -> tensor<2x2xf32> {
  %0 = dist.all_to_all %x split 1 gather 0 on @mesh ["tensor"] : (tensor<1x3xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// PLACE-LABEL: @place
// PLACE: cleave.value = [dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf64>, dense<[3.000000e+00, 0.000000e+00]> : tensor<2xf64>
// PLACE: cleave.value = [dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf64>, dense<[3.000000e+00, -9.000000e+00]> : tensor<2xf64>
// PLACE: cleave.value = [dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf64>, dense<[3.000000e+00, 0.000000e+00]> : tensor<2xf64>, dense<0.000000e+00> : tensor<2xf64>, dense<0.000000e+00> : tensor<2xf64>]
// PLACE: cleave.value = [dense<0.000000e+00> : tensor<f64>, dense<2.000000e+00> : tensor<f64>, dense<0.000000e+00> : tensor<f64>, dense<2.000000e+00> : tensor<f64>]
func.func @place(%x: tensor<3xf32> {cleave.value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>})
    -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<i32>) {
  %0 = dist.slice %x dim 0 on @mesh ["tensor"] : (tensor<3xf32>) -> tensor<2xf32>
  %1 = dist.mask %0 dim 0 size 3 value -9.0 on @mesh ["tensor"] : tensor<2xf32>
  %2 = dist.keep_first %0 on @mesh ["data"] : tensor<2xf32>
  %3 = dist.offset block 2 on @mesh ["tensor"] : tensor<i32>
  return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<i32>
}
