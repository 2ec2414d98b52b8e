// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{names no group: "data"; groups: tensor}}
    exec.all_reduce "r" f32 <memory + 0, 64> to <memory + 64, 64> sum on "data"
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
    // expected-error@+1 {{names no group: ""; groups: tensor}}
    exec.all_reduce "r" f32 <memory + 0, 64> to <memory + 64, 64> sum on ""
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
    // expected-error@+1 {{attribute 'type' failed to satisfy constraint: f32, bf16, i32 or i64}}
    exec.all_reduce "r" f64 <memory + 0, 64> to <memory + 64, 64> sum on "tensor"
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
    // expected-error@+1 {{needs source and target of the same whole number of elements}}
    exec.all_reduce "r" f32 <memory + 0, 64> to <memory + 64, 60> sum on "tensor"
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
    // expected-error@+1 {{needs source and target of the same whole number of elements}}
    exec.all_reduce "r" f32 <memory + 0, 6> to <memory + 64, 6> sum on "tensor"
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
    // expected-error@+1 {{has source and target that overlap}}
    exec.all_reduce "r" f32 <memory + 0, 64> to <memory + 32, 64> sum on "tensor"
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
    // expected-error@+1 {{has an address that is no multiple of 8 bytes in every iteration}}
    exec.all_reduce "r" i64 <memory + 4, 64> to <memory + 128, 64> sum on "tensor"
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
    // expected-error@+1 {{needs cut [outer, full, inner], none of them negative}}
    exec.all_gather "g" f32 <memory + 0, 12> to <memory + 64, 28> cut [7, 1] on "tensor"
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
    // expected-error@+1 {{needs cut [outer, full, inner], none of them negative}}
    exec.slice "s" f32 <memory + 64, 28> to <memory + 0, 12> cut [1, -7, 1] on "tensor"
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
    // expected-error@+1 {{has a source of 28 bytes, its sizes need 12}}
    exec.all_gather "g" f32 <memory + 0, 28> to <memory + 64, 28> cut [1, 7, 1] on "tensor"
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
    // expected-error@+1 {{has a target of 36 bytes, its sizes need 28}}
    exec.all_gather "g" f32 <memory + 0, 12> to <memory + 64, 36> cut [1, 7, 1] on "tensor"
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
    // expected-error@+1 {{has a target of 8 bytes, its sizes need 12}}
    exec.reduce_scatter "r" f32 <memory + 64, 28> to <memory + 0, 8> sum cut [1, 7, 1] on "tensor"
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
    // expected-error@+1 {{has source and target that overlap}}
    exec.slice "s" f32 <memory + 0, 28> to <memory + 24, 12> cut [1, 7, 1] on "tensor"
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
    // expected-error@+1 {{needs cut [outer, first, middle, second, inner], none of them negative}}
    exec.all_to_all "t" f32 <memory + 0, 56> to <memory + 64, 48> cut [1, 7, 1, 4] on "tensor"
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
    // expected-error@+1 {{has a source of 56 bytes, its sizes need 48}}
    exec.all_to_all "t" f32 <memory + 0, 56> to <memory + 64, 48> cut [1, 7, 1, 4, 1] on "tensor"
  }
}
