// Mappings, atomic publication and checksums.
#include "runtime/Base/Files.h"

#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <random>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// What is not in the file any more is zeros and an error, where it would be the end of the
/// process; the other mappings, those that take its place too, are whole.
TEST(Files, MappingsOfFilesThatAreCutAreReported) {
  TemporaryFolder folder;
  const std::string text(40'000, 'x');
  for (const char *name : {"cut", "whole"})
    ASSERT_TRUE(writeFileAtomically(folder.file(name), text).ok());
  auto sumOf = [](const MappedFile &file) { return crc32c(file.bytes()); };
  StatusOr<MappedFile> whole = MappedFile::open(folder.file("whole"));
  for (int round = 0; round < 3; ++round) {
    StatusOr<MappedFile> mapped = MappedFile::open(folder.file("cut"));
    MappedFile cut = std::move(*mapped);
    EXPECT_EQ(sumOf(cut), sumOf(*whole));
    EXPECT_TRUE(cut.checkRead().ok());
    std::filesystem::resize_file(folder.file("cut"), 10'000);
    EXPECT_NE(sumOf(cut), sumOf(*whole));
    const Status status = cut.checkRead();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, "file.read_failed");
    EXPECT_NE(status.error().message.find("lost some of its 40000 bytes"), std::string::npos);
    // Not until the end of the page, and nothing before.
    EXPECT_EQ(std::to_integer<char>(cut.bytes()[9'999]), 'x');
    EXPECT_EQ(std::to_integer<char>(cut.bytes()[39'999]), 0);
    EXPECT_TRUE(whole->checkRead().ok());
    ASSERT_TRUE(writeFileAtomically(folder.file("cut"), text).ok());
  }
}

TEST(Files, OtherBusErrorsStayWhatTheyAre) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomically(folder.file("a"), std::string(9'000, 'x')).ok());
  const StatusOr<MappedFile> watched = MappedFile::open(folder.file("a"));
  ASSERT_TRUE(watched.ok());
  EXPECT_EXIT(::raise(SIGBUS), testing::KilledBySignal(SIGBUS), "");
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

TEST(Files, DevicesAndPipesAreWrittenInPlace) {
  TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  FileDescriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(writeFileAtomically(pipe, "through").ok());
  char text[16] = {};
  EXPECT_EQ(::read(reader.get(), text, sizeof text), 7);
  EXPECT_EQ(std::string(text), "through");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(listFolder(folder.path())->size(), 1u);
}

TEST(Files, LinksAreFollowed) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("inner"));
  std::filesystem::create_symlink("inner/target", folder.file("link"));
  for (const char *text : {"made", "replaced"}) {
    ASSERT_TRUE(writeFileAtomically(folder.file("link"), text).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
    EXPECT_EQ(*readWholeFile(folder.file("inner/target")), text);
  }
}

TEST(Files, PipesAreRefusedAsInputWithoutWaiting) {
  TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const Error &error : {readWholeFile(pipe).error(), MappedFile::open(pipe).error()}) {
    EXPECT_EQ(error.kind, "file.read_failed");
    EXPECT_FALSE(error.rule.empty() || error.suggestions.empty() || error.given.empty());
  }
}

TEST(Files, AFolderIsHeldByOneAtATime) {
  TemporaryFolder folder;
  {
    const auto held = lockFolder(folder.path());
    ASSERT_TRUE(held.ok() && held->has_value());
    const auto again = lockFolder(folder.path());
    ASSERT_TRUE(again.ok());
    EXPECT_FALSE(again->has_value());
  }
  EXPECT_TRUE(lockFolder(folder.path())->has_value());
}

TEST(Files, AFolderThatTakesNoFilesIsNoticed) {
  TemporaryFolder folder;
  EXPECT_TRUE(checkFolderTakesFiles(folder.file("a/b"), "export.write_failed").ok());
  EXPECT_TRUE(listFolder(folder.file("a/b"))->empty());
  ASSERT_TRUE(writeFileAtomically(folder.file("file"), "").ok());
  for (const std::string &path : {folder.file("file/below"), std::string("/proc/none")}) {
    const Status status = checkFolderTakesFiles(path, "export.write_failed");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, "export.write_failed");
    EXPECT_FALSE(status.error().rule.empty() || status.error().suggestions.empty());
  }
}

TEST(Files, ClosedStandardStreamsAreNotTakenByFiles) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int descriptor : {0, 1, 2})
      ::close(descriptor);
    keepStandardStreamsOpen();
    TemporaryFolder folder;
    FileDescriptor file(::open(folder.file("f").c_str(), O_WRONLY | O_CREAT, 0600));
    ::_exit(file.get() > 2 && ::write(1, "x", 1) < 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
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
