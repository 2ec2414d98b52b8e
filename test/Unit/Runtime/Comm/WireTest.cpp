// Frames between processes: what goes in comes out, however the bytes are cut, and
// what is cut short is noticed.
#include "runtime/Comm/Processes/Wire.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <sys/socket.h>
#include <unistd.h>

using namespace cleave::rt;

namespace {

Error someError() {
  return runError("comm.rank_lost", "rank 2 was lost")
      .at({"a file", 3, 7})
      .withGiven("process 2")
      .withRule("every process answers")
      .suggest("look")
      .suggest("resume")
      .note("on rank 2", {"b", 1, 0})
      .note("");
}

TEST(Wire, ErrorsComeOutAsTheyWentIn) {
  const Error sent = someError();
  const std::string bytes = Packer().number(7).error(sent).text("end").take();
  Unpacker reader(bytes);
  EXPECT_EQ(reader.number(), 7u);
  const Error got = reader.error();
  EXPECT_EQ(reader.text(), "end");
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(renderJson(got), renderJson(sent));
  EXPECT_EQ(got.exitCode, ExitCode::Run);
}

TEST(Wire, APayloadCutShortIsNoticed) {
  const std::string bytes = Packer().error(someError()).take();
  for (size_t length = 0; length < bytes.size(); ++length) {
    Unpacker reader(std::string_view(bytes).substr(0, length));
    (void)reader.error();
    EXPECT_FALSE(reader.ok()) << length;
  }
  // A length beyond all bounds takes no memory.
  const std::string huge = Packer().number(~uint64_t{0}).take();
  Unpacker reader(huge);
  EXPECT_EQ(reader.text(), "");
  EXPECT_FALSE(reader.ok());
}

struct Pair {
  FileDescriptor raw;
  Link link;
};

Pair connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {FileDescriptor(ends[0]), Link(FileDescriptor(ends[1]))};
}

TEST(Wire, FramesArriveWholeFromAnyPieces) {
  Pair from = connected();
  from.link.queue(FrameKind::Meet, "facts");
  from.link.queue(FrameKind::Bye, "");
  from.link.queue(FrameKind::Failure, std::string(9000, 'x'));
  EXPECT_TRUE(from.link.write());
  EXPECT_FALSE(from.link.wantsToWrite());
  std::string bytes(9100, '\0');
  const ssize_t got = ::read(from.raw.get(), bytes.data(), bytes.size());
  ASSERT_EQ(got, 3 * 5 + 5 + 9000);
  Pair to = connected();
  std::vector<Frame> frames;
  for (ssize_t at = 0; at < got; at += 7) {
    const auto count = static_cast<size_t>(std::min<ssize_t>(7, got - at));
    ASSERT_EQ(::write(to.raw.get(), bytes.data() + at, count), static_cast<ssize_t>(count));
    EXPECT_TRUE(to.link.read());
    while (auto frame = to.link.next())
      frames.push_back(std::move(*frame));
  }
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].kind, FrameKind::Meet);
  EXPECT_EQ(frames[0].payload, "facts");
  EXPECT_EQ(frames[1].kind, FrameKind::Bye);
  EXPECT_EQ(frames[2].payload, std::string(9000, 'x'));
}

TEST(Wire, TheEndOfAConnectionIsSeenAfterWhatCameBefore) {
  Pair pair = connected();
  const std::string last = std::string("\0\0\0\0", 4) + static_cast<char>(FrameKind::Bye);
  ASSERT_EQ(::write(pair.raw.get(), last.data(), last.size()), 5);
  pair.raw = FileDescriptor();
  EXPECT_FALSE(pair.link.read());
  const auto frame = pair.link.next();
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->kind, FrameKind::Bye);
}

TEST(Wire, AFrameThatIsNoneOfOursClosesTheConnection) {
  Pair pair = connected();
  const char noise[] = "GET / HTTP/1.1\r\n";
  ASSERT_EQ(::write(pair.raw.get(), noise, sizeof noise), static_cast<ssize_t>(sizeof noise));
  EXPECT_TRUE(pair.link.read());
  EXPECT_FALSE(pair.link.next().has_value());
  EXPECT_FALSE(pair.link.isOpen());
}

} // namespace
