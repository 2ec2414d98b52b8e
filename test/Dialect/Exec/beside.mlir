// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// Weights that are gathered a turn ahead, to one of two places.

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // CHECK: exec.group "data beside" ["data"] beside
  exec.group "data beside" ["data"] beside
  exec.entry update {
    // CHECK: exec.repeat "layers" 8 layers [0, 1] {
    exec.repeat "layers" 8 layers [0, 1] {
      // CHECK-NEXT: exec.await "layers.*/weights" 3
      exec.await "layers.*/weights" 3
      // CHECK-NEXT: exec.beside "layers.*/weights" 3 ahead 1 {
      exec.beside "layers.*/weights" 3 ahead 1 {
        // CHECK-NEXT: exec.all_gather "up" f32 <memory + 64, 16 step 16> to <memory + 256, 32 step 64 period 2> cut [1, 8, 1] on "data beside" bytes 16
        exec.all_gather "up" f32 <memory + 64, 16 step 16> to <memory + 256, 32 step 64 period 2> cut [1, 8, 1] on "data beside" bytes 16
        // CHECK-NEXT: exec.all_gather "down" f32
        exec.all_gather "down" f32 <memory + 64, 16 step 16> to <memory + 384, 32 step 64 period 2> cut [1, 8, 1] on "data beside"
      }
      // CHECK: exec.copy "layers.*/late" <memory + 256, 32 step 64 period 2> to <memory + 512, 32> ahead -1
      exec.copy "layers.*/late" <memory + 256, 32 step 64 period 2> to <memory + 512, 32> ahead -1
    }
  }
}
