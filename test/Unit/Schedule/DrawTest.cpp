//===- DrawTest.cpp - Schedules as text ------------------------------------===//

#include "cleave/Schedule/Schedule.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

std::string draw(llvm::StringRef name, PipelineShape shape, int64_t width = 200) {
  const pipe::Table table = makeTable(*findSchedule(name), shape);
  return drawSchedule(table, playOut(table, pipe::equalTimes(table.hasWeightGradients())), width);
}

TEST(Draw, OneForwardOneBackward) {
  EXPECT_EQ(draw("1f1b", {2, 2, 3}), "rank 0  FF..BBFBB.BB\n"
                                     "micro   01  00211 22\n"
                                     "rank 1  .FBBFBBFBB..\n"
                                     "micro    000111222\n");
}

TEST(Draw, SeveralStages) {
  EXPECT_EQ(draw("interleaved", {1, 2, 1}), "rank 0  FFBBBB\n"
                                            "micro   000000\n"
                                            "stage   011100\n");
}

TEST(Draw, WhatIsLeftOutIsSaid) {
  EXPECT_EQ(draw("gpipe", {1, 1, 3}, 4), "rank 0  FFFB\n"
                                         "micro   0120\n"
                                         "(the first 4 of 9 units of time)\n");
}

} // namespace
} // namespace cleave
