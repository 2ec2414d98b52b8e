//===- Play.h - A pipeline's table, played ---------------------------------===//
#pragma once

#include "cleave/Verify/Training.h"

namespace cleave {

/// Plays all forwards and backwards of a step on the places, in the order of the table. An
/// error where an entry fails or the table stands still.
rt::Status playSchedule(const pipe::Table &table, std::vector<std::unique_ptr<Part>> &parts,
                        BatchSource batch);

/// Takes a micro-batch through `survey` of the stages that have one, which are the first.
rt::Status playSurvey(std::vector<std::unique_ptr<Part>> &parts, int64_t micro, BatchSource batch);

} // namespace cleave
