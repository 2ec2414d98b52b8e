// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    // expected-error@+1 {{is a bucket without exchanges}}
    exec.beside "b" 0 {
    }
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    exec.beside "b" 0 {
      // expected-error@+1 {{is no exchange of a bucket}}
      exec.zero "z" <memory + 0, 64>
    }
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    exec.beside "b" 0 {
      exec.all_gather "g" f32 <memory + 64, 16> to <memory + 256, 32> cut [1, 8, 1] on "beside"
      // expected-error@+1 {{is of another kind or group than the bucket's first exchange}}
      exec.all_reduce "r" f32 <memory + 64, 16> to <memory + 64, 16> sum on "beside"
    }
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    exec.beside "b" 0 {
      // expected-error@+1 {{is in a bucket, which the group "data" is not for}}
      exec.all_gather "g" f32 <memory + 64, 16> to <memory + 256, 32> cut [1, 8, 1] on "data"
    }
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    // expected-error@+1 {{is not in a bucket, which the group "beside" is for}}
    exec.all_gather "g" f32 <memory + 64, 16> to <memory + 256, 32> cut [1, 8, 1] on "beside"
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    // expected-error@+1 {{is ahead of the turns of a repeat, but stands in none}}
    exec.zero "z" <memory + 0, 64> ahead 1
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    exec.repeat "layers" 2 layers [0, 1] {
      // expected-error@+1 {{is 17 turns ahead; at most 16 either way}}
      exec.zero "z" <memory + 0, 64> ahead 17
    }
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    exec.repeat "layers" 2 layers [0, 1] {
      exec.beside "b" 0 {
        // expected-error@+1 {{is ahead by itself; its bucket is}}
        exec.all_gather "g" f32 <memory + 64, 16> to <memory + 256, 32> cut [1, 8, 1] on "beside" ahead 1
      }
    }
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    // expected-error@+1 {{moves by 0 bytes outside of a repeat}}
    exec.zero "z" <memory + 0, 64 period 2>
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.group "data" ["data"]
  exec.group "beside" ["data"] beside
  exec.entry update {
    exec.repeat "layers" 9 layers [0, 1] {
      // Two places of 64 bytes end in time, three don't.
      exec.zero "z" <memory + 896, 64 step 64 period 2>
      // expected-error@+1 {{takes 64 bytes at 1024 of the segment "memory", which has 1024, in iteration 2}}
      exec.zero "z" <memory + 896, 64 step 64 period 3>
    }
  }
}
