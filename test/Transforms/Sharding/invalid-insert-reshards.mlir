// RUN: cleave-opt %s -split-input-file -verify-diagnostics -cleave-sharding-insert-reshards

// expected-error@below {{has 0 meshes}}
module {
  func.func @no_mesh() { return }
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
// expected-error@below {{'func.func' op does not say where argument 0 lies; run cleave-sharding-propagate first}}
func.func @not_propagated(%x: tensor<6xf32, #m>) { return }

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func @half(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]]>}) {
  // expected-error@below {{'nn.relu' op has no 'dist.in'; run cleave-sharding-propagate first}}
  %y = nn.relu %x : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func @no_out(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]]>}) {
  // expected-error@below {{'nn.relu' op has no 'dist.out'; run cleave-sharding-propagate first}}
  %y = nn.relu %x {dist.in = [#dist.sharding<[[]]>]} : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func @count(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]]>}) {
  // expected-error@below {{'nn.relu' op needs 1 shardings in 'dist.in'}}
  %y = nn.relu %x {dist.in = []} : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return
}
