// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{expects parent op to be one of 'exec.entry, exec.repeat, exec.beside'}}
  exec.zero "z" <memory + 0, 64>
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
    // expected-error@+1 {{takes 2048 bytes at 0 of the segment "memory", which has 1024}}
    exec.zero "z" <memory + 0, 2048>
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
    // expected-error@+1 {{names no segment: "arena"; segments: memory}}
    exec.zero "z" <arena + 0, 64>
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
    // expected-error@+1 {{copies 64 bytes to 32}}
    exec.copy "c" <memory + 0, 64> to <memory + 64, 32>
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
    exec.copy "c" <memory + 0, 64> to <memory + 60, 64>
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
    // expected-error@+1 {{names no kernel: @down}}
    exec.launch "k" @down(<memory + 0, 16>) extent 4 grain 1
  }
}
func.func private @up(tensor<4xf32>, tensor<2x4xi32>)

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{gives 1 addresses to @up, which takes 2}}
    exec.launch "k" @up(<memory + 0, 16>) extent 4 grain 1
  }
}
func.func private @up(tensor<4xf32>, tensor<2x4xi32>)

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{gives 16 bytes to argument 1 of @up, a 'tensor<2x4xi32>' of 32}}
    exec.launch "k" @up(<memory + 0, 16>, <memory + 16, 16>) extent 4 grain 1
  }
}
func.func private @up(tensor<4xf32>, tensor<2x4xi32>)

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{writes 3 of 2 arguments}}
    exec.launch "k" @up(<memory + 0, 16>, <memory + 16, 32>) extent 4 grain 1 writes [f32, f32, i32]
  }
}
func.func private @up(tensor<4xf32>, tensor<2x4xi32>)

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{writes 33 bytes of elements of 'f32'}}
    exec.launch "k" @k(<memory + 0, 16>, <memory + 16, 33>) extent 4 grain 1 writes [f32]
  }
}
func.func private @k()

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has an extent or a grain above 2^48}}
    exec.launch "k" @up(<memory + 0, 16>, <memory + 16, 32>) extent 281474976710657 grain 1
  }
}
func.func private @up(tensor<4xf32>, tensor<2x4xi32>)

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{attribute 'grain' failed to satisfy constraint}}
    exec.launch "k" @up(<memory + 0, 16>, <memory + 16, 32>) extent 4 grain 0
  }
}
func.func private @up(tensor<4xf32>, tensor<2x4xi32>)

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{attribute 'flops' failed to satisfy constraint}}
    exec.zero "z" <memory + 0, 64> flops -1
  }
}
