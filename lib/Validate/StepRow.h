//===- StepRow.h - What a row of steps asks to be predicted -----------------===//
#pragma once

#include "cleave/CostModel/Prediction.h"
#include "lib/Validate/Csv.h"

namespace cleave::validate {

/// Why a row can't be predicted; empty: it can. A row needs a measured step, tokens and
/// layout; precision and recomputation are as stated, or what its framework does by default.
std::string whyLeftOut(const Row &row);

/// The row's model as a config.json of a family that has its operators.
std::string configOf(const Row &row);

/// The name of the row's host profile, from its framework; its own kernel of attention where it
/// names one.
rt::StatusOr<cost::HostProfile> hostOf(const Row &row, const std::string &share);
/// The row's device, with the links, network and power that it states.
rt::StatusOr<cost::Device> deviceOf(const Row &row, const std::string &share);
cost::Layout layoutOf(const Row &row);

/// The file of share/hardware for a class of devices ("H100"); empty: there is none.
std::string deviceName(const std::string &gpuClass, const std::string &gpu);

/// What the row's counter of memory would show for `bytes` of tensors; nothing where the
/// row names no counter.
std::optional<double> shownMemory(const Row &row, cost::Bytes bytes);
std::optional<double> measuredMemory(const Row &row);

} // namespace cleave::validate
