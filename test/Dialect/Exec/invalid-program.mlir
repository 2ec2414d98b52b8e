// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{names no mesh: @mesh}}
exec.program on @mesh {
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
}

// -----

dist.mesh @mesh ["data"] = [2]
// expected-error@+1 {{needs an exec.exchange of loss}}
exec.program on @mesh {
  exec.segment "memory" 64
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{is no part of a program}}
  %0 = arith.constant 0 : i32
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{defines the segment 'memory' twice}}
  exec.segment "memory" 64
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has 70368744177665 bytes; at most 2^46}}
  exec.segment "more" 70368744177665
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{attribute 'bytes' failed to satisfy constraint}}
  exec.segment "less" -1
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{defines the group 'tensor' twice}}
  exec.group "tensor" ["data"]
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{names no axis of @mesh: "pipeline"}}
  exec.group "pipeline" ["pipeline"]
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{uses the axis "data" twice}}
  exec.group "more" ["data", "tensor", "data"]
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{places 'loss' twice}}
  exec.exchange loss <memory + 64, 4>
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
  exec.exchange gradient_norm <memory + 64, 8>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{moves by 64 bytes; only addresses of commands in a repeat and of layers do}}
  exec.exchange positions <memory + 64, 4 step 64>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{names no segment: "memroy"; segments: memory}}
  exec.exchange positions <memroy + 0, 4>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{takes 64 bytes at 992 of the segment "memory", which has 1024}}
  exec.exchange positions <memory + 992, 64>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has an address that is no multiple of 4 bytes in every iteration}}
  exec.exchange positions <memory + 6, 64>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{an address has an offset and a size from 0 to 2^46, and a step of at most that either way}}
  exec.exchange positions <memory + -4, 64>
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
  }
  // expected-error@+1 {{has 'update' twice}}
  exec.entry update {
  }
}
