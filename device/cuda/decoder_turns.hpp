// DecoderTurns: the line of those who want a decoder of NVIDIA's made.
//
// The driver makes decoders one after the other, some 50 ms each, and a thread that asks while others do gets its own
// in no particular order. So one asks at a time, in the order in which they came: the first cameras deliver at once,
// and each of hundreds comes in its turn. Who has waited long may have one made in another way (Vulkan Video).
//
// Threads: [any]. A Turn is its thread's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "device/video_decoder.hpp"

namespace camd::device {

class DecoderTurns {
 public:
  // In so long some 230 decoders are made: with what else a start takes, 300 cameras deliver within 20 s.
  static constexpr base::Duration kPatience = std::chrono::seconds(13);
  // Who is late has a decoder for which the engines work longer. So they are no more than this, until the line is
  // empty.
  static constexpr int kMostLate = 64;

  explicit DecoderTurns(base::Duration patience = kPatience, int most_late = kMostLate)
      : patience_(patience), most_late_(most_late) {}

  enum class Outcome : std::uint8_t {
    kCame,   // it is the first in the line, and stays it until it goes
    kLate,   // `patience` is over, and not too many are late
    kGaveUp  // the taker gave up
  };

  // A place in the line, from its construction on.
  class Turn {
   public:
    explicit Turn(DecoderTurns& turns);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // [blocks] until one of the outcomes comes about. Asks the taker now and then.
    [[nodiscard]] Outcome wait(VideoTaker& taker);
    // The same, however long it takes.
    [[nodiscard]] Outcome wait_on(VideoTaker& taker);

   private:
    [[nodiscard]] Outcome wait_until(VideoTaker& taker, base::TimePoint late);

    DecoderTurns& turns_;
    const base::TimePoint came_;
  };

 private:
  const base::Duration patience_;
  const int most_late_;
  base::Mutex mutex_;
  base::CondVar one_left_;
  std::deque<const Turn*> line_ CAMD_GUARDED_BY(mutex_);
  int late_ CAMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace camd::device
