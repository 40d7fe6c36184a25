// PictureNames: the PTS under which the pictures of an RTP stream go through the decoder, and by which they are known
// again behind it.
//
// A decoder shows pictures in the order of their PTS: where one is smaller than the last that was shown, it puts that
// one in its place, and two pictures have one name. The jitter buffer's PTS do run backwards: after a stall it moves
// its schedule by up to a second. So names follow the order of the stamps, and keep close to the PTS otherwise:
//  - a picture with a later stamp than all before gets its PTS, but at least the last such name and half of what the
//  stamp
//    has gained;
//  - one with an earlier stamp (a B picture comes behind the picture that it is made from) lies between the names of
//  its
//    neighbours, in the order of their stamps;
//  - stamps that stand still, go back by more than kMostBehind, or stay behind for more than kMostReordered pictures,
//  have
//    stepped: names go on rising.
//
// Where no rate is known, the PTS is the name.
//
// Threads: one at a time. [no-alloc]
#pragma once

#include <algorithm>
#include <cstdint>

namespace camd::capture {

class PictureNames {
 public:
  static constexpr int kMostReordered = 16;  // H.264, max_num_reorder_frames
  static constexpr std::int64_t kMostBehindNs = 1'000'000'000;
  static constexpr std::int64_t kMostGainedNs = 1'000'000'000;  // longer gaps count as this

  // The name, ns, of the next picture in the order of the packets. `stamp`: its RTP time stamp, of `rate` ticks a
  // second; `pts`: the jitter buffer's, ns.
  std::uint64_t next(std::uint32_t stamp, int rate, std::uint64_t pts) noexcept {
    if (rate <= 0) return name_ = pts;
    const std::int64_t gained_ns = std::int64_t{static_cast<std::int32_t>(stamp - latest_)} * 1'000'000'000 / rate;
    if (begun_ && gained_ns < 0 && gained_ns >= -kMostBehindNs && behind_ < kMostReordered) {
      ++behind_;
      const auto back = static_cast<std::uint64_t>(-gained_ns / 2);
      return name_ = latest_name_ - std::min(latest_name_, back);
    }
    const std::int64_t step = std::max<std::int64_t>(1, std::min(gained_ns, kMostGainedNs) / 2);
    latest_name_ = begun_ ? std::max(pts, latest_name_ + static_cast<std::uint64_t>(step)) : pts;
    latest_ = stamp;
    begun_ = true;
    behind_ = 0;
    return name_ = latest_name_;
  }
  // What next() returned last.
  [[nodiscard]] std::uint64_t current() const noexcept { return name_; }

 private:
  bool begun_ = false;
  std::uint64_t name_ = 0;
  std::uint32_t latest_ = 0;  // stamp
  std::uint64_t latest_name_ = 0;
  int behind_ = 0;  // pictures in a row
};

}  // namespace camd::capture
