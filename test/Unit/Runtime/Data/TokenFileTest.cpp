// Layouts, widths and every way a token file can be wrong (H01, H03).
#include "runtime/Data/TokenFile.h"

#include "test/Unit/Runtime/Data/TokenBytes.h"
#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

std::vector<int32_t> readAll(const TokenFile &file, uint64_t vocabulary = 1 << 20) {
  std::vector<int32_t> out(file.size(), -7);
  const Status status = file.read(0, out, vocabulary);
  EXPECT_TRUE(status.ok()) << renderText(status.error());
  return out;
}

std::string kindOf(const StatusOr<TokenFile> &file) { return file.ok() ? "" : file.error().kind; }

TEST(TokenFile, ReadsRawFilesOfEveryWidth) {
  TemporaryFolder folder;
  put(folder.file("a8"), bytesOf<uint8_t>({1, 255, 3}));
  put(folder.file("a16"), bytesOf<uint16_t>({1, 65535, 3}));
  put(folder.file("a32"), bytesOf<uint32_t>({1, 128255, 3}));
  EXPECT_EQ(readAll(*TokenFile::open(folder.file("a8"), 8)), (std::vector<int32_t>{1, 255, 3}));
  EXPECT_EQ(readAll(*TokenFile::open(folder.file("a16"))), (std::vector<int32_t>{1, 65535, 3}));
  EXPECT_EQ(readAll(*TokenFile::open(folder.file("a32"), 32)),
            (std::vector<int32_t>{1, 128255, 3}));
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("a16"), 12)), "data.format_unsupported");
}

TEST(TokenFile, ReadsLlmCFiles) {
  TemporaryFolder folder;
  put(folder.file("gpt2.bin"), llmcHeader(20240520, 1, 3) + bytesOf<uint16_t>({50256, 0, 40000}));
  put(folder.file("llama.bin"), llmcHeader(20240801, 7, 2) + bytesOf<uint32_t>({128000, 5}));
  const StatusOr<TokenFile> gpt2 = TokenFile::open(folder.file("gpt2.bin"), 8);
  ASSERT_TRUE(gpt2.ok());
  EXPECT_EQ(gpt2->format(), TokenFormat::LlmC);
  EXPECT_EQ(readAll(*gpt2), (std::vector<int32_t>{50256, 0, 40000}));
  EXPECT_EQ(readAll(*TokenFile::open(folder.file("llama.bin"))), (std::vector<int32_t>{128000, 5}));
}

TEST(TokenFile, RefusesDamagedLlmCFiles) {
  TemporaryFolder folder;
  put(folder.file("cut"), llmcHeader(20240520, 1, 3) + bytesOf<uint16_t>({1, 2}));
  put(folder.file("long"), llmcHeader(20240520, 1, 1) + bytesOf<uint16_t>({1, 2}));
  put(folder.file("header"), llmcHeader(20240520, 1, 1).substr(0, 100));
  put(folder.file("version"), llmcHeader(20240520, 2, 1) + bytesOf<uint16_t>({1}));
  put(folder.file("eval"), llmcHeader(20240522, 1, 1) + bytesOf<uint16_t>({1}));
  put(folder.file("none"), llmcHeader(20240520, 1, 0));
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("cut"))), "data.truncated");
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("long"))), "data.index_mismatch");
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("header"))), "data.truncated");
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("version"))), "data.format_unsupported");
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("eval"))), "data.format_unsupported");
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("none"))), "data.empty");
}

TEST(TokenFile, ReadsMegatronPairsByEitherName) {
  TemporaryFolder folder;
  const std::vector<int32_t> ids = {5, 6, 7, 8, 9};
  put(folder.file("d.bin"), bytesOf(ids));
  put(folder.file("d.idx"), megatronIndex(4, {2, 3}, {0, 8}));
  for (const char *name : {"d.bin", "d.idx", "d"}) {
    const StatusOr<TokenFile> file = TokenFile::open(folder.file(name));
    ASSERT_TRUE(file.ok()) << name << renderText(file.error());
    EXPECT_EQ(file->format(), TokenFormat::Megatron);
    EXPECT_EQ(readAll(*file), ids);
  }
}

