#include "device/cuda/decoder_turns.hpp"

#include <algorithm>

namespace camd::device {
namespace {

constexpr base::Duration kLook = std::chrono::milliseconds(100);  // between two questions to the taker

}  // namespace

DecoderTurns::Turn::Turn(DecoderTurns& turns) : turns_(turns), came_(std::chrono::steady_clock::now()) {
  const base::MutexLock lock(turns_.mutex_);
  turns_.line_.push_back(this);
}

DecoderTurns::Turn::~Turn() {
  const base::MutexLock lock(turns_.mutex_);
  std::erase(turns_.line_, this);
  if (turns_.line_.empty()) turns_.late_ = 0;
  turns_.one_left_.notify_all();
}

DecoderTurns::Outcome DecoderTurns::Turn::wait(VideoTaker& taker) {
  return wait_until(taker, came_ + turns_.patience_);
}

DecoderTurns::Outcome DecoderTurns::Turn::wait_on(VideoTaker& taker) {
  return wait_until(taker, base::TimePoint::max());
}

DecoderTurns::Outcome DecoderTurns::Turn::wait_until(VideoTaker& taker, base::TimePoint late) {
  for (;;) {
    if (!taker.goes_on_waiting()) return Outcome::kGaveUp;
    const base::MutexLock lock(turns_.mutex_);
    if (turns_.line_.front() == this) return Outcome::kCame;
    const base::TimePoint now = std::chrono::steady_clock::now();
    if (now < late) {
      (void)turns_.one_left_.wait_until(turns_.mutex_, std::min(late, now + kLook));
    } else if (turns_.late_ < turns_.most_late_) {
      ++turns_.late_;
      return Outcome::kLate;
    } else {
      (void)turns_.one_left_.wait_until(turns_.mutex_, now + kLook);
    }
  }
}

}  // namespace camd::device
