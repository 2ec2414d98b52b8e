//===- PipeText.h - A pipeline's schedule for people and scripts -------------===//
//
// What `--emit=pipe` adds to the dialect's text.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/Base/Json.h"

#include <string>

namespace cleave::tool {

/// Comments that draw the `pipe.schedule` in `module`, as if all stages took equal
/// times, and say what it takes: time, share that is bubble, slots of each rank; and, with
/// `surveys`, that all micro-batches go forward before it.
std::string drawnSchedule(mlir::ModuleOp module, bool surveys);

/// The same as a value: sizes, and each computation with its rank and time.
void writeScheduleJson(rt::JsonWriter &out, mlir::ModuleOp module, bool surveys);

} // namespace cleave::tool
