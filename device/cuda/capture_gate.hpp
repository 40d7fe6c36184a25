// CaptureGate: keeps the capture of graphs apart from the making and the destroying of decoders.
//
// NVIDIA's driver captures work of its own while it makes or destroys a decoder. A capture of ours at that time is
// broken off, or ends the process with signal 11 inside the driver (docs/experiments.md, "Captures beside decoders").
//
// A capture waits for what is being made or destroyed. It comes before everything that has not begun. The driver makes
// or destroys one decoder at a time on a GPU, some 50 ms each. So no more than two begin at once, or a capture would
// wait for hundreds that a reload destroys.
//
// Threads: [any]. What begins must end on the same thread, and a thread begins one thing at a time.
#pragma once

#include "base/mutex.hpp"

namespace camd::device {

class CaptureGate {
 public:
  // The driver is one for all GPUs of a process.
  [[nodiscard]] static CaptureGate& of_the_process();

  // [blocks]
  void begin_capture();
  void end_capture();

  static constexpr int kMostDecoderWorks = 2;  // at once; not one, as two GPUs may work side by side

  // As long as it lives, a decoder may be made or destroyed.
  class DecoderWork {
   public:
    explicit DecoderWork(CaptureGate& gate);  // [blocks]
    ~DecoderWork();
    DecoderWork(const DecoderWork&) = delete;
    DecoderWork& operator=(const DecoderWork&) = delete;

   private:
    CaptureGate& gate_;
  };

  // How many there are, those that wait counted.
  [[nodiscard]] int captures() const;
  // How many go on.
  [[nodiscard]] int decoder_works() const;

 private:
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  int captures_ CAMD_GUARDED_BY(mutex_) = 0;
  int decoder_works_ CAMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace camd::device
