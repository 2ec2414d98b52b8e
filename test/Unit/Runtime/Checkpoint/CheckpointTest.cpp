// Any layout to any layout; damage is noticed and passed over.
#include "test/Unit/Runtime/Checkpoint/SavedState.h"
#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

using namespace cleave::rt;

namespace {

const std::vector<std::vector<Box>> whole = {{Box::whole({7, 6})}};
const std::vector<std::vector<Box>> byRows = {{{{0, 0}, {4, 6}}}, {{{4, 0}, {3, 6}}}};
const std::vector<std::vector<Box>> byColumns = {
    {{{0, 0}, {7, 2}}}, {{{0, 2}, {7, 2}}}, {{{0, 4}, {7, 2}}}, {{{0, 6}, {7, 0}}}};
const std::vector<std::vector<Box>> flat = {boxesOfFlatRange({7, 6}, 0, 17),
                                            boxesOfFlatRange({7, 6}, 17, 42)};

ToyRun trained(int steps) {
  ToyRun run;
  for (int i = 0; i < steps; ++i)
    run.train();
  return run;
}

CheckpointSearch search(const TemporaryFolder &folder) {
  StatusOr<CheckpointSearch> found = findNewestCheckpoint(folder.path());
  EXPECT_TRUE(found.ok());
  return std::move(*found);
}

TEST(Checkpoint, AnyLayoutReadsAsAnyOther) {
  const ToyRun run = trained(3);
  for (const auto &layout : {whole, byRows, byColumns, flat}) {
    TemporaryFolder folder;
    const Status saved = run.save(folder.path(), layout);
    ASSERT_TRUE(saved.ok()) << renderText(saved.error());
    CheckpointSearch found = search(folder);
    ASSERT_TRUE(found.newest);
    EXPECT_TRUE(found.skipped.empty());
    EXPECT_EQ(found.newest->state().step, 3u);
    EXPECT_EQ(found.newest->state().samples, 12u);
    EXPECT_EQ(found.newest->state().seed, 0xFFFFFFFFFFFFFFFF);
    EXPECT_EQ(found.newest->state().ranks, layout.size());
    EXPECT_EQ(found.newest->state().planHash, "plan");
    EXPECT_EQ(found.newest->state().recipe.find("seed")->integer(), 1);
    ToyRun loaded;
    ASSERT_TRUE(loaded.load(*found.newest).ok());
    EXPECT_EQ(loaded.state, run.state);
    std::mt19937 random(1);
    for (int round = 0; round < 50; ++round) {
      Box box{{int64_t(random() % 7), int64_t(random() % 6)}, {0, 0}};
      box.extent = {1 + int64_t(random() % (7 - box.offset[0])),
                    1 + int64_t(random() % (6 - box.offset[1]))};
      std::vector<float> out(box.volume(), NAN);
      ASSERT_TRUE(found.newest->readBox("w", StateKind::SecondMoment, {7, 6}, box, out).ok());
      for (int64_t i = 0; i < box.extent[0]; ++i)
        for (int64_t j = 0; j < box.extent[1]; ++j)
          ASSERT_EQ(out[i * box.extent[1] + j],
                    run.state[2][(box.offset[0] + i) * 6 + box.offset[1] + j]);
    }
  }
}

TEST(Checkpoint, MissingStateAndShapesAreNamed) {
  TemporaryFolder folder;
  ASSERT_TRUE(trained(1).save(folder.path(), byRows).ok());
  const CheckpointSearch found = search(folder);
  std::vector<float> out(42);
  const Status missing =
      found.newest->readBox("v", StateKind::FirstMoment, {7, 6}, Box::whole({7, 6}), out);
  EXPECT_EQ(missing.error().kind, "checkpoint.missing_state");
  EXPECT_NE(missing.error().message.find("moment1 of 'v'"), std::string::npos);
  EXPECT_EQ(found.newest->readBox("w", StateKind::Parameter, {6, 7}, Box::whole({6, 7}), out)
                .error()
                .kind,
            "checkpoint.shape_mismatch");
}

TEST(Checkpoint, RefusesToPublishHolesAndOverlaps) {
  TemporaryFolder folder;
  const ToyRun run = trained(2);
  const Status hole = run.save(folder.path(), {{{{0, 0}, {4, 6}}}, {{{5, 0}, {2, 6}}}});
  EXPECT_EQ(hole.error().kind, "checkpoint.incomplete");
  const Status twice = run.save(folder.path(), {{{{0, 0}, {4, 6}}}, {{{3, 0}, {4, 6}}}});
  EXPECT_EQ(twice.error().kind, "checkpoint.incomplete");
  EXPECT_FALSE(search(folder).newest);
  EXPECT_EQ(search(folder).skipped.size(), 1u);
  abandonSave({folder.path(), 2, 0, 2, {}});
  EXPECT_TRUE(search(folder).skipped.empty());
}

TEST(Checkpoint, TheNewestWholeOneIsTaken) {
  TemporaryFolder folder;
  for (int steps : {9, 10, 100})
    ASSERT_TRUE(trained(steps).save(folder.path(), byRows).ok());
  EXPECT_EQ(search(folder).newest->state().step, 100u);
  // A flipped bit in the data of the newest, a cut shard in the next.
  const std::string data = folder.file("step-100/shard-00001-of-00002.safetensors");
  {
    std::fstream file(data, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('\x55');
  }
  EXPECT_EQ(search(folder).newest->state().step, 10u);
  EXPECT_EQ(search(folder).skipped.at(0).reason.kind, "checkpoint.bad_shard");
  std::filesystem::resize_file(folder.file("step-10/shard-00000-of-00002.safetensors"), 100);
  const CheckpointSearch found = search(folder);
  EXPECT_EQ(found.newest->state().step, 9u);
  EXPECT_EQ(found.skipped.size(), 2u);
  std::filesystem::resize_file(folder.file("step-9/manifest.json"), 300);
  EXPECT_FALSE(search(folder).newest);
  EXPECT_EQ(search(folder).skipped.at(2).reason.kind, "checkpoint.bad_manifest");
}

TEST(Checkpoint, NoFolderIsNoCheckpoint) {
  TemporaryFolder folder;
  const StatusOr<CheckpointSearch> found = findNewestCheckpoint(folder.file("none"));
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->newest);
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  TemporaryFolder folder;
  ToyRun run = trained(5);
  ASSERT_TRUE(run.save(folder.path(), byRows).ok());
  run.state[0][0] = 123;
  ASSERT_TRUE(run.save(folder.path(), whole).ok());
  CheckpointSearch found = search(folder);
  EXPECT_TRUE(found.skipped.empty());
  ToyRun loaded;
  ASSERT_TRUE(loaded.load(*found.newest).ok());
  EXPECT_EQ(loaded.state[0][0], 123.0f);
}

TEST(Manifest, EditsAreNoticed) {
  TemporaryFolder folder;
  ASSERT_TRUE(trained(5).save(folder.path(), byRows).ok());
  const std::string path = folder.file("step-5/manifest.json");
  const std::string good = *readWholeFile(path);
  ASSERT_TRUE(parseManifest(good, path).ok());
  std::mt19937 random(4);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    const size_t at = random() % text.size();
    const char before = text[at];
    text[at] = static_cast<char>(random());
    if (text[at] != before && parseManifest(text, path).ok())
      ++accepted;
  }
  // Only white space can change unnoticed.
  EXPECT_LT(accepted, 60);
  std::string newer = good;
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_EQ(parseManifest(newer, path).error().kind, "checkpoint.version_unsupported");
}

TEST(CheckpointWriter, FullDisksAndBadFoldersAreErrorsOfTheSave) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomically(folder.file("plain"), "x").ok());
  const Status status = trained(1).save(folder.file("plain"), whole);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, "checkpoint.write_failed");
  EXPECT_EQ(status.error().exitCode, ExitCode::Run);
}

} // namespace
