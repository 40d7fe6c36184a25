// CameraClock: says when a picture was taken, from its stamp on the camera's clock and its arrival here.
//
// A camera stamps its pictures with a clock of its own: it starts anywhere, runs fast or slow by some parts in a
// million, and may be set or start over. A picture arrives later than it was taken, by a delay that is never negative
// and never falls below some least value; the network, a stall or this machine only add to it. So the points (arrival,
// arrival minus stamp) lie above a line: its height is the offset of the clocks plus the least delay, its slope is the
// drift. That line, below all points and as high as it can be, is found as in Moon, Skelly, Towsley, "Estimation and
// removal of clock skew from network delay measurements" (INFOCOM 1999): the lower convex hull of the points, and of
// its edges the one below their middle. captured = stamp + line - least delay. Delays above the line are delays, and
// told as such: what comes late out of a stall is old.
//
// What is known of the least delay (the camera's encoder, the cable):
//  - `estimated`: nothing. It counts as 0, pictures are told younger by it, and `uncertainty` does not contain it.
//  - `rtcp`: sender reports (RFC 3550, section 6.4.1) give the camera's wall clock at a stamp. Where that wall clock
//  and
//    ours agree, the line minus theirs is the least delay. They are believed while it lies between kLeastBelieved and
//    kMostBelieved and moves by less than kMostSpread over the last reports. A wall clock that is set wrong is not.
//  - `monotonic`: the source stamps with this machine's clock (drivers do): the stamp is the time. Should the line
//  drift
//    away from it, the stamps are another clock's, and the least delay of the first seconds is kept.
//  - `arrival`: there are no stamps, or they stand still: the arrival is told, and how old the picture is is not known.
//
// Rules
//  - The line falls at once (a picture cannot arrive before it was taken) and rises with its slope only. It learns from
//    a span of time only when the fastest picture of the span came close to it: a stall or a backlog, however long,
//    does not teach it that the delay has grown. How close grows with the time for which nothing came close.
//  - Steps. Forwards: the stamps gain more than kStep on the arrivals and fall below the line. Backwards: they go back
//  by
//    more than a second, or by less (B pictures do so, too) and stay behind for kConfirm; or they leave a gap and stay
//    behind. A stall is no step: behind it the stamps go on where they were. A step begins a new line; the slope stays.
//  - Stamps that stand still for kStanding count as a step, and those that go on after that begin a new line.
//  - Start. How much waits in a connection that has just begun cannot be known: the uncertainty is kUnsettled, and
//    halves with every kHalving of pictures.
//
// Threads: one at a time (the camera's streaming thread); ClockStatus is a plain value.
// Invariants: no clock is read, nothing is allocated, state is bounded [no-alloc]. What captured() returns is never
// after the arrival that it was given, and never before what it returned last, as long as arrivals do not run
// backwards.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/clock.hpp"

namespace camd::capture {

// What a capture time rests on; the words of the metrics lines.
enum class ClockSource : std::uint8_t { kArrival, kEstimated, kRtcp, kMonotonic };
[[nodiscard]] std::string_view to_string(ClockSource source) noexcept;

struct ClockStatus {
  ClockSource source = ClockSource::kArrival;
  // How far the camera's clock is ahead of this machine's: its wall clock where it sends reports, else what its stamps
  // have gained since the connection began or they stepped.
  base::Duration offset{0};
  double drift_ppm = 0;           // above 0: the camera's clock is fast
  base::Duration uncertainty{0};  // of the last picture's time
  std::uint64_t steps = 0;        // of the stamps, since the source was made
};

struct CaptureTime {
  base::TimePoint captured;
  base::Duration uncertainty{0};  // the truth may be off by as much, in either direction
};

// A picture's stamp and the line that it belongs to.
struct CameraStamp {
  base::Duration time{0};   // since anything, on the camera's clock
  std::uint32_t epoch = 0;  // counts the lines
};

// A sender report's pair of times.
struct SenderReport {
  base::Duration stamp{0};       // as those of the pictures
  std::int64_t wall_ns = 0;      // the camera's wall clock then, since 1970
  std::int64_t our_wall_ns = 0;  // ours when the report came
  base::TimePoint arrived;       // when that was
};

// The line below the points of one clock, from one step to the next.
class ClockLine {
 public:
  // `slope`: what is known of the drift, arrival minus stamp per second, and how well.
  void begin(base::Duration stamp, base::TimePoint arrived, double slope, double slope_error) noexcept;
  // A picture. Returns how far its point lies above the line as it was: below 0, the line has fallen to it.
  double add(base::Duration stamp, base::TimePoint arrived) noexcept;
  // How far a point lies above the line, ns.
  [[nodiscard]] double above(base::Duration stamp, base::TimePoint arrived) const noexcept;
  // When a picture with this stamp would have arrived with the least delay.
  [[nodiscard]] base::TimePoint earliest(base::Duration stamp) const noexcept;
  // How far the line may be off at `stamp`, ns.
  [[nodiscard]] double error(base::Duration stamp) const noexcept;
  [[nodiscard]] double slope() const noexcept { return slope_; }
  [[nodiscard]] double slope_error() const noexcept { return slope_error_; }
  // What arrival minus stamp has gained since the line began, ns.
  [[nodiscard]] double gained(base::Duration stamp) const noexcept;
  // How far a picture may lie above the line and still teach it, ns.
  [[nodiscard]] double gate(base::Duration stamp) const noexcept {
    return gate(static_cast<double>((stamp - origin_stamp_).count()));
  }
  // How long pictures have come, since the line began.
  [[nodiscard]] base::Duration age(base::TimePoint arrived) const noexcept { return arrived - origin_arrived_; }

