// A queue of jobs and the loop over it.
#include "runtime/Exec/ExchangeLane.h"

namespace cleave::rt {

ExchangeLane::ExchangeLane() : thread([this] { run(); }) {}

ExchangeLane::~ExchangeLane() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    isOver = true;
  }
  begun.notify_all();
  thread.join();
}

uint64_t ExchangeLane::start(const Job &job) {
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    jobs.push_back(&job);
    number = ++started;
  }
  begun.notify_one();
  return number;
}

Status ExchangeLane::await(uint64_t number) {
  std::unique_lock<std::mutex> lock(mutex);
  ended.wait(lock, [&] { return done >= number; });
  return failure;
}

void ExchangeLane::awaitAll() {
  std::unique_lock<std::mutex> lock(mutex);
  ended.wait(lock, [&] { return done == started; });
}

bool ExchangeLane::isDone(uint64_t number) const {
  const std::lock_guard<std::mutex> lock(mutex);
  return done >= number;
}

bool ExchangeLane::isIdle() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return done == started;
}

void ExchangeLane::run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    begun.wait(lock, [this] { return isOver || !jobs.empty(); });
    if (isOver)
      return;
    const Job &job = *jobs.front();
    jobs.pop_front();
    if (failure.ok()) {
      lock.unlock();
      Status status = job();
      lock.lock();
      if (!status.ok())
        failure = std::move(status);
    }
    ++done;
    ended.notify_all();
  }
}

} // namespace cleave::rt
