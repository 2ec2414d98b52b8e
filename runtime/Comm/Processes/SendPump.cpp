// The loop of the pump.
#include "runtime/Comm/Processes/SendPump.h"

#include <chrono>

namespace cleave::rt {

SendPump::~SendPump() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    isOver = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void SendPump::start(std::vector<Source> given) {
  sources = std::move(given);
  if (!sources.empty())
    thread = std::thread([this] { run(); });
}

void SendPump::wake() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    isAwake = true;
  }
  changed.notify_all();
}

void SendPump::run() {
  using std::chrono::microseconds;
  // Short while a receiver is likely to be there, and still a small part of a
  // transfer later.
  constexpr microseconds shortPause{50}, longPause{200};
  constexpr int shortPauses = 100;
  std::unique_lock<std::mutex> lock(mutex);
  while (!isOver) {
    changed.wait(lock, [this] { return isOver || isAwake; });
    isAwake = false;
    for (int pauses = 0; !isOver; ++pauses) {
      lock.unlock();
      bool isBusy = false;
      for (const Source &source : sources)
        isBusy = source() || isBusy;
      lock.lock();
      if (!isBusy)
        break;
      if (isAwake)
        pauses = 0;
      isAwake = false;
      changed.wait_for(lock, pauses < shortPauses ? shortPause : longPause,
                       [this] { return isOver; });
    }
  }
}

} // namespace cleave::rt
