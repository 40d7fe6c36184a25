#include "device/cuda/capture_gate.hpp"

namespace camd::device {

CaptureGate& CaptureGate::of_the_process() {
  static CaptureGate gate;
  return gate;
}

void CaptureGate::begin_capture() {
  const base::MutexLock lock(mutex_);
  ++captures_;
  while (decoder_works_ > 0) changed_.wait(mutex_);
}

void CaptureGate::end_capture() {
  const base::MutexLock lock(mutex_);
  if (--captures_ == 0) changed_.notify_all();
}

CaptureGate::DecoderWork::DecoderWork(CaptureGate& gate) : gate_(gate) {
  const base::MutexLock lock(gate_.mutex_);
  while (gate_.captures_ > 0 || gate_.decoder_works_ == kMostDecoderWorks) gate_.changed_.wait(gate_.mutex_);
  ++gate_.decoder_works_;
}

CaptureGate::DecoderWork::~DecoderWork() {
  const base::MutexLock lock(gate_.mutex_);
  --gate_.decoder_works_;
  gate_.changed_.notify_all();
}

int CaptureGate::captures() const {
  const base::MutexLock lock(mutex_);
  return captures_;
}

int CaptureGate::decoder_works() const {
  const base::MutexLock lock(mutex_);
  return decoder_works_;
}

}  // namespace camd::device
