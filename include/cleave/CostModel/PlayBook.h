//===- PlayBook.h - Orders of pipelines, kept ---------------------------------===//
//
// Those who predict many layouts meet the same few pipelines again and again, with other times.
// The order in which ranks compute does not depend on these, so it is made once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Schedule/Schedule.h"
#include <map>
#include <memory>
#include <string>
#include <tuple>

namespace cleave::cost {

class PlayOrder;

class PlayBook {
public:
  PlayBook();
  ~PlayBook();

  /// Holds until the next call.
  const PlayOrder &of(llvm::StringRef schedule, const PipelineShape &shape);

private:
  /// Actions of all orders together; with more of them it starts anew (16 bytes each).
  static constexpr size_t kMostActs = size_t(1) << 21;

  std::map<std::tuple<std::string, int64_t, int64_t, int64_t>, std::unique_ptr<PlayOrder>> orders;
  size_t size = 0;
};

} // namespace cleave::cost
