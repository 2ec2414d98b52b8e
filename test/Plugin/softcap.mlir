// RUN: cleave-opt %s --load-dialect-plugin=%plugins/SoftCap.so | cleave-opt --load-dialect-plugin=%plugins/SoftCap.so | FileCheck %s
// RUN: cleave-opt %s --load-dialect-plugin=%plugins/SoftCap.so --cleave-interpret | FileCheck %s --check-prefix=VALUE
// RUN: not cleave-opt %s 2>&1 | FileCheck %s --check-prefix=WITHOUT
// RUN: sed 's/cap = 2.0/cap = 0.0/' %s | not cleave-opt --load-dialect-plugin=%plugins/SoftCap.so 2>&1 | FileCheck %s --check-prefix=ZERO

// WITHOUT: error: Dialect `ext' not found for custom op 'ext.softcap'
// ZERO: error: 'ext.softcap' op needs a cap above zero

// CHECK-LABEL: @main
// CHECK: ext.softcap %{{.*}} {cap = 2.000000e+00 : f64} : tensor<3xf32, #{{.*}}>

// 2·tanh(x/2) at 0, 1 and −100.
// VALUE: -> (tensor<3xf32, #{{.*}}> {cleave.value = [dense<[0.000000e+00, 0.92423431452001{{[0-9]*}}, -2.000000e+00]> : tensor<3xf64>]})

func.func @main(%x: tensor<3xf32, #nn.dims<model>> {cleave.value = dense<[0.0, 1.0, -100.0]> : tensor<3xf32>}) -> tensor<3xf32, #nn.dims<model>> {
  %y = ext.softcap %x {cap = 2.0 : f64} : tensor<3xf32, #nn.dims<model>>
  return %y : tensor<3xf32, #nn.dims<model>>
}
