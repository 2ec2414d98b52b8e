// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{needs sizes [m, n, k], none of them negative}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{needs sizes [m, n, k], none of them negative}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, -4]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{needs two strides for b, of rows and of columns}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4] to <memory + 128, 64> [4, 1] sizes [4, 4, 4]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has strides 2 and 2 for a; one must be 1, the other at least the size of the direction of the first}}
    exec.matmul "m" <memory + 0, 64> [2, 2] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has strides 3 and 1 for c}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [3, 1] sizes [4, 4, 4]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has a stride below 1 for a}}
    exec.matmul "m" <memory + 0, 64> [0, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 1]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{reaches past the 60 bytes of b}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 60> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{reaches past the 64 bytes of a}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4] batch [[2, 4, 0, 16]]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{reaches past the 64 bytes of c}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4] batch [[2, 0, 0, 9223372036854775807]]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has a dimension of the batch of 0}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4] batch [[0, 0, 0, 16]]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{writes several results of the batch to the same place}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4] batch [[2, 0, 0, 0]]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{a dimension of the batch is [count, stride of a, stride of b, stride of c]}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4] batch [[2, 0, 0]]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{needs four numbers for each dimension of the batch}}
    "exec.matmul"() {label = "m", a = #exec.at<memory + 0, 64>, a_strides = array<i64: 4, 1>,
      b = #exec.at<memory + 64, 64>, b_strides = array<i64: 4, 1>, c = #exec.at<memory + 128, 64>,
      c_strides = array<i64: 4, 1>, sizes = array<i64: 4, 4, 4>, batch = array<i64: 2, 0, 0>} : () -> ()
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{writes to what it reads: c overlaps a or b}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 60, 64> [4, 1] sizes [4, 4, 4]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has an address that is no multiple of 4 bytes in every iteration}}
    exec.matmul "m" <memory + 2, 64> [4, 1] by <memory + 68, 64> [4, 1] to <memory + 132, 64> [4, 1] sizes [4, 4, 4]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    exec.repeat "layers" 3 layers [0, 1] {
      // expected-error@+1 {{has an address that is no multiple of 4 bytes in every iteration}}
      exec.matmul "m" <memory + 0, 64 step 2> [4, 1] by <memory + 68, 64> [4, 1] to <memory + 132, 64> [4, 1] sizes [4, 4, 4]
    }
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{reaches past the 30 bytes of a}}
    exec.matmul "m" <memory + 0, 30> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4] of bf16
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{reaches past the 32 bytes of a}}
    exec.matmul "m" <memory + 0, 32> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4] of f32
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{rounds its result, so it needs operands of bf16 and adds to nothing}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4] as bf16
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{rounds its result, so it needs operands of bf16 and adds to nothing}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] add to <memory + 128, 64> [4, 1] sizes [4, 4, 4] of bf16 as bf16
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{attribute 'of' failed to satisfy constraint: f32 or bf16}}
    exec.matmul "m" <memory + 0, 64> [4, 1] by <memory + 64, 64> [4, 1] to <memory + 128, 64> [4, 1] sizes [4, 4, 4] of i32
  }
}
