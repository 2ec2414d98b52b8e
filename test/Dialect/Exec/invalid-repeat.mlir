// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    exec.repeat "layers" 3 layers [0, 1] {
      // expected-error@+1 {{stands in a repeat; repeats don't nest}}
      exec.repeat "inner" 2 layers [0, 1] {
      }
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
  // expected-error@+1 {{stands outside of an entry}}
  exec.repeat "layers" 2 layers [0, 1] {
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
    // expected-error@+1 {{attribute 'count' failed to satisfy constraint}}
    exec.repeat "layers" 0 layers [0, 1] {
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
    // expected-error@+1 {{runs 65537 times; at most 65536}}
    exec.repeat "layers" 65537 layers [0, 1] {
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
    // expected-error@+1 {{needs layers [first, step]}}
    exec.repeat "layers" 2 layers [0] {
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
    // expected-error@+1 {{counts layers from -1 by 1; the first is 0 to 2^31 - 1, the step at most that either way}}
    exec.repeat "layers" 2 layers [-1, 1] {
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
    // expected-error@+1 {{ends at layer -1; layers are 0 to 2^31 - 1}}
    exec.repeat "layers" 4 layers [2, -1] {
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
    exec.repeat "layers" 3 layers [0, 1] {
      // expected-error@+1 {{is no command}}
      %0 = arith.constant 0 : i32
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
    // expected-error@+1 {{is no command}}
    %0 = arith.constant 0 : i32
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
    // expected-error@+1 {{moves by 64 bytes outside of a repeat}}
    exec.zero "z" <memory + 0, 64 step 64>
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
      // expected-error@+1 {{takes 64 bytes at -64 of the segment "memory", which has 1024, in iteration 2}}
      exec.zero "z" <memory + 64, 64 step -64>
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
    exec.repeat "layers" 3 layers [0, 1] {
      // expected-error@+1 {{takes 64 bytes at 1024 of the segment "memory", which has 1024, in iteration 2}}
      exec.zero "z" <memory + 512, 64 step 256>
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
    exec.repeat "layers" 3 layers [0, 1] {
      // expected-error@+1 {{has source and target that overlap in iteration 1}}
      exec.copy "c" <memory + 0, 64 step 64> to <memory + 64, 64>
    }
  }
}
