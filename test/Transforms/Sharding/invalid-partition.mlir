// RUN: cleave-opt %s -split-input-file -verify-diagnostics -cleave-partition

// expected-error@below {{has 0 meshes}}
module {
  func.func @no_mesh() { return }
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func @not_propagated(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]]>}) {
  // expected-error@below {{'nn.relu' op has no 'dist.in'; run cleave-sharding-propagate first}}
  %y = nn.relu %x : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func @no_reshards(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor]]>}) {
  // expected-error@below {{'nn.relu' op needs operand 0 as #dist.sharding<[[]]>, which lies as #dist.sharding<[[tensor]]>; run cleave-sharding-insert-reshards first}}
  %y = nn.relu %x {dist.in = [#dist.sharding<[[]]>], dist.out = [#dist.sharding<[[]]>]} : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
// expected-error@below {{'func.func' op needs static shapes; run cleave-sizes-specialize first}}
func.func @dynamic(%x: tensor<?xf32, #m> {dist.sharding = #dist.sharding<[[tensor]]>}) { return }

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func @return(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor]]>}) -> (tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]]>}) {
  // expected-error@below {{'func.return' op and @return disagree on value 0 of 'dist.in': #dist.sharding<[[tensor]]> and #dist.sharding<[[]]>}}
  return {dist.in = [#dist.sharding<[[tensor]]>]} %x : tensor<6xf32, #m>
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func private @callee(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[]]>}) { return }
func.func @caller(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor]]>}) {
  // expected-error@below {{'func.call' op and @callee disagree on value 0 of 'dist.in'}}
  func.call @callee(%x) {dist.in = [#dist.sharding<[[tensor]]>]} : (tensor<6xf32, #m>) -> ()
  return
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func @reshard(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor]]>}) {
  // expected-error@below {{'dist.reshard' op names an axis that the mesh has not: "data"}}
  %y = dist.reshard %x <[[tensor]]> to <[[data]]> : tensor<6xf32, #m>
  return
}
