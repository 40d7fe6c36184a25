// PictureLosses: what of one camera was lost before camd could count it as captured: packets, pictures that a decoder
// could not show, and pictures that it shows damaged.
//
// Packets. Holes in the sequence numbers of RTP (RFC 3550, section 5.1), where packets leave the jitter buffer: what it
// has given up for lost.
//
// Drivers. A V4L2 driver numbers the pictures of its device. Those that it dropped, because no buffer was free or the
// cable failed, leave a hole in the numbers, and count as missing.
//
// Missing pictures. Pictures come out in the order of their names, which decoders carry through
// (capture/stream_times.hpp). One that began to arrive and is overtaken by a later one has been given up. Where packets
// were lost, whole pictures may be among them: so many as the gap between two shown pictures has room for, at the
// distance of the pictures before.
//
// Damaged pictures. One with a hole in it, or before its first packet (its beginning may have been there); one that the
// decoder flags as corrupted; and those after it, up to the next key frame, because they are built on it. A stream may
// refresh its pictures piece by piece and have no key frames: damage counts for kMostDamage, or for twice the longest
// distance between key frames that was seen, whichever is longer.
//
// What is lost before the first picture of a connection is not counted: a decoder waits for a key frame there.
//
// Threads: one at a time (StreamTimes' lock). [no-alloc]
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.hpp"

namespace camd::capture {

// Since the source was made.
struct UpstreamLosses {
  std::uint64_t packets_lost = 0;
  std::uint64_t frames_damaged = 0;  // shown, but something of them is missing or wrong
  std::uint64_t frames_missing = 0;  // never shown

  UpstreamLosses& operator+=(const UpstreamLosses& more) noexcept {
    packets_lost += more.packets_lost;
    frames_damaged += more.frames_damaged;
    frames_missing += more.frames_missing;
    return *this;
  }
};

class PictureLosses {
 public:
  static constexpr base::Duration kMostDamage = std::chrono::seconds(10);
  using Name = std::uint64_t;  // grows from picture to picture in the order in which they are shown

  // A new connection: nothing of the last one comes any more.
  void connect() noexcept;
  // A driver gave the picture of this number (V4L2's `sequence`).
  void driver_gave(std::uint64_t number) noexcept;
  // ---- In the order of decoding
  // `packets` are gone. `from_open`: the picture that began last had not ended.
  void lost(std::uint64_t packets, bool from_open) noexcept;
  // A picture begins, `stamp` on the camera's clock. `holed`: packets before its first one, or in it, are gone.
  void begin(Name name, base::Duration stamp, bool holed) noexcept;
  // The picture needs no other one.
  void is_key(Name name) noexcept;
  // ---- In the order of showing
  // A decoder has given this picture. `corrupted`: it says so itself. True: the picture is damaged.
  [[nodiscard]] bool shown(Name name, bool corrupted, base::TimePoint now) noexcept;
  // The same for one whose packets nobody saw.
  [[nodiscard]] bool shown_unnamed(bool corrupted) noexcept;

  [[nodiscard]] const UpstreamLosses& totals() const noexcept { return totals_; }

 private:
  struct Picture {
    Name name = 0;
    base::Duration stamp{0};
    bool holed = false;
    bool key = false;
    bool settled = true;  // shown, or counted as missing
  };
  static constexpr std::uint64_t kPictures = 256;  // more than are on their way through a decoder
  [[nodiscard]] Picture& at(std::uint64_t number) noexcept { return pictures_[number % kPictures]; }
  [[nodiscard]] Picture* find(Name name) noexcept;
  [[nodiscard]] std::uint64_t overtaken_by(Name name) noexcept;

  UpstreamLosses totals_;
  std::array<Picture, kPictures> pictures_;
  bool has_driver_number_ = false;
  std::uint64_t driver_number_ = 0;  // of its last picture
  std::uint64_t begun_ = 0;          // pictures of this connection
  std::uint64_t first_unsettled_ = 0;
  bool any_shown_ = false;
  bool hole_since_shown_ = false;  // packets were lost since the last picture was shown
  base::Duration last_stamp_{0};   // of the last one shown
  base::Duration distance_{0};     // of pictures without a loss between them
  bool damaged_ = false;
  base::TimePoint damaged_since_;
  base::TimePoint last_key_;
  bool has_key_ = false;
  base::Duration key_distance_{0};  // the longest
};

}  // namespace camd::capture
