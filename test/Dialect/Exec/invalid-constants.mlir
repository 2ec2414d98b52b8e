// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{takes 16 bytes, not 12}}
  exec.table "t" <memory + 0, 12> dense<1.0> : tensor<4xf32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{needs dense elements of f32 or i32}}
  exec.table "t" <memory + 0, 32> dense<1.0> : tensor<4xf64>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{moves by 4 bytes}}
  exec.table "t" <memory + 0, 16 step 4> dense<1.0> : tensor<4xf32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{takes 16 bytes at 1020 of the segment "memory", which has 1024}}
  exec.table "t" <memory + 1020, 16> dense<1.0> : tensor<4xf32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{takes 4 bytes, not 8}}
  exec.rank_index <memory + 0, 8> along ["tensor"] times 1
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{names no axis of @mesh: "expert"}}
  exec.rank_index <memory + 0, 4> along ["expert"] times 1
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{goes beyond an i32 on the last of 3 ranks}}
  exec.rank_index <memory + 0, 4> along ["tensor"] times 1500000000
}
