//===- HardwareCurves.h - Reading what was measured at some sizes --------------===//
#pragma once

#include "cleave/CostModel/Hardware.h"
#include "runtime/Base/ObjectReader.h"

namespace cleave::cost {

/// Each reads what stands under its keys, if there is any, and leaves errors to `in`: a list that
/// is not of numbers above 0, whose sizes do not ascend, or that has not a value for each size, is
/// `device.bad_curve`.
Curve readBandwidths(rt::ObjectReader &in, const char *key);
void readTables(rt::ObjectReader &in, ProductCurve &curve);
void readHeads(rt::ObjectReader &in, AttentionCurve &curve);
void readMeasuredLink(rt::ObjectReader &in, LinkCurve &link);
Arithmetic readArithmetic(rt::ObjectReader &in);

} // namespace cleave::cost
