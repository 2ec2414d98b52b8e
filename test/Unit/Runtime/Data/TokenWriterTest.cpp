// Byte tokens, refused ids, atomic output.
#include "runtime/Data/TokenWriter.h"

#include "runtime/Data/TokenFile.h"
#include "test/Unit/Runtime/Data/TokenBytes.h"
#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

TEST(TokenWriter, BytesOfFilesWithTheirEnds) {
  TemporaryFolder folder;
  put(folder.file("x"), std::string("A\0\xFF", 3));
  put(folder.file("empty"), "");
  put(folder.file("large"), std::string(200'000, 'z'));
  const std::string out = folder.file("t.bin");
  const StatusOr<ByteTokenSummary> summary =
      writeByteTokens({folder.file("x"), folder.file("empty"), folder.file("large")}, out);
  ASSERT_TRUE(summary.ok()) << renderText(summary.error());
  EXPECT_EQ(summary->documents, 3u);
  EXPECT_EQ(summary->tokens, 3u + 200'000 + 3);
  const StatusOr<TokenFile> file = TokenFile::open(out);
  ASSERT_EQ(file->size(), summary->tokens);
  std::vector<int32_t> ids(file->size());
  ASSERT_TRUE(file->read(0, ids, 257).ok());
  EXPECT_EQ((std::vector<int32_t>(ids.begin(), ids.begin() + 6)),
            (std::vector<int32_t>{65, 0, 255, 256, 256, 'z'}));
  EXPECT_EQ(ids.back(), 256);
}

TEST(TokenWriter, RefusesWhatDoesNotFitAndLeavesNothing) {
  TemporaryFolder folder;
  put(folder.file("x"), "abc");
  const std::string out = folder.file("t.bin");
  const StatusOr<ByteTokenSummary> summary =
      writeByteTokens({folder.file("x")}, out, {.endOfDocument = 70000});
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().kind, "data.id_too_large");
  EXPECT_NE(summary.error().message.find("token 3 has id 70000"), std::string::npos);
  EXPECT_EQ(*listFolder(folder.path()), std::vector<std::string>{"x"});
  EXPECT_EQ(writeByteTokens({folder.file("gone")}, out).error().kind, "file.read_failed");
  EXPECT_EQ(writeByteTokens({}, out).error().kind, "data.empty");
}

TEST(TokenWriter, WidthsRoundTrip) {
  TemporaryFolder folder;
  for (unsigned bits : {8u, 16u, 32u}) {
    const std::string path = folder.file("w" + std::to_string(bits));
    StatusOr<TokenWriter> writer = TokenWriter::create(path, bits);
    const int64_t largest = std::min<int64_t>((int64_t{1} << bits) - 1, INT32_MAX);
    const std::vector<int64_t> ids = {0, 1, largest};
    ASSERT_TRUE(writer->append(ids).ok());
    EXPECT_FALSE(writer->append(std::vector<int64_t>{int64_t{1} << bits}).ok());
    EXPECT_FALSE(writer->append(std::vector<int64_t>{-1}).ok());
    ASSERT_TRUE(writer->commit().ok());
    std::vector<int32_t> out(3);
    ASSERT_TRUE(TokenFile::open(path, bits)->read(0, out, uint64_t{1} << 32).ok());
    EXPECT_EQ(out[2], largest);
  }
}

} // namespace
