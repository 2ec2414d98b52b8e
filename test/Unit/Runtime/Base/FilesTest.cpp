// Mappings, atomic publication and checksums.
#include "runtime/Base/Files.h"

#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

using namespace cleave::rt;

namespace {

std::span<const std::byte> bytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// One bit at a time, from the definition.
uint32_t slowCrc32c(std::string_view text) {
  uint32_t crc = ~0u;
  for (unsigned char byte : text)
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t mixed = (crc ^ (byte >> bit)) & 1;
      crc = crc >> 1 ^ (mixed ? 0x82F63B78u : 0);
    }
  return ~crc;
}

TEST(Checksum, MatchesTheDefinitionAndComposes) {
  EXPECT_EQ(crc32c(bytesOf("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  std::mt19937 random(1);
  for (size_t size : {1, 7, 8, 9, 63, 1000, 4097}) {
    std::string text(size, '\0');
    for (char &c : text)
      c = static_cast<char>(random());
    EXPECT_EQ(crc32c(bytesOf(text)), slowCrc32c(text));
    const size_t cut = random() % size;
    EXPECT_EQ(crc32c(bytesOf(text).subspan(cut), crc32c(bytesOf(text).first(cut))),
              slowCrc32c(text));
  }
}

TEST(Files, AtomicWritesAppearWholeOrNotAtAll) {
  TemporaryFolder folder;
  const std::string path = folder.file("out.bin");
  {
    StatusOr<AtomicFileWriter> writer = AtomicFileWriter::create(path);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->append("lost").ok());
    // Dropped without commit.
  }
  EXPECT_TRUE(listFolder(folder.path())->empty());
  StatusOr<AtomicFileWriter> writer = AtomicFileWriter::create(path);
  ASSERT_TRUE(writer.ok());
  std::string expected;
  for (int i = 0; i < 3; ++i) {
    const std::string piece(700'000 * (i + 1), static_cast<char>('a' + i));
    ASSERT_TRUE(writer->append(piece).ok());
    expected += piece;
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(writer->bytesWritten(), expected.size());
  EXPECT_EQ(*readWholeFile(path), expected);
  EXPECT_EQ(listFolder(folder.path())->size(), 1u);
}

TEST(Files, MapsFilesIncludingEmptyOnes) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomically(folder.file("a"), "hello").ok());
  ASSERT_TRUE(writeFileAtomically(folder.file("empty"), "").ok());
  StatusOr<MappedFile> mapped = MappedFile::open(folder.file("a"));
  ASSERT_TRUE(mapped.ok());
  MappedFile moved = std::move(*mapped);
  EXPECT_EQ(crc32c(moved.bytes()), crc32c(bytesOf("hello")));
  EXPECT_EQ(MappedFile::open(folder.file("empty"))->size(), 0u);
}

TEST(Files, FailuresAreLocatedAndTyped) {
  TemporaryFolder folder;
  EXPECT_EQ(readWholeFile(folder.file("absent")).error().kind, "file.read_failed");
  EXPECT_EQ(readWholeFile(folder.file("absent")).error().exitCode, ExitCode::User);
  EXPECT_EQ(MappedFile::open(folder.path()).error().kind, "file.read_failed");
  const StatusOr<AtomicFileWriter> writer =
      AtomicFileWriter::create(folder.file("no/such/folder"), "checkpoint.write_failed");
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error().kind, "checkpoint.write_failed");
  EXPECT_NE(writer.error().message.find("no/such/folder"), std::string::npos);
}

} // namespace
