// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["data", "tensor"] = [2, 3]

// CHECK: exec.program on @mesh {
exec.program on @mesh {
  // CHECK-NEXT: exec.segment "weights" 512
  exec.segment "weights" 512
  // CHECK-NEXT: exec.segment "two words" 4096
  exec.segment "two words" 4096
  // CHECK-NEXT: exec.group "tensor" ["tensor"]
  exec.group "tensor" ["tensor"]
  // CHECK-NEXT: exec.group "all" ["data", "tensor"]
  exec.group "all" ["data", "tensor"]
  // CHECK-NEXT: exec.exchange tokens <"two words" + 0, 32>
  exec.exchange tokens <"two words" + 0, 32>
  // CHECK-NEXT: exec.exchange targets <"two words" + 32, 32>
  exec.exchange targets <"two words" + 32, 32>
  // CHECK-NEXT: exec.exchange loss <"two words" + 64, 4>
  exec.exchange loss <"two words" + 64, 4>
  // CHECK-NEXT: exec.table "table 1" <"two words" + 128, 8> dense<[1.000000e+00, 5.000000e-01]> : tensor<2xf32>
  exec.table "table 1" <"two words" + 128, 8> dense<[1.0, 0.5]> : tensor<2xf32>
  // CHECK-NEXT: exec.rank_index <"two words" + 136, 4> along ["tensor"] times 3
  exec.rank_index <"two words" + 136, 4> along ["tensor"] times 3
  // A dimension of 7 over 3 ranks has blocks of 3.
  // CHECK-NEXT: exec.state "embed" shape [7, 2] file [14] sharding <{{\[}}[tensor], []]> decay mean 0.000000e+00 std 2.000000e-02 value <weights + 0, 24> aliases ["head"]
  exec.state "embed" shape [7, 2] file [14] sharding <[[tensor], []]> decay
    mean 0.0 std 0.02 value <weights + 0, 24> aliases ["head"]
  // CHECK-NEXT: exec.state "layers.{1..5}.up" layers [1, 3, 2] shape [4] file [4] sharding <{{\[}}[]]> mean 1.000000e+00 std 0.000000e+00 value <weights + 64, 16 step 64> gradient <weights + 320, 16 step -64> moment1 <weights + 80, 16 step 64> moment2 <weights + 96, 16 step 64>
  exec.state "layers.{1..5}.up" layers [1, 3, 2] shape [4] file [4] sharding <[[]]>
    mean 1.0 std 0.0 value <weights + 64, 16 step 64> gradient <weights + 320, 16 step -64>
    moment1 <weights + 80, 16 step 64> moment2 <weights + 96, 16 step 64>
  // Six ranks share what is kept for the update.
  // CHECK-NEXT: exec.state "out" shape [12] file [12] sharding <{{\[}}[tensor]]> mean 0.000000e+00 std 2.000000e-02 value <weights + 400, 16> gradient <weights + 416, 16> as <{{\[}}[tensor]]> moment1 <weights + 432, 8> moment2 <weights + 440, 8> moments_as <{{\[}}[tensor, data]]>
  exec.state "out" shape [12] file [12] sharding <[[tensor]]> mean 0.0 std 0.02
    value <weights + 400, 16> gradient <weights + 416, 16> as <[[tensor]]>
    moment1 <weights + 432, 8> moment2 <weights + 440, 8> moments_as <[[tensor, data]]>

  // CHECK-NEXT: exec.state "layers.{0..1}.experts.{}" layers [0, 2, 1] shape [3, 2] file [2] slices sharding <{{\[}}[tensor], []]> mean 0.000000e+00 std 2.000000e-02 value <weights + 448, 8 step 8>
  exec.state "layers.{0..1}.experts.{}" layers [0, 2, 1] shape [3, 2] file [2] slices
    sharding <[[tensor], []]> mean 0.0 std 0.02 value <weights + 448, 8 step 8>

  // CHECK-NEXT: exec.entry begin {
  // CHECK-NEXT: }
  exec.entry begin {
  }
  // CHECK-NEXT: exec.entry microbatch {
  exec.entry microbatch {
    // CHECK-NEXT: exec.picked_matmul "up" <weights + 0, 24> by <weights + 64, 64> [8, 1, 2] picked <weights + 128, 24> from <weights + 160, 4> to <"two words" + 256, 96> sizes [6, 4, 2, 2] share 2 bytes 5
    exec.picked_matmul "up" <weights + 0, 24> by <weights + 64, 64> [8, 1, 2]
      picked <weights + 128, 24> from <weights + 160, 4> to <"two words" + 256, 96>
      sizes [6, 4, 2, 2] share 2 bytes 5
    // CHECK-NEXT: exec.picked_outer "up" <"two words" + 256, 96> by <weights + 0, 24> picked <weights + 128, 24> add to <weights + 64, 64> sizes [6, 4, 2, 2] shares [1, 2]
    exec.picked_outer "up" <"two words" + 256, 96> by <weights + 0, 24>
      picked <weights + 128, 24> add to <weights + 64, 64> sizes [6, 4, 2, 2] shares [1, 2]
    // CHECK-NEXT: exec.picked_matmul "up" <weights + 0, 12> by <weights + 64, 32> [8, 1, 2] picked <weights + 128, 24> to <"two words" + 256, 96> sizes [6, 4, 2, 2] share 2 of bf16
    exec.picked_matmul "up" <weights + 0, 12> by <weights + 64, 32> [8, 1, 2]
      picked <weights + 128, 24> to <"two words" + 256, 96> sizes [6, 4, 2, 2] share 2 of bf16
    // CHECK-NEXT: exec.picked_outer "up" <"two words" + 256, 48> by <weights + 0, 12> picked <weights + 128, 24> to <weights + 64, 64> sizes [6, 4, 2, 2] shares [1, 2] of bf16
    exec.picked_outer "up" <"two words" + 256, 48> by <weights + 0, 12>
      picked <weights + 128, 24> to <weights + 64, 64> sizes [6, 4, 2, 2] shares [1, 2] of bf16
    // CHECK-NEXT: exec.zero "clear" <weights + 0, 512>
    exec.zero "clear" <weights + 0, 512>
    // CHECK-NEXT: exec.copy "" <weights + 0, 64> to <"two words" + 256, 64>
    exec.copy "" <weights + 0, 64> to <"two words" + 256, 64>
    // CHECK-NEXT: exec.all_reduce "norm" f32 <weights + 0, 64> to <weights + 0, 64> sum on "all" bytes 64
    exec.all_reduce "norm" f32 <weights + 0, 64> to <weights + 0, 64> sum on "all" bytes 64
    // CHECK-NEXT: exec.all_reduce "norm" i64 <weights + 0, 64> to <weights + 64, 64> max on "all" {note = 1 : i64}
    exec.all_reduce "norm" i64 <weights + 0, 64> to <weights + 64, 64> max on "all" {note = 1}
    // CHECK-NEXT: exec.repeat "layers" 3 layers [5, -2] {
    exec.repeat "layers" 3 layers [5, -2] {
      // CHECK-NEXT: exec.launch "layers.*/up" @up(<weights + 64, 16 step 64>, <"two words" + 320, 16 step -16>) extent 4 grain 2 bytes 32 flops 4
      exec.launch "layers.*/up" @up(<weights + 64, 16 step 64>, <"two words" + 320, 16 step -16>)
        extent 4 grain 2 bytes 32 flops 4
      // CHECK-NEXT: exec.launch "layers.*/scores" @attention() extent 1 grain 1
      exec.launch "layers.*/scores" @attention() extent 1 grain 1
      // CHECK-NEXT: exec.launch "layers.*/up" @up(<weights + 64, 16 step 64>, <"two words" + 320, 16 step -16>) extent 4 grain 2 writes [bf16]
      exec.launch "layers.*/up" @up(<weights + 64, 16 step 64>, <"two words" + 320, 16 step -16>)
        extent 4 grain 2 writes [bf16]
      // CHECK-NEXT: exec.matmul "layers.*/q" <weights + 0, 24> [3, 1] by <weights + 64, 24> [1, 3] to <"two words" + 512, 16 step 16> [2, 1] sizes [2, 2, 3] flops 24
      exec.matmul "layers.*/q" <weights + 0, 24> [3, 1] by <weights + 64, 24> [1, 3]
        to <"two words" + 512, 16 step 16> [2, 1] sizes [2, 2, 3] flops 24
      // CHECK-NEXT: exec.matmul "layers.*/k" <weights + 0, 64> [2, 1] by <weights + 64, 64> [2, 1] add to <"two words" + 512, 64> [2, 1] sizes [2, 2, 2] batch {{\[}}[2, 4, 0, 4], [2, 8, 8, 8]]
      exec.matmul "layers.*/k" <weights + 0, 64> [2, 1] by <weights + 64, 64> [2, 1]
        add to <"two words" + 512, 64> [2, 1] sizes [2, 2, 2] batch [[2, 4, 0, 4], [2, 8, 8, 8]]
      // CHECK-NEXT: exec.matmul "layers.*/v" <weights + 2, 12> [3, 1] by <weights + 64, 12> [1, 3] to <"two words" + 512, 8> [2, 1] sizes [2, 2, 3] of bf16 as bf16 bytes 32
      exec.matmul "layers.*/v" <weights + 2, 12> [3, 1] by <weights + 64, 12> [1, 3]
        to <"two words" + 512, 8> [2, 1] sizes [2, 2, 3] of bf16 as bf16 bytes 32
    }
    // CHECK: exec.all_gather "a" bf16 <weights + 0, 12> to <weights + 64, 28> cut [1, 7, 2] on "tensor"
    exec.all_gather "a" bf16 <weights + 0, 12> to <weights + 64, 28> cut [1, 7, 2] on "tensor"
    // CHECK-NEXT: exec.reduce_scatter "r" f32 <weights + 64, 56> to <weights + 0, 24> sum cut [1, 7, 2] on "tensor"
    exec.reduce_scatter "r" f32 <weights + 64, 56> to <weights + 0, 24> sum cut [1, 7, 2] on "tensor"
    // CHECK-NEXT: exec.slice "s" i32 <weights + 64, 56> to <weights + 0, 24> cut [1, 7, 2] on "tensor"
    exec.slice "s" i32 <weights + 64, 56> to <weights + 0, 24> cut [1, 7, 2] on "tensor"
    // From [7, 2 of 4] to [3 of 7, 4].
    // CHECK-NEXT: exec.all_to_all "t" f32 <weights + 0, 56> to <weights + 64, 48> cut [1, 7, 1, 4, 1] split_first on "tensor"
    exec.all_to_all "t" f32 <weights + 0, 56> to <weights + 64, 48> cut [1, 7, 1, 4, 1] split_first
      on "tensor"
    // CHECK-NEXT: exec.all_to_all "t" f32 <weights + 64, 48> to <weights + 0, 56> cut [1, 7, 1, 4, 1] on "tensor"
    exec.all_to_all "t" f32 <weights + 64, 48> to <weights + 0, 56> cut [1, 7, 1, 4, 1] on "tensor"
  }
}

func.func private @up(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
func.func private @attention(!llvm.ptr, i64, i64)
