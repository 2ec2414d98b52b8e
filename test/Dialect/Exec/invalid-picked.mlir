// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{needs four sizes of at least 1}}
    exec.picked_matmul "p" <memory + 0, 24> by <memory + 64, 64> [8, 1, 2] picked <memory + 128, 24> to <memory + 192, 96> sizes [6, 4, 2] share 2
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has 20 bytes for the index, its sizes need 24}}
    exec.picked_matmul "p" <memory + 0, 24> by <memory + 64, 64> [8, 1, 2] picked <memory + 128, 20> to <memory + 192, 96> sizes [6, 4, 2, 2] share 2
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has 8 bytes for the offset, its sizes need 4}}
    exec.picked_matmul "p" <memory + 0, 24> by <memory + 64, 64> [8, 1, 2] picked <memory + 128, 24> from <memory + 160, 8> to <memory + 192, 96> sizes [6, 4, 2, 2] share 2
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{writes to what it reads}}
    exec.picked_matmul "p" <memory + 0, 24> by <memory + 64, 64> [8, 1, 2] picked <memory + 128, 24> to <memory + 148, 96> sizes [6, 4, 2, 2] share 2
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{shares a row between 4 of 6}}
    exec.picked_matmul "p" <memory + 0, 24> by <memory + 64, 64> [8, 1, 2] picked <memory + 128, 24> to <memory + 192, 96> sizes [6, 4, 2, 2] share 4
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has 24 bytes for a, its sizes need 16}}
    exec.picked_matmul "p" <memory + 0, 24> by <memory + 64, 64> [8, 1, 2] picked <memory + 128, 24> to <memory + 192, 96> sizes [6, 4, 2, 2] share 3
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has 64 bytes for b, its sizes need 96}}
    exec.picked_matmul "p" <memory + 0, 24> by <memory + 64, 64> [8, 1, 2] picked <memory + 128, 24> to <memory + 192, 96> sizes [6, 4, 2, 3] share 2
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has 92 bytes for c, its sizes need 96}}
    exec.picked_matmul "p" <memory + 0, 24> by <memory + 64, 64> [8, 1, 2] picked <memory + 128, 24> to <memory + 192, 92> sizes [6, 4, 2, 2] share 2
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{needs the strides of dense matrices, of rows or of columns}}
    exec.picked_matmul "p" <memory + 0, 24> by <memory + 64, 64> [8, 2, 1] picked <memory + 128, 24> to <memory + 192, 96> sizes [6, 4, 2, 2] share 2
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{needs the shares of a and of b}}
    exec.picked_outer "p" <memory + 192, 96> by <memory + 0, 24> picked <memory + 128, 24> to <memory + 64, 64> sizes [6, 4, 2, 2] shares [1]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has 24 bytes for b, its sizes need 48}}
    exec.picked_outer "p" <memory + 192, 96> by <memory + 0, 24> picked <memory + 128, 24> to <memory + 64, 64> sizes [6, 4, 2, 2] shares [1, 1]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has 64 bytes for c, its sizes need 96}}
    exec.picked_outer "p" <memory + 192, 96> by <memory + 0, 24> picked <memory + 128, 24> to <memory + 64, 64> sizes [6, 4, 2, 3] shares [1, 2]
  }
}

// -----

dist.mesh @mesh ["data", "tensor"] = [2, 3]
exec.program on @mesh {
  exec.segment "memory" 1024
  exec.exchange tokens <memory + 0, 4>
  exec.exchange targets <memory + 0, 4>
  exec.exchange loss <memory + 0, 4>
  exec.entry update {
    // expected-error@+1 {{has an address that is no multiple of 4 bytes}}
    exec.picked_outer "p" <memory + 192, 96> by <memory + 2, 24> picked <memory + 128, 24> to <memory + 64, 64> sizes [6, 4, 2, 2] shares [1, 2]
  }
}
