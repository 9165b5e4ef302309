// The CUDA samples' stop watches.
#pragma once
#include <time.h>

class StopWatchInterface {
 public:
  void start() {
    begin_ = now();
    is_running_ = true;
  }
  void stop() {
    total_ += last_ = now() - begin_;
    is_running_ = false;
    ++sessions_;
  }
  void reset() {
    total_ = last_ = 0;
    sessions_ = 0;
    if (is_running_) begin_ = now();
  }
  float getTime() { return (float)(is_running_ ? total_ + now() - begin_ : total_); }
  float getAverageTime() { return sessions_ ? (float)(total_ / sessions_) : 0.0f; }

 private:
  static double now() {
    timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return 1e3 * (double)at.tv_sec + 1e-6 * (double)at.tv_nsec;
  }
  double begin_ = 0, total_ = 0, last_ = 0;
  bool is_running_ = false;
  int sessions_ = 0;
};

inline bool sdkCreateTimer(StopWatchInterface **timer) { return (*timer = new StopWatchInterface()) != nullptr; }
inline bool sdkDeleteTimer(StopWatchInterface **timer) {
  delete *timer;
  *timer = nullptr;
  return true;
}
inline bool sdkStartTimer(StopWatchInterface **timer) {
  (*timer)->start();
  return true;
}
inline bool sdkStopTimer(StopWatchInterface **timer) {
  (*timer)->stop();
  return true;
}
inline bool sdkResetTimer(StopWatchInterface **timer) {
  (*timer)->reset();
  return true;
}
inline float sdkGetTimerValue(StopWatchInterface **timer) { return (*timer)->getTime(); }
inline float sdkGetAverageTimerValue(StopWatchInterface **timer) { return (*timer)->getAverageTime(); }
