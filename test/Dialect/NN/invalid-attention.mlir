// RUN: cleave-opt %s --split-input-file --verify-diagnostics

#bm = #nn.dims<batch, head_dim>
#b = #nn.dims<batch>
func.func @rope_type(%x: tensor<2x4xf32, #bm>, %p: tensor<2xi32, #b>) {
  // expected-error@+1 {{needs a result of its input's type}}
  %y = nn.rope %x, %p {frequencies = array<f64: 1.0, 1.0>} : (tensor<2x4xf32, #bm>, tensor<2xi32, #b>) -> tensor<2x4xbf16, #bm>
  return
}

// -----

#bm = #nn.dims<batch, head_dim>
#b = #nn.dims<batch>
func.func @rope_frequencies(%x: tensor<2x4xf32, #bm>, %p: tensor<2xi32, #b>) {
  // expected-error@+1 {{has 3 frequencies for a width of 4; twice as many divide the width}}
  %y = nn.rope %x, %p {frequencies = array<f64: 1.0, 1.0, 1.0>} : (tensor<2x4xf32, #bm>, tensor<2xi32, #b>) -> tensor<2x4xf32, #bm>
  return
}

// -----

#bm = #nn.dims<batch, head_dim>
#s = #nn.dims<sequence>
func.func @rope_positions(%x: tensor<2x4xf32, #bm>, %p: tensor<2xi32, #s>) {
  // expected-error@+1 {{has positions along 'sequence', which its input lacks}}
  %y = nn.rope %x, %p {frequencies = array<f64: 1.0, 1.0>} : (tensor<2x4xf32, #bm>, tensor<2xi32, #s>) -> tensor<2x4xf32, #bm>
  return
}

// -----

#q = #nn.dims<sequence, batch, kv_head, head_dim>
#l = #nn.dims<sequence, batch, kv_head>
func.func @query_order(%q: tensor<5x1x2x4xf32, #q>) {
  // expected-error@+1 {{needs a query of dimensions batch, sequence, kv_head, [group,] head_dim, in this order}}
  %y, %lse = nn.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<5x1x2x4xf32, #q>, tensor<5x1x2x4xf32, #q>, tensor<5x1x2x4xf32, #q>) -> (tensor<5x1x2x4xf32, #q>, tensor<5x1x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, group, head_dim>
#l = #nn.dims<batch, sequence, kv_head, group>
func.func @grouped_keys(%q: tensor<1x5x2x3x4xf32, #q>) {
  // expected-error@+1 {{needs keys and values of dimensions [batch, sequence, kv_head, head_dim], not 'tensor<1x5x2x3x4xf32}}
  %y, %lse = nn.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x5x2x3x4xf32, #q>, tensor<1x5x2x3x4xf32, #q>, tensor<1x5x2x3x4xf32, #q>) -> (tensor<1x5x2x3x4xf32, #q>, tensor<1x5x2x3xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
func.func @mixed_types(%q: tensor<1x5x2x4xbf16, #q>, %k: tensor<1x5x2x4xf32, #q>) {
  // expected-error@+1 {{needs query, key and value of one element type}}
  %y, %lse = nn.attention %q, %k, %q {scale = 0.5 : f64} : (tensor<1x5x2x4xbf16, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xbf16, #q>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
func.func @narrow_lse(%q: tensor<1x5x2x4xbf16, #q>) {
  // expected-error@+1 {{needs a log-sum-exp of f32}}
  %y, %lse = nn.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x5x2x4xbf16, #q>, tensor<1x5x2x4xbf16, #q>, tensor<1x5x2x4xbf16, #q>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xbf16, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
func.func @result_type(%q: tensor<1x5x2x4xf32, #q>) {
  // expected-error@+1 {{needs a result of its query's type}}
  %y, %lse = nn.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>) -> (tensor<1x5x2x4xbf16, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence>
func.func @row_statistics(%q: tensor<1x5x2x4xf32, #q>) {
  // expected-error@+1 {{needs a log-sum-exp of dimensions [batch, sequence, kv_head], not 'tensor<1x5xf32}}
  %y, %lse = nn.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
func.func @gradient_of_keys(%q: tensor<1x5x2x4xf32, #q>, %lse: tensor<1x5x2xf32, #l>) {
  // expected-error@+1 {{needs keys and values of dimensions [batch, sequence, kv_head, head_dim], not 'tensor<1x5x2xf32}}
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q, %q, %lse, %q {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>, tensor<1x5x2x4xf32, #q>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>, tensor<1x5x2x4xf32, #q>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
func.func @gradient_of_result(%q: tensor<1x5x2x4xf32, #q>, %lse: tensor<1x5x2xf32, #l>) {
  // expected-error@+1 {{needs a result and gradients of dimensions [batch, sequence, kv_head, head_dim], not 'tensor<1x5x2xf32}}
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q, %q, %lse, %lse {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>, tensor<1x5x2xf32, #l>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
func.func @empty_window(%q: tensor<1x5x2x4xf32, #q>) {
  // expected-error@+1 {{has a window in which a position does not see itself}}
  %y, %lse = nn.attention %q, %q, %q {scale = 0.5 : f64, window = 0 : i64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
func.func @negative_cap(%q: tensor<1x5x2x4xf32, #q>) {
  // expected-error@+1 {{needs a cap above 0}}
  %y, %lse = nn.attention %q, %q, %q {scale = 0.5 : f64, cap = -1.0 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
#bs = #nn.dims<batch, sequence>
#s = #nn.dims<sequence>
func.func @one_list_of_positions(%q: tensor<1x5x2x4xf32, #q>, %k: tensor<1x5x2x4xf32, #q>, %p: tensor<1x5xi32, #bs>) {
  // expected-error@+1 {{needs positions of queries and of keys, or none (which needs no 'ordered'), not 1}}
  %y, %lse = nn.attention %q, %k, %k, %p {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5xi32, #bs>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
#bs = #nn.dims<batch, sequence>
#s = #nn.dims<sequence>
func.func @ordered_without_positions(%q: tensor<1x5x2x4xf32, #q>, %k: tensor<1x5x2x4xf32, #q>, %p: tensor<1x5xi32, #bs>) {
  // expected-error@+1 {{needs positions of queries and of keys, or none (which needs no 'ordered'), not 0}}
  %y, %lse = nn.attention %q, %k, %k {scale = 0.5 : f64, ordered} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
#bs = #nn.dims<batch, sequence>
#s = #nn.dims<sequence>
func.func @positions_of_floats(%q: tensor<1x5x2x4xf32, #q>, %k: tensor<1x5x2x4xf32, #q>, %p: tensor<1x5xf32, #bs>) {
  // expected-error@+1 {{needs positions of type i32, not 'tensor<1x5xf32}}
  %y, %lse = nn.attention %q, %k, %k, %p, %p {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5xf32, #bs>, tensor<1x5xf32, #bs>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
#bs = #nn.dims<batch, sequence>
#s = #nn.dims<sequence>
func.func @positions_without_batch(%q: tensor<1x5x2x4xf32, #q>, %k: tensor<1x5x2x4xf32, #q>, %p: tensor<5xi32, #s>) {
  // expected-error@+1 {{needs positions of dimensions [batch, sequence], not 'tensor<5xi32}}
  %y, %lse = nn.attention %q, %k, %k, %p, %p {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<5xi32, #s>, tensor<5xi32, #s>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
#bs = #nn.dims<batch, sequence>
#s = #nn.dims<sequence>
func.func @more_keys_than_positions(%q: tensor<1x5x2x4xf32, #q>, %k: tensor<1x6x2x4xf32, #q>, %p: tensor<1x5xi32, #bs>) {
  // expected-error@+1 {{has two sizes for dimension 'sequence'}}
  %y, %lse = nn.attention %q, %k, %k, %p, %p {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x6x2x4xf32, #q>, tensor<1x6x2x4xf32, #q>, tensor<1x5xi32, #bs>, tensor<1x5xi32, #bs>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
#bs = #nn.dims<batch, sequence>
#s = #nn.dims<sequence>
func.func @more_keys_without_positions(%q: tensor<1x5x2x4xf32, #q>, %k: tensor<1x6x2x4xf32, #q>, %p: tensor<1x5xi32, #bs>) {
  // expected-error@+1 {{has two sizes for dimension 'sequence'}}
  %y, %lse = nn.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x6x2x4xf32, #q>, tensor<1x6x2x4xf32, #q>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
#bs = #nn.dims<batch, sequence>
#s = #nn.dims<sequence>
func.func @other_heads(%q: tensor<1x5x2x4xf32, #q>, %k: tensor<1x6x3x4xf32, #q>, %p: tensor<1x5xi32, #bs>, %at: tensor<1x6xi32, #bs>) {
  // expected-error@+1 {{has two sizes for dimension 'kv_head'}}
  %y, %lse = nn.attention %q, %k, %k, %p, %at {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x6x3x4xf32, #q>, tensor<1x6x3x4xf32, #q>, tensor<1x5xi32, #bs>, tensor<1x6xi32, #bs>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#v = #nn.dims<batch, sequence, kv_head, value_dim>
#l = #nn.dims<batch, sequence, kv_head>
#h = #nn.dims<kv_head>
#g = #nn.dims<group>
#bs = #nn.dims<batch, sequence>
func.func @value_width(%q: tensor<1x5x2x4xf32, #q>, %v: tensor<1x5x2x7xf32, #v>) {
  // expected-error@+1 {{needs a result of its query's type, as wide as a value}}
  %y, %lse = nn.attention %q, %q, %v {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x7xf32, #v>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#v = #nn.dims<batch, sequence, kv_head, value_dim>
#l = #nn.dims<batch, sequence, kv_head>
#h = #nn.dims<kv_head>
#g = #nn.dims<group>
#bs = #nn.dims<batch, sequence>
func.func @key_width(%q: tensor<1x5x2x4xf32, #q>, %v: tensor<1x5x2x7xf32, #v>) {
  // expected-error@+1 {{needs keys and values of dimensions [batch, sequence, kv_head, head_dim], not}}
  %y, %lse = nn.attention %q, %v, %v {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x7xf32, #v>, tensor<1x5x2x7xf32, #v>) -> (tensor<1x5x2x7xf32, #v>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#v = #nn.dims<batch, sequence, kv_head, value_dim>
#l = #nn.dims<batch, sequence, kv_head>
#h = #nn.dims<kv_head>
#g = #nn.dims<group>
#bs = #nn.dims<batch, sequence>
func.func @sinks_of_heads(%q: tensor<1x5x2x4xf32, #q>, %s: tensor<2xf32, #g>) {
  // expected-error@+1 {{needs sinks of dimensions [kv_head], not}}
  %y, %lse = nn.attention %q, %q, %q, %s {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<2xf32, #g>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#v = #nn.dims<batch, sequence, kv_head, value_dim>
#l = #nn.dims<batch, sequence, kv_head>
#h = #nn.dims<kv_head>
#g = #nn.dims<group>
#bs = #nn.dims<batch, sequence>
func.func @sinks_sizes(%q: tensor<1x5x2x4xf32, #q>, %p: tensor<1x5xi32, #bs>, %s: tensor<3xf32, #h>) {
  // expected-error@+1 {{has two sizes for dimension 'kv_head'}}
  %y, %lse = nn.attention %q, %q, %q, %p, %p, %s {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5xi32, #bs>, tensor<1x5xi32, #bs>, tensor<3xf32, #h>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#v = #nn.dims<batch, sequence, kv_head, value_dim>
#l = #nn.dims<batch, sequence, kv_head>
#h = #nn.dims<kv_head>
#g = #nn.dims<group>
#bs = #nn.dims<batch, sequence>
func.func @too_many(%q: tensor<1x5x2x4xf32, #q>, %p: tensor<1x5xi32, #bs>, %s: tensor<2xf32, #h>) {
  // expected-error@+1 {{has more than positions of queries, positions of keys and sinks}}
  %y, %lse = nn.attention %q, %q, %q, %p, %p, %s, %s {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5xi32, #bs>, tensor<1x5xi32, #bs>, tensor<2xf32, #h>, tensor<2xf32, #h>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#v = #nn.dims<batch, sequence, kv_head, value_dim>
#l = #nn.dims<batch, sequence, kv_head>
#h = #nn.dims<kv_head>
#g = #nn.dims<group>
#bs = #nn.dims<batch, sequence>
func.func @gradient_width(%q: tensor<1x5x2x4xf32, #q>, %v: tensor<1x5x2x7xf32, #v>, %lse: tensor<1x5x2xf32, #l>) {
  // expected-error@+1 {{needs a result and gradients of dimensions [batch, sequence, kv_head, value_dim], not}}
  %dq, %dk, %dv = nn.attention_grad %q, %q, %v, %q, %lse, %v {scale = 0.5 : f64} : (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x7xf32, #v>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2xf32, #l>, tensor<1x5x2x7xf32, #v>) -> (tensor<1x5x2x4xf32, #q>, tensor<1x5x2x4xf32, #q>, tensor<1x5x2x7xf32, #v>)
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#v = #nn.dims<batch, sequence, kv_head, value_dim>
#l = #nn.dims<batch, sequence, kv_head>
#h = #nn.dims<kv_head>
#g = #nn.dims<group>
#bs = #nn.dims<batch, sequence>
func.func @sink_rows(%s: tensor<2xf32, #h>, %lse: tensor<1x5xf32, #bs>) {
  // expected-error@+1 {{needs sinks whose dimensions are the last ones of the log-sum-exp}}
  %d = nn.attention_sink_grad %s, %lse, %lse : (tensor<2xf32, #h>, tensor<1x5xf32, #bs>, tensor<1x5xf32, #bs>) -> tensor<2xf32, #h>
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#v = #nn.dims<batch, sequence, kv_head, value_dim>
#l = #nn.dims<batch, sequence, kv_head>
#h = #nn.dims<kv_head>
#g = #nn.dims<group>
#bs = #nn.dims<batch, sequence>
func.func @sink_share(%s: tensor<2xf32, #h>, %lse: tensor<1x5x2xf32, #l>) {
  // expected-error@+1 {{needs a share of each row of dimensions [batch, sequence, kv_head], not}}
  %d = nn.attention_sink_grad %s, %lse, %s : (tensor<2xf32, #h>, tensor<1x5x2xf32, #l>, tensor<2xf32, #h>) -> tensor<2xf32, #h>
  return
}

// -----

#q = #nn.dims<batch, sequence, kv_head, head_dim>
#v = #nn.dims<batch, sequence, kv_head, value_dim>
#l = #nn.dims<batch, sequence, kv_head>
#h = #nn.dims<kv_head>
#g = #nn.dims<group>
#bs = #nn.dims<batch, sequence>
func.func @sink_type(%s: tensor<2xf32, #h>, %lse: tensor<1x5x2xf32, #l>) {
  // expected-error@+1 {{needs a result of its sinks' type}}
  %d = nn.attention_sink_grad %s, %lse, %lse : (tensor<2xf32, #h>, tensor<1x5x2xf32, #l>, tensor<1x5x2xf32, #l>) -> tensor<1x5x2xf32, #l>
  return
}
