// A signal is noticed, not fatal; the second one is. Run in a child process,
// since signals belong to the whole process.
#include "runtime/Train/StopSignals.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace cleave::rt;

namespace {

/// Runs `body` in a child and returns its wait status.
template <typename Body> int inChild(Body body) {
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(StopSignals, TheFirstIsARequest) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = inChild([&] {
      StatusOr<StopSignals> stop = StopSignals::create();
      if (!stop.ok() || stop->requested())
        return 1;
      // Another thread is running when the signal comes.
      std::thread other([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
      ::kill(::getpid(), signal);
      other.join();
      return stop->requested() && stop->requested() ? 0 : 2;
    });
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

TEST(StopSignals, WhatTheCallerSwitchedOffStaysOff) {
  const int status = inChild([] {
    ::signal(SIGHUP, SIG_IGN); // as nohup does
    StatusOr<StopSignals> stop = StopSignals::create();
    ::kill(::getpid(), SIGHUP);
    if (stop->requested())
      return 1;
    ::kill(::getpid(), SIGTERM);
    return stop->requested() ? 0 : 2;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(StopSignals, ABrokenPipeIsAnErrorOfTheWrite) {
  const int status = inChild([] {
    reportFailedWrites();
    int ends[2];
    if (::pipe(ends) != 0)
      return 1;
    ::close(ends[0]);
    return ::write(ends[1], "x", 1) < 0 && errno == EPIPE ? 0 : 2;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// A terminal sends one to all, and a launcher passes on its own.
TEST(StopSignals, ThoseThatComeTogetherAreOneRequest) {
  const int status = inChild([] {
    StatusOr<StopSignals> stop = StopSignals::create();
    for (int signal : {SIGINT, SIGTERM, SIGUSR1})
      ::kill(::getpid(), signal);
    if (!stop->requested())
      return 1;
    for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP})
      ::kill(::getpid(), signal);
    return stop->requested() ? 0 : 2;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(StopSignals, OneThatComesAtTheEndIsNoFailure) {
  const int status = inChild([] {
    {
      StatusOr<StopSignals> stop = StopSignals::create();
      ::kill(::getpid(), SIGTERM);
    }
    return 0;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(StopSignals, TheSecondKills) {
  const int status = inChild([] {
    StatusOr<StopSignals> stop = StopSignals::create();
    ::kill(::getpid(), SIGINT);
    while (!stop->requested()) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    ::kill(::getpid(), SIGINT);
    std::this_thread::sleep_for(std::chrono::seconds(5));
    return 3;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

} // namespace
