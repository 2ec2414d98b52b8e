//===- Pipe.h - The pipe dialect -------------------------------------------===//
//
// A pipeline's step as IR. See Pipe.td for the idea, Table.h for the same as plain
// data, and docs/Rationale/Pipe.md for the reasons.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Pipe/Table.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/Pipe/PipeDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Pipe/PipeAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Pipe/PipeOps.h.inc"
