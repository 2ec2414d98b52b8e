// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate -cleave-sharding-insert-reshards -cleave-partition | FileCheck %s

// Queries stay cut along the sequence; keys and values are gathered along it, and their
// gradients added up and cut again. Positions of queries are a slice of all positions.
#q = #nn.dims<batch, sequence, kv_head, group, head_dim>
#l = #nn.dims<batch, sequence, kv_head, group>
#kv = #nn.dims<batch, sequence, kv_head, head_dim>
#bs = #nn.dims<batch, sequence>

dist.mesh @mesh ["context"] = [2]

// CHECK-LABEL: func.func @cut
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x4x2x3x4xf32, {{.*}}, %[[K:[^:]*]]: tensor<1x4x2x4xf32, {{.*}}, %[[V:[^:]*]]: tensor<1x4x2x4xf32, {{.*}}, %[[P:[^:]*]]: tensor<1x7xi32,
// CHECK-DAG: %[[KS:.*]] = dist.all_gather %[[K]] dim 1 on @mesh ["context"] {{.*}}: (tensor<1x4x2x4xf32, {{.*}}) -> tensor<1x7x2x4xf32,
// CHECK-DAG: %[[VS:.*]] = dist.all_gather %[[V]] dim 1
// CHECK-DAG: %[[AT:.*]] = dist.slice %[[P]] dim 1 on @mesh ["context"] : (tensor<1x7xi32, {{.*}}) -> tensor<1x4xi32,
// CHECK: %[[Y:.*]], %[[LSE:.*]] = nn.attention %[[Q]], %[[KS]], %[[VS]], %[[AT]], %[[P]] {scale = 5.000000e-01 : f64} :
// Padding of the queries' gradients would count in those of the keys.
// CHECK: %[[DY:.*]] = dist.mask %{{.*}} dim 1 size 7 value 0.000000e+00 on @mesh ["context"]
// CHECK: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = nn.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[Y]], %[[LSE]], %[[DY]], %{{.*}}, %[[P]] {scale = 5.000000e-01 : f64} :
// CHECK-DAG: dist.reduce_scatter %[[DK]] dim 1 on @mesh ["context"] {{.*}}: (tensor<1x7x2x4xf32, {{.*}}) -> tensor<1x4x2x4xf32,
// CHECK-DAG: dist.reduce_scatter %[[DV]] dim 1
func.func @cut(%q: tensor<1x7x2x3x4xf32, #q> {dist.sharding = #dist.sharding<[[], [context], [], [], []]>}, %k: tensor<1x7x2x4xf32, #kv> {dist.sharding = #dist.sharding<[[], [context], [], []]>}, %v: tensor<1x7x2x4xf32, #kv> {dist.sharding = #dist.sharding<[[], [context], [], []]>}, %p: tensor<1x7xi32, #bs> {dist.sharding = #dist.sharding<[[], []]>}) -> (tensor<1x7x2x3x4xf32, #q> {dist.sharding = #dist.sharding<[[], [context], [], [], []]>}, tensor<1x7x2x4xf32, #kv> {dist.sharding = #dist.sharding<[[], [context], [], []]>}, tensor<1x7x2x4xf32, #kv> {dist.sharding = #dist.sharding<[[], [context], [], []]>}) {
  %y, %lse = nn.attention %q, %k, %v, %p, %p {scale = 0.5 : f64, ordered, dist.factors = {sequence = ["context"]}} : (tensor<1x7x2x3x4xf32, #q>, tensor<1x7x2x4xf32, #kv>, tensor<1x7x2x4xf32, #kv>, tensor<1x7xi32, #bs>, tensor<1x7xi32, #bs>) -> (tensor<1x7x2x3x4xf32, #q>, tensor<1x7x2x3xf32, #l>)
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %y, %lse, %y, %p, %p {scale = 0.5 : f64, ordered, dist.factors = {sequence = ["context"]}} : (tensor<1x7x2x3x4xf32, #q>, tensor<1x7x2x4xf32, #kv>, tensor<1x7x2x4xf32, #kv>, tensor<1x7x2x3x4xf32, #q>, tensor<1x7x2x3xf32, #l>, tensor<1x7x2x3x4xf32, #q>, tensor<1x7xi32, #bs>, tensor<1x7xi32, #bs>) -> (tensor<1x7x2x3x4xf32, #q>, tensor<1x7x2x4xf32, #kv>, tensor<1x7x2x4xf32, #kv>)
  return %dq, %dk, %dv : tensor<1x7x2x3x4xf32, #q>, tensor<1x7x2x4xf32, #kv>, tensor<1x7x2x4xf32, #kv>
}

// -----

// Whole sequences in order need no positions; in another order they do.
#q = #nn.dims<batch, sequence, kv_head, head_dim>
#l = #nn.dims<batch, sequence, kv_head>
#bs = #nn.dims<batch, sequence>

dist.mesh @mesh ["tensor"] = [2]

// CHECK-LABEL: func.func @whole
// CHECK: nn.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {scale = 5.000000e-01 : f64} :
// CHECK: nn.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[P:[^,]*]], %[[P]] {scale = 5.000000e-01 : f64} :
func.func @whole(%q: tensor<1x7x2x4xf32, #q>, %p: tensor<1x7xi32, #bs>) -> (tensor<1x7x2x4xf32, #q>) {
  %y, %lse = nn.attention %q, %q, %q, %p, %p {scale = 0.5 : f64, ordered, dist.factors = {kv_head = ["tensor"]}} : (tensor<1x7x2x4xf32, #q>, tensor<1x7x2x4xf32, #q>, tensor<1x7x2x4xf32, #q>, tensor<1x7xi32, #bs>, tensor<1x7xi32, #bs>) -> (tensor<1x7x2x4xf32, #q>, tensor<1x7x2xf32, #l>)
  %z, %lse2 = nn.attention %y, %y, %y, %p, %p {scale = 0.5 : f64, dist.factors = {kv_head = ["tensor"]}} : (tensor<1x7x2x4xf32, #q>, tensor<1x7x2x4xf32, #q>, tensor<1x7x2x4xf32, #q>, tensor<1x7xi32, #bs>, tensor<1x7xi32, #bs>) -> (tensor<1x7x2x4xf32, #q>, tensor<1x7x2xf32, #l>)
  return %z : tensor<1x7x2x4xf32, #q>
}

// -----

// Sinks are cut with their heads; a rank's rows give one term of their gradient, and padding
// none.
#ys = #nn.dims<batch, sequence, kv_head, group, value_dim>
#qs = #nn.dims<batch, sequence, kv_head, group, head_dim>
#ks = #nn.dims<batch, sequence, kv_head, head_dim>
#vs = #nn.dims<batch, sequence, kv_head, value_dim>
#ls = #nn.dims<batch, sequence, kv_head, group>
#hs = #nn.dims<kv_head, group>
#bs = #nn.dims<batch, sequence>

dist.mesh @mesh ["context", "tensor"] = [2, 2]

// CHECK-LABEL: func.func @sinks
// CHECK-SAME: %[[S:[^:]*]]: tensor<1x3xf32,
// CHECK: %[[Y:.*]], %[[LSE:.*]] = nn.attention %{{.*}}, %[[S]] {scale = 5.000000e-01 : f64} : (tensor<1x4x1x3x4xf32, {{.*}}>, tensor<1x7x1x4xf32, {{.*}}>, tensor<1x7x1x6xf32, {{.*}}>, {{.*}}tensor<1x3xf32, {{.*}}>) -> (tensor<1x4x1x3x6xf32,
// CHECK: %[[D:.*]] = dist.mask %[[LSE]] dim 1 size 7 value 0.000000e+00 on @mesh ["context"]
// CHECK: %[[G:.*]] = nn.attention_sink_grad %[[S]], %[[LSE]], %[[D]] :
// CHECK: dist.all_reduce %[[G]] sum on @mesh ["context"]
func.func @sinks(%q: tensor<1x7x2x3x4xf32, #qs> {dist.sharding = #dist.sharding<[[], [context], [tensor], [], []]>}, %k: tensor<1x7x2x4xf32, #ks> {dist.sharding = #dist.sharding<[[], [context], [tensor], []]>}, %v: tensor<1x7x2x6xf32, #vs> {dist.sharding = #dist.sharding<[[], [context], [tensor], []]>}, %p: tensor<1x7xi32, #bs> {dist.sharding = #dist.sharding<[[], []]>}, %s: tensor<2x3xf32, #hs> {dist.sharding = #dist.sharding<[[tensor], []]>}) -> (tensor<1x7x2x3x6xf32, #ys> {dist.sharding = #dist.sharding<[[], [context], [tensor], [], []]>}, tensor<2x3xf32, #hs> {dist.sharding = #dist.sharding<[[tensor], []]>}) {
  %y, %lse = nn.attention %q, %k, %v, %p, %p, %s {scale = 0.5 : f64, ordered, dist.factors = {sequence = ["context"], kv_head = ["tensor"]}} : (tensor<1x7x2x3x4xf32, #qs>, tensor<1x7x2x4xf32, #ks>, tensor<1x7x2x6xf32, #vs>, tensor<1x7xi32, #bs>, tensor<1x7xi32, #bs>, tensor<2x3xf32, #hs>) -> (tensor<1x7x2x3x6xf32, #ys>, tensor<1x7x2x3xf32, #ls>)
  %ds = nn.attention_sink_grad %s, %lse, %lse {dist.factors = {sequence = ["context"], kv_head = ["tensor"]}} : (tensor<2x3xf32, #hs>, tensor<1x7x2x3xf32, #ls>, tensor<1x7x2x3xf32, #ls>) -> tensor<2x3xf32, #hs>
  return %y, %ds : tensor<1x7x2x3x6xf32, #ys>, tensor<2x3xf32, #hs>
}
