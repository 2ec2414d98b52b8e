// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

#q = #nn.dims<batch, sequence, kv_head, group, head_dim>
#l = #nn.dims<batch, sequence, kv_head, group>
#kv = #nn.dims<batch, sequence, kv_head, head_dim>
#bs = #nn.dims<batch, sequence>

// CHECK-LABEL: @rope
// CHECK: nn.rope %{{.*}}, %{{.*}} {frequencies = array<f64: 1.000000e+00, 1.000000e-01>} : (tensor<?x?x2x4xf32, #[[KV:.*]]>, tensor<?x?xi32, #{{.*}}>) -> tensor<?x?x2x4xf32, #[[KV]]>
// CHECK: nn.rope %{{.*}}, %{{.*}} {frequencies = array<f64: 1.000000e+00, 1.000000e-01>, inverse} :
func.func @rope(%x: tensor<?x?x2x4xf32, #kv>, %p: tensor<?x?xi32, #bs>) -> tensor<?x?x2x4xf32, #kv> {
  %0 = nn.rope %x, %p {frequencies = array<f64: 1.0, 0.1>} : (tensor<?x?x2x4xf32, #kv>, tensor<?x?xi32, #bs>) -> tensor<?x?x2x4xf32, #kv>
  %1 = nn.rope %0, %p {frequencies = array<f64: 1.0, 0.1>, inverse} : (tensor<?x?x2x4xf32, #kv>, tensor<?x?xi32, #bs>) -> tensor<?x?x2x4xf32, #kv>
  return %1 : tensor<?x?x2x4xf32, #kv>
}

// CHECK-LABEL: @grouped
// CHECK: %[[Y:.*]], %[[LSE:.*]] = nn.attention %{{.*}}, %{{.*}}, %{{.*}} {scale = 5.000000e-01 : f64} :
// CHECK: nn.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[Y]], %[[LSE]], %{{.*}} {scale = 5.000000e-01 : f64} :
func.func @grouped(%q: tensor<?x?x2x3x4xf32, #q>, %k: tensor<?x?x2x4xf32, #kv>, %v: tensor<?x?x2x4xf32, #kv>) -> tensor<?x?x2x4xf32, #kv> {
  %y, %lse = nn.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<?x?x2x3x4xf32, #q>, tensor<?x?x2x4xf32, #kv>, tensor<?x?x2x4xf32, #kv>) -> (tensor<?x?x2x3x4xf32, #q>, tensor<?x?x2x3xf32, #l>)
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %y, %lse, %y {scale = 0.5 : f64} : (tensor<?x?x2x3x4xf32, #q>, tensor<?x?x2x4xf32, #kv>, tensor<?x?x2x4xf32, #kv>, tensor<?x?x2x3x4xf32, #q>, tensor<?x?x2x3xf32, #l>, tensor<?x?x2x3x4xf32, #q>) -> (tensor<?x?x2x3x4xf32, #q>, tensor<?x?x2x4xf32, #kv>, tensor<?x?x2x4xf32, #kv>)
  return %dv : tensor<?x?x2x4xf32, #kv>
}

#bsh = #nn.dims<batch, sequence, kv_head>

// CHECK-LABEL: @every_head_its_own_key
// CHECK: nn.attention
func.func @every_head_its_own_key(%q: tensor<?x?x2x4xf32, #kv>) -> tensor<?x?x2x4xf32, #kv> {
  %y, %lse = nn.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<?x?x2x4xf32, #kv>, tensor<?x?x2x4xf32, #kv>, tensor<?x?x2x4xf32, #kv>) -> (tensor<?x?x2x4xf32, #kv>, tensor<?x?x2xf32, #bsh>)
  return %y : tensor<?x?x2x4xf32, #kv>
}

#bs2 = #nn.dims<batch, sequence>

// Queries of another number than keys, each where its position says.
// CHECK-LABEL: @by_position
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[P:.*]], %[[AT:.*]] {ordered, scale = 5.000000e-01 : f64} :
// CHECK: nn.attention_grad %{{.*}}, %[[P]], %[[AT]] {scale = 5.000000e-01 : f64} :
func.func @by_position(%q: tensor<1x3x2x4xf32, #kv>, %k: tensor<1x8x2x4xf32, #kv>, %p: tensor<1x3xi32, #bs2>, %at: tensor<1x8xi32, #bs2>) -> tensor<1x8x2x4xf32, #kv> {
  %y, %lse = nn.attention %q, %k, %k, %p, %at {scale = 0.5 : f64, ordered} : (tensor<1x3x2x4xf32, #kv>, tensor<1x8x2x4xf32, #kv>, tensor<1x8x2x4xf32, #kv>, tensor<1x3xi32, #bs2>, tensor<1x8xi32, #bs2>) -> (tensor<1x3x2x4xf32, #kv>, tensor<1x3x2xf32, #bsh>)
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k, %y, %lse, %y, %p, %at {scale = 0.5 : f64} : (tensor<1x3x2x4xf32, #kv>, tensor<1x8x2x4xf32, #kv>, tensor<1x8x2x4xf32, #kv>, tensor<1x3x2x4xf32, #kv>, tensor<1x3x2xf32, #bsh>, tensor<1x3x2x4xf32, #kv>, tensor<1x3xi32, #bs2>, tensor<1x8xi32, #bs2>) -> (tensor<1x3x2x4xf32, #kv>, tensor<1x8x2x4xf32, #kv>, tensor<1x8x2x4xf32, #kv>)
  return %dv : tensor<1x8x2x4xf32, #kv>
}

#qs = #nn.dims<batch, sequence, kv_head, group, head_dim>
#ys = #nn.dims<batch, sequence, kv_head, group, value_dim>
#ls = #nn.dims<batch, sequence, kv_head, group>
#vs = #nn.dims<batch, sequence, kv_head, value_dim>
#hs = #nn.dims<kv_head, group>

// Values of another width, sinks behind positions or alone; the gradient needs none of them.
// CHECK-LABEL: @wide_with_sinks
// CHECK: nn.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[P:[^,]*]], %[[P]], %[[S:[^,]*]] {ordered, scale = 5.000000e-01 : f64} :
// CHECK: %[[Y:.*]], %[[LSE:.*]] = nn.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[S]] {scale = 5.000000e-01 : f64} :
// CHECK: nn.attention_grad %{{.*}}, %[[Y]], %[[LSE]], %[[Y]] {scale = 5.000000e-01 : f64} :
// CHECK: nn.attention_sink_grad %[[S]], %[[LSE]], %[[LSE]] :
func.func @wide_with_sinks(%q: tensor<1x5x2x3x4xf32, #qs>, %k: tensor<1x5x2x4xf32, #kv>, %v: tensor<1x5x2x7xf32, #vs>, %p: tensor<1x5xi32, #bs2>, %s: tensor<2x3xf32, #hs>) -> tensor<2x3xf32, #hs> {
  %z, %lse0 = nn.attention %q, %k, %v, %p, %p, %s {scale = 0.5 : f64, ordered} : (tensor<1x5x2x3x4xf32, #qs>, tensor<1x5x2x4xf32, #kv>, tensor<1x5x2x7xf32, #vs>, tensor<1x5xi32, #bs2>, tensor<1x5xi32, #bs2>, tensor<2x3xf32, #hs>) -> (tensor<1x5x2x3x7xf32, #ys>, tensor<1x5x2x3xf32, #ls>)
  %y, %lse = nn.attention %q, %k, %v, %s {scale = 0.5 : f64} : (tensor<1x5x2x3x4xf32, #qs>, tensor<1x5x2x4xf32, #kv>, tensor<1x5x2x7xf32, #vs>, tensor<2x3xf32, #hs>) -> (tensor<1x5x2x3x7xf32, #ys>, tensor<1x5x2x3xf32, #ls>)
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %y, %lse, %y {scale = 0.5 : f64} : (tensor<1x5x2x3x4xf32, #qs>, tensor<1x5x2x4xf32, #kv>, tensor<1x5x2x7xf32, #vs>, tensor<1x5x2x3x7xf32, #ys>, tensor<1x5x2x3xf32, #ls>, tensor<1x5x2x3x7xf32, #ys>) -> (tensor<1x5x2x3x4xf32, #qs>, tensor<1x5x2x4xf32, #kv>, tensor<1x5x2x7xf32, #vs>)
  %ds = nn.attention_sink_grad %s, %lse, %lse : (tensor<2x3xf32, #hs>, tensor<1x5x2x3xf32, #ls>, tensor<1x5x2x3xf32, #ls>) -> tensor<2x3xf32, #hs>
  return %ds : tensor<2x3xf32, #hs>
}
