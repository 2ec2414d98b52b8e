// Sees to messages on their way while the ranks that sent them compute: a message
// library moves a large message only while some thread is inside of it. A thread that
// sleeps as long as nothing is on its way. Internal to Comm/Processes.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cleave::rt {

class SendPump {
public:
  /// Moves on what is on its way, without waiting; false if nothing is.
  using Source = std::function<bool()>;

  SendPump() = default;
  SendPump(const SendPump &) = delete;
  SendPump &operator=(const SendPump &) = delete;
  /// Ends the thread.
  ~SendPump();

  /// Begins, unless there is no source. They must outlive the pump.
  void start(std::vector<Source> sources);
  /// Something is on its way.
  void wake();

private:
  void run();

  std::vector<Source> sources;
  std::mutex mutex;
  std::condition_variable changed;
  bool isAwake = false, isOver = false; // guarded by mutex
  std::thread thread;
};

} // namespace cleave::rt
