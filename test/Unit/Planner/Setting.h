//===- Setting.h - What a search is about --------------------------------------===//
#pragma once

#include "cleave/Frontend/Model.h"
#include "cleave/Planner/Search.h"
#include <gtest/gtest.h>

namespace cleave {

/// A model with devices and software, as the search sees them.
class Setting {
public:
  Setting(const std::string &config, const std::string &deviceName, const std::string &hostName)
      : context(mlir::MLIRContext::Threading::DISABLED) {
    auto description = frontend::readModelText(config, "config.json");
    EXPECT_TRUE(description.ok()) << rt::renderText(description.status().error());
    module = frontend::importModel(*description, context);
    work = *cost::workOf(*module);
    device = *cost::readDevice(CLEAVE_SHARE, deviceName);
    host = *cost::readHostProfile(CLEAVE_SHARE, hostName);
    limits = limitsOf(*module);
  }

  SearchProblem problem(int64_t ranks, int64_t batch, int64_t sequence, double memory = 0,
                        int64_t node = 8) const {
    SearchProblem out{work, device, host, limits, {}, {}, memory, node};
    out.request.ranks = ranks;
    out.request.globalBatch = batch;
    out.request.sequence = sequence;
    out.request.narrow = true;
    return out;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  cost::ModelWork work;
  cost::Device device;
  cost::HostProfile host;
  ModelLimits limits;
};

} // namespace cleave
