// E01: killed at six moments of the second save, a run resumes from the newest
// complete checkpoint and ends exactly where an uninterrupted one does.
#include "test/Unit/Runtime/Checkpoint/SavedState.h"
#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

using namespace cleave::rt;

namespace {

const std::vector<std::vector<Box>> twoRanks = {{{{0, 0}, {4, 6}}}, {{{4, 0}, {3, 6}}}};
constexpr int killedExit = 77;

struct KillPoint {
  const char *name;
  SavePoint point;
  uint32_t rank;
  uint64_t resumesFrom;
};

const KillPoint killPoints[] = {
    {"Before", SavePoint::Begin, 0, 5},
    {"AfterFirstShard", SavePoint::AfterShard, 0, 5},
    {"MidShard", SavePoint::MidShard, 1, 5},
    {"BeforeManifest", SavePoint::BeforeManifest, 0, 5},
    {"BeforePublish", SavePoint::BeforePublish, 0, 5},
    {"AfterPublish", SavePoint::AfterPublish, 0, 10},
};

/// Trains to step 15, saving every 5 steps; dies at `kill` of step 10's save.
void runToEnd(ToyRun &run, const std::string &folder, const KillPoint *kill) {
  while (run.step < 15) {
    run.train();
    if (run.step % 5 != 0)
      continue;
    const bool dies = kill && run.step == 10;
    const Status saved = run.save(folder, twoRanks, [&](SavePoint point, uint32_t rank) {
      if (dies && point == kill->point && rank == kill->rank)
        ::_exit(killedExit);
    });
    if (!saved.ok())
      ::_exit(1);
  }
}

class KillDuringSave : public ::testing::TestWithParam<KillPoint> {};

TEST_P(KillDuringSave, ResumesBitwise) {
  const KillPoint kill = GetParam();
  TemporaryFolder folder, undisturbed;
  ToyRun reference;
  runToEnd(reference, undisturbed.path(), nullptr);

  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ToyRun run;
    runToEnd(run, folder.path(), &kill);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), killedExit) << "the kill point was not reached";

  StatusOr<CheckpointSearch> found = findNewestCheckpoint(folder.path());
  ASSERT_TRUE(found.ok());
  ASSERT_TRUE(found->newest);
  EXPECT_EQ(found->newest->state().step, kill.resumesFrom);
  // The unfinished folder is named, once there is one.
  const bool leavesFolder = kill.point != SavePoint::Begin && kill.point != SavePoint::AfterPublish;
  ASSERT_EQ(found->skipped.size(), leavesFolder ? 1u : 0u);
  if (leavesFolder) {
    EXPECT_EQ(found->skipped[0].path, folder.file("step-10.tmp"));
    EXPECT_EQ(found->skipped[0].reason.kind, "checkpoint.unfinished");
  }

  ToyRun resumed;
  ASSERT_TRUE(resumed.load(*found->newest).ok());
  runToEnd(resumed, folder.path(), nullptr);
  EXPECT_EQ(resumed.state, reference.state);
  StatusOr<CheckpointSearch> after = findNewestCheckpoint(folder.path());
  EXPECT_EQ(after->newest->state().step, 15u);
  EXPECT_TRUE(after->skipped.empty());
}

INSTANTIATE_TEST_SUITE_P(E01, KillDuringSave, ::testing::ValuesIn(killPoints),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
