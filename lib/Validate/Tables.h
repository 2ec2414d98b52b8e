//===- Tables.h - The three kinds of tables ---------------------------------===//
#pragma once

#include "cleave/Validate/Validate.h"
#include "lib/Validate/Csv.h"

namespace cleave::validate {

rt::Status compareSteps(const Table &table, const std::string &share, Report &report);
rt::Status compareCollectives(const Table &table, const std::string &share, Report &report);
rt::Status compareKernels(const Table &table, const std::string &share, Report &report);

} // namespace cleave::validate