 private:
  static constexpr int kBuckets = 64;
  struct Point {
    double t = 0;  // stamp since the line's begin, ns
    double y = 0;  // arrival minus stamp since the line's begin, ns
  };
  [[nodiscard]] Point point(base::Duration stamp, base::TimePoint arrived) const noexcept;
  [[nodiscard]] double gate(double t) const noexcept;
  [[nodiscard]] double at(double t) const noexcept { return level_ + slope_ * (t - level_t_); }
  void close_bucket() noexcept;
  void fit() noexcept;
  [[nodiscard]] double hull_slope() const noexcept;

  base::Duration origin_stamp_{0};
  base::TimePoint origin_arrived_;
  double prior_slope_ = 0;
  double prior_error_ = 0;
  double slope_ = 0;
  double slope_error_ = 0;
  double level_ = 0;    // the line's height at level_t_
  double level_t_ = 0;  // the last point that taught
  double noise_ = 0;    // how far the fastest pictures of a span lie above the line, mean
  double unsettled_ = 0;
  base::TimePoint last_arrived_;
  // The fastest picture of each span, oldest first. When there is no room, neighbours are joined, up to kMostWidth.
  std::array<Point, kBuckets> buckets_;
  int count_ = 0;
  double width_ = 0;  // of a span
  Point lowest_;      // of the open span
  double open_end_ = 0;
  bool open_ = false;
};

class CameraClock {  // NOLINT(clang-analyzer-optin.performance.Padding): fields stand with what they belong to
 public:
  static constexpr base::Duration kStep = std::chrono::milliseconds(50);
  static constexpr base::Duration kConfirm = std::chrono::milliseconds(500);
  static constexpr base::Duration kStanding = std::chrono::milliseconds(200);
  static constexpr base::Duration kUnsettled = std::chrono::seconds(1);
  static constexpr base::Duration kHalving = std::chrono::milliseconds(500);
  static constexpr base::Duration kLeastBelieved = std::chrono::milliseconds(-2);
  static constexpr base::Duration kMostBelieved = std::chrono::milliseconds(150);
  static constexpr base::Duration kMostSpread = std::chrono::milliseconds(20);

  enum class Stamps : std::uint8_t {
    kCameras,    // of the camera's clock
    kMonotonic,  // times of CLOCK_MONOTONIC, as drivers and GStreamer's live sources give them
  };
  explicit CameraClock(Stamps stamps) noexcept : kind_(stamps) {}

  // A new connection: stamps may begin anywhere. The drift is kept, it is the camera's, unless the stamps are
  // another's.
  void reconnected(Stamps stamps) noexcept;
  void reconnected() noexcept { reconnected(kind_); }
  // A picture has arrived. Each once, in the order of arrival, which need not be that of the stamps.
  CameraStamp observe(base::Duration stamp, base::TimePoint arrived) noexcept;
  // A sender report has arrived. Ignored before the first picture.
  void report(const SenderReport& report) noexcept;
  // When the picture of that stamp was taken; `arrived` is when camd got it, at or after observe()'s. In the order in
  // which pictures are published. Use what was learned since its arrival: ask as late as possible.
  [[nodiscard]] CaptureTime captured(CameraStamp stamp, base::TimePoint arrived) noexcept;
  // A time that needs no estimate, such as a file's.
  [[nodiscard]] CaptureTime known(base::TimePoint captured, base::TimePoint arrived) noexcept;
  // The same for a picture without a stamp.
  [[nodiscard]] CaptureTime captured_unstamped(base::TimePoint arrived) noexcept;

  [[nodiscard]] const ClockStatus& status() const noexcept { return status_; }

 private:
  void begin_line(base::Duration stamp, base::TimePoint arrived) noexcept;
  void begin_candidate(base::Duration stamp, base::TimePoint arrived, double above) noexcept;
  void watch_candidate(base::Duration stamp, base::TimePoint arrived, double above) noexcept;
  void settle_monotonic(base::Duration stamp, base::TimePoint arrived) noexcept;
  void forget_reports() noexcept;
  [[nodiscard]] CaptureTime held(base::TimePoint captured, base::Duration uncertainty,
                                 base::TimePoint arrived) noexcept;

  Stamps kind_;
  ClockStatus status_;
  bool begun_ = false;
  bool standing_ = false;
  ClockLine line_;
  ClockLine before_;     // of the epoch before: its pictures may still be in the decoder
  ClockLine candidate_;  // of stamps that may have stepped back
  bool has_before_ = false;
  bool before_standing_ = false;
  bool is_candidate_ = false;
  std::uint32_t epoch_ = 0;         // of line_
  std::uint32_t newest_epoch_ = 0;  // given to a picture
  double candidate_jump_ = 0;       // ns, by which it lay above the line
  base::TimePoint candidate_since_;
  int candidate_pictures_ = 0;

  base::Duration last_stamp_{0};
  base::TimePoint last_arrived_;
  double last_above_ = 0;
  double period_ns_ = 40e6;  // between stamps, a mean
  int still_ = 0;            // pictures in a row with one stamp
  base::TimePoint still_since_;

  // monotonic
  bool trusted_ = false;  // the stamps are this machine's times
  double least_delay_ns_ = 0;

  // rtcp
  static constexpr int kReports = 5;
  std::array<double, kReports> delays_{};  // the line minus the camera's wall clock, ns
  int reports_ = 0;
  int next_report_ = 0;
  bool believed_ = false;
  double reported_delay_ns_ = 0;
  double reported_spread_ns_ = 0;

  base::TimePoint last_captured_ = base::TimePoint::min();
};

}  // namespace camd::capture
