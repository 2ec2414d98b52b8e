// B06: reading a model or a checkpoint costs no memory beyond what is copied
// out, although the files are mapped.
#include "runtime/Base/Machine.h"
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/CheckpointWriter.h"

#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

constexpr int64_t tensors = 16, rows = 1024, columns = 1024; // 4 MiB each
constexpr uint64_t allowed = 24u << 20;

std::string nameOfTensor(int64_t i) { return "t" + std::to_string(i); }

/// Saves all tensors, each filled with its number.
void saveModel(const std::string &folder) {
  std::vector<float> values(tensors * rows * columns);
  std::vector<StatePiece> pieces;
  for (int64_t i = 0; i < tensors; ++i) {
    float *data = values.data() + i * rows * columns;
    std::fill_n(data, rows * columns, static_cast<float>(i));
    pieces.push_back({nameOfTensor(i),
                      StateKind::Parameter,
                      {rows, columns},
                      Box::whole({rows, columns}),
                      data,
                      {}});
  }
  const SaveTarget target{folder, 1, 0, 1, {}};
  ASSERT_TRUE(prepareSave(target).ok());
  ASSERT_TRUE(writeShard(target, pieces).ok());
  ASSERT_TRUE(publish(target, {}).ok());
}

TEST(ReadMemory, ACheckpointIsReadTensorByTensor) {
  TemporaryFolder folder;
  saveModel(folder.path());
  std::vector<float> out(rows * columns, -1.0f);
  const uint64_t before = residentBytes();
  ASSERT_GT(before, 0u);
  uint64_t most = 0;
  const StatusOr<CheckpointSearch> found = findNewestCheckpoint(folder.path());
  ASSERT_TRUE(found.ok() && found->newest);
  most = std::max(most, residentBytes());
  for (int64_t i = 0; i < tensors; ++i) {
    ASSERT_TRUE(found->newest
                    ->readBox(nameOfTensor(i), StateKind::Parameter, {rows, columns},
                              Box::whole({rows, columns}), out)
                    .ok());
    EXPECT_EQ(out[777], static_cast<float>(i));
    most = std::max(most, residentBytes());
  }
  EXPECT_LT(most, before + allowed);
}

TEST(ReadMemory, AModelFileIsReadTensorByTensor) {
  TemporaryFolder folder;
  saveModel(folder.path());
  std::vector<float> half(rows * columns / 2, -1.0f);
  const uint64_t before = residentBytes();
  const StatusOr<TensorCollection> model =
      TensorCollection::open(folder.file("step-1/shard-00000-of-00001.safetensors"));
  ASSERT_TRUE(model.ok());
  uint64_t most = 0;
  for (int64_t i = 0; i < tensors; ++i) {
    const Box box{{0, columns / 2}, {rows, columns / 2}};
    ASSERT_TRUE(model->readBox("param:" + nameOfTensor(i), box, half).ok());
    EXPECT_EQ(half[777], static_cast<float>(i));
    most = std::max(most, residentBytes());
  }
  EXPECT_LT(most, before + allowed);
}

} // namespace