TEST(TokenFile, MegatronOrderIsTheIndexOrder) {
  TemporaryFolder folder;
  put(folder.file("d.bin"), bytesOf<uint16_t>({1, 2, 3, 4, 5, 6}));
  // Stored backwards, with an empty sequence between.
  put(folder.file("d.idx"), megatronIndex(8, {2, 0, 1, 3}, {8, 0, 6, 0}));
  const StatusOr<TokenFile> file = TokenFile::open(folder.file("d.bin"));
  ASSERT_TRUE(file.ok()) << renderText(file.error());
  const std::vector<int32_t> expected = {5, 6, 4, 1, 2, 3};
  EXPECT_EQ(readAll(*file), expected);
  for (size_t first = 0; first < 6; ++first)
    for (size_t count = 0; first + count <= 6; ++count) {
      std::vector<int32_t> out(count, -1);
      ASSERT_TRUE(file->read(first, out, 100).ok());
      EXPECT_TRUE(std::equal(out.begin(), out.end(), expected.begin() + first));
    }
}

TEST(TokenFile, RefusesIndexesThatDoNotFitTheData) {
  TemporaryFolder folder;
  put(folder.file("d.bin"), bytesOf<uint16_t>({1, 2, 3, 4}));
  auto withIndex = [&](const std::string &index) {
    put(folder.file("d.idx"), index);
    return TokenFile::open(folder.file("d.bin"));
  };
  const StatusOr<TokenFile> beyond = withIndex(megatronIndex(8, {2, 3}, {0, 4}));
  EXPECT_EQ(kindOf(beyond), "data.index_mismatch");
  EXPECT_NE(beyond.error().message.find("byte 10 of a data file of 8"), std::string::npos);
  EXPECT_EQ(kindOf(withIndex(megatronIndex(8, {2, 1}, {0, 4}))), "data.index_mismatch");
  EXPECT_EQ(kindOf(withIndex(megatronIndex(8, {-1}, {0}))), "data.index_mismatch");
  EXPECT_EQ(kindOf(withIndex(megatronIndex(8, {4}, {INT64_MAX}))), "data.index_mismatch");
  EXPECT_EQ(kindOf(withIndex(megatronIndex(7, {2}, {0}))), "data.format_unsupported");
  EXPECT_EQ(kindOf(withIndex("nonsense that is long enough to be a header")),
            "data.format_unsupported");
  EXPECT_EQ(kindOf(withIndex("MMIDIDX")), "data.truncated");
  std::string huge = megatronIndex(8, {4}, {0});
  const uint64_t count = UINT64_MAX / 4;
  std::memcpy(huge.data() + 18, &count, 8);
  EXPECT_EQ(kindOf(withIndex(huge)), "data.truncated");
}

TEST(TokenFile, RefusesCutAndEmptyFiles) {
  TemporaryFolder folder;
  put(folder.file("cut"), std::string(4 * 10 + 2, 'x'));
  put(folder.file("empty"), "");
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("cut"), 32)), "data.truncated");
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("empty"))), "data.empty");
  EXPECT_EQ(kindOf(TokenFile::open(folder.file("absent"))), "file.read_failed");
}

TEST(TokenFile, WidthIsCheckedAgainstTheVocabulary) {
  TemporaryFolder folder;
  put(folder.file("a16"), bytesOf<uint16_t>({1, 2}));
  const StatusOr<TokenFile> file = TokenFile::open(folder.file("a16"));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->checkVocabulary(65536).ok());
  const Status status = file->checkVocabulary(128256);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, "data.width_too_small");
  put(folder.file("m.bin"), bytesOf<int16_t>({1, 2}));
  put(folder.file("m.idx"), megatronIndex(3, {2}, {0}));
  EXPECT_FALSE(TokenFile::open(folder.file("m.bin"))->checkVocabulary(40000).ok());
}

TEST(TokenFile, IdsAreCheckedWhenRead) {
  TemporaryFolder folder;
  put(folder.file("a16"), bytesOf<uint16_t>({1, 2, 300, 4}));
  const StatusOr<TokenFile> file = TokenFile::open(folder.file("a16"));
  std::vector<int32_t> out(2);
  EXPECT_TRUE(file->read(0, out, 257).ok());
  const Status status = file->read(1, out, 257);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, "data.token_out_of_range");
  EXPECT_NE(status.error().message.find("token 2 of"), std::string::npos);
  put(folder.file("m.bin"), bytesOf<int32_t>({1, -2}));
  put(folder.file("m.idx"), megatronIndex(4, {2}, {0}));
  EXPECT_EQ(TokenFile::open(folder.file("m"))->read(0, out, 257).error().kind,
            "data.token_out_of_range");
}

} // namespace
