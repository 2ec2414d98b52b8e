// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has another number of elements than its shape in files}}
  exec.state "w" shape [4, 2] file [4, 3] sharding <[[], []]> mean 0.0 std 0.02 value <memory + 0, 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has another number of elements than its shape in files}}
  exec.state "w" shape [4611686018427387904, 4] file [1] sharding <[[], []]> mean 0.0 std 0.02 value <memory + 0, 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has 2 dimensions and a sharding of 1}}
  exec.state "w" shape [4, 2] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{is partial; what is kept is complete}}
  exec.state "w" shape [8] file [8] sharding <[[]], partial [data]> mean 0.0 std 0.02 value <memory + 0, 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{needs layers [first, count, step], each at most 65536, of which only first may be 0}}
  exec.state "w{0..3}" layers [0, 4] shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32 step 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{needs layers [first, count, step], each at most 65536, of which only first may be 0}}
  exec.state "w{0..3}" layers [0, 0, 1] shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32 step 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has the number of a layer between braces in its name if, and only if, it stands for several layers}}
  exec.state "w" layers [0, 4, 1] shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32 step 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has the number of a layer between braces in its name if, and only if, it stands for several layers}}
  exec.state "w{0..3}" shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has other names although it stands for several layers}}
  exec.state "w{0..3}" layers [0, 4, 1] shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32 step 32> aliases ["v"]
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{moves by 32 bytes without layers}}
  exec.state "w" shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32 step 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has layers of 32 bytes that lie -16 apart}}
  exec.state "w{0..3}" layers [0, 4, 1] shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 512, 32 step -16>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has a slot of 32 bytes; the block of a rank has 12}}
  exec.state "w" shape [8] file [8] sharding <[[tensor]]> mean 0.0 std 0.02 value <memory + 0, 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has a slot of 16 bytes; the block of a rank has 32}}
  exec.state "w" shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32> moment1 <memory + 32, 16>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has a slot of 16 bytes; the block of a rank has 8}}
  exec.state "w" shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32> moment1 <memory + 32, 16> moments_as <[[data, tensor]]>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{takes 32 bytes at 1216 of the segment "memory", which has 1024, in iteration 19}}
  exec.state "w{0..19}" layers [0, 20, 1] shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32 step 64>
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
  exec.state "w" shape [8] file [8] sharding <[[expert]]> mean 0.0 std 0.02 value <memory + 0, 32>
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
  exec.state "w" shape [8, 2] file [16] sharding <[[data], [data]]> mean 0.0 std 0.02 value <memory + 0, 16>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.state "w{0..3}" layers [0, 4, 1] shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32 step 32>
  // expected-error@+1 {{has the tensor 'w2' twice}}
  exec.state "w2" shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 128, 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.group "tensor" ["tensor"]
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.state "w" shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 0, 32>
  // expected-error@+1 {{uses the name "w" twice}}
  exec.state "v" shape [8] file [8] sharding <[[]]> mean 0.0 std 0.02 value <memory + 32, 32> aliases ["w"]
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has "{}" in its name if, and only if, the slices of its first dimension are tensors in files}}
  exec.state "w.{}" shape [4, 2] file [8] sharding <[[], []]> mean 0.0 std 0.02 value <memory + 0, 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has "{}" in its name if, and only if, the slices of its first dimension are tensors in files}}
  exec.state "w" shape [4, 2] file [2] slices sharding <[[], []]> mean 0.0 std 0.02 value <memory + 0, 32>
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  // expected-error@+1 {{has another number of elements than its shape in files}}
  exec.state "w.{}" shape [4, 2] file [4] slices sharding <[[], []]> mean 0.0 std 0.02 value <memory + 0, 32>
}
