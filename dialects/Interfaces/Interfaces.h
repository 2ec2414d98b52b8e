//===- Interfaces.h - What an operator says about itself -------------------===//
//
// The C++ side of Interfaces.td. Include this to implement or to use an
// operator interface.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Interfaces/HostTensor.h"
#include "dialects/Interfaces/ShardingRule.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "dialects/Interfaces/Interfaces.h.inc"
