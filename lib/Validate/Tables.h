//===- Tables.h - The three kinds of tables ---------------------------------===//
#pragma once

#include "cleave/CostModel/Prediction.h"
#include "cleave/Validate/Validate.h"
#include "lib/Validate/Csv.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace cleave::validate {

rt::Status compareSteps(const Table &table, const std::string &share, Report &report);
rt::Status compareCollectives(const Table &table, const std::string &share, Report &report);
rt::Status compareKernels(const Table &table, const std::string &share, Report &report);

/// Names and amounts of what `prediction` is made of.
void addParts(const cost::Prediction &prediction, Comparison &out);

/// Compares single kernels or exchanges, each on its device: rows of which `whyNot` says nothing.
/// `compare` fills in what is measured, predicted and compared.
using WhyNot = llvm::function_ref<std::string(const Row &)>;
using Compare = llvm::function_ref<void(const Row &, const cost::Device &, Comparison &)>;
rt::Status compareRows(const Table &table, const std::string &share, WhyNot whyNot, Compare compare,
                       Report &report);

} // namespace cleave::validate
