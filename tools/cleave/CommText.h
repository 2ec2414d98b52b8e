//===- CommText.h - A step's communication for people and scripts ------------===//
//
// What `--emit=comm` prints.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Nodes.h"
#include "cleave/Target/Image/Traffic.h"
#include "runtime/Base/Json.h"

#include <string>

namespace cleave::tool {

/// The exchanges of a step of `ranks` ranks, the largest first, behind totals over all
/// ranks for each kind and each set of axes. Of several nodes also where ranks stand, and what
/// crosses nodes.
std::string communicationText(const std::vector<TrafficRow> &rows, int64_t ranks,
                              const Nodes &nodes);

/// The same as a value, rows in the order of the program.
void writeCommunicationJson(rt::JsonWriter &out, const std::vector<TrafficRow> &rows, int64_t ranks,
                            const Nodes &nodes);

} // namespace cleave::tool
