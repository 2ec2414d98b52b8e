//===- Collectives.h - The time of one exchange ----------------------------===//
//
// Latency and bandwidth, with a term for the way up to full bandwidth. A group lies in
// one domain of links or in several; between domains it is at least as slow as inside.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Hardware.h"

namespace cleave::cost {

/// Ranks that exchange: `perDomain` of them are joined by links.
struct Group {
  int64_t ranks = 1, perDomain = 1;
};

/// `bytes` is the larger buffer of a rank, as nccl-tests count.
Seconds exchangeTime(const Device &device, Exchange kind, Group group, Bytes bytes);

/// One message to a neighbour, through the network or inside a domain.
Seconds sendTime(const Device &device, bool insideDomain, Bytes bytes);

} // namespace cleave::cost
