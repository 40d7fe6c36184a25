// The line below the points, and what the stamps are allowed to do to it.
#include "capture/camera_clock.hpp"

#include <algorithm>
#include <cmath>

namespace camd::capture {
namespace {

using base::Duration;
using base::TimePoint;

constexpr double kMs = 1e6;  // ns
constexpr double kSecond = 1e9;
constexpr double kMostSlope = 2000e-6;    // more is no clock
constexpr double kUnknownSlope = 300e-6;  // before anything is known
constexpr double kWander = 3e-6;          // a quartz does not keep its drift any better while it warms up
constexpr double kFirstWidth = 0.25 * kSecond;
constexpr double kMostWidth = 8 * kSecond;
constexpr double kUnknownNoise = 1 * kMs;
constexpr double kLeastGate = 3 * kMs;
constexpr double kMostGate = 20 * kMs;
constexpr double kLeastJump = 20 * kMs;   // a smaller step back is not told from a delay
constexpr double kDraining = 60 * kMs;    // what a backlog loses within kConfirm, at least
constexpr double kReorder = 1 * kSecond;  // B pictures go back by less
constexpr Duration kTrustAfter = std::chrono::seconds(10);
constexpr double kLongestWay = 1 * kSecond;  // from a driver to us
constexpr double kDriver = 1 * kMs;          // what a driver's stamp is off by

double ns(Duration duration) noexcept { return static_cast<double>(duration.count()); }
Duration duration_of(double nanoseconds) noexcept {
  constexpr double kMost = 4e18;  // stamps come from a network
  return Duration(std::llround(std::clamp(nanoseconds, -kMost, kMost)));
}

}  // namespace

std::string_view to_string(ClockSource source) noexcept {
  switch (source) {
    case ClockSource::kArrival: return "arrival";
    case ClockSource::kEstimated: return "estimated";
    case ClockSource::kRtcp: return "rtcp";
    case ClockSource::kMonotonic: return "monotonic";
  }
  return "?";
}

// ---- ClockLine

void ClockLine::begin(Duration stamp, TimePoint arrived, double slope, double slope_error) noexcept {
  *this = {};
  origin_stamp_ = stamp;
  origin_arrived_ = last_arrived_ = arrived;
  prior_slope_ = slope_ = slope;
  prior_error_ = slope_error_ = slope_error;
  noise_ = kUnknownNoise;
  unsettled_ = ns(CameraClock::kUnsettled);
  width_ = kFirstWidth;
  (void)add(stamp, arrived);
}

ClockLine::Point ClockLine::point(Duration stamp, TimePoint arrived) const noexcept {
  const Duration t = stamp - origin_stamp_;
  return {ns(t), ns(arrived - origin_arrived_ - t)};
}

double ClockLine::above(Duration stamp, TimePoint arrived) const noexcept {
  const Point p = point(stamp, arrived);
  return p.y - at(p.t);
}

TimePoint ClockLine::earliest(Duration stamp) const noexcept {
  const Duration t = stamp - origin_stamp_;
  return origin_arrived_ + t + duration_of(at(ns(t)));
}

double ClockLine::gained(Duration stamp) const noexcept { return at(ns(stamp - origin_stamp_)); }

double ClockLine::gate(double t) const noexcept {
  const double base = count_ < 4 ? kMostGate : std::clamp(6 * noise_, kLeastGate, kMostGate);
  return base + slope_error_ * std::max(0.0, t - level_t_);
}

double ClockLine::error(Duration stamp) const noexcept {
  return noise_ + unsettled_ + slope_error_ * std::max(0.0, ns(stamp - origin_stamp_) - level_t_);
}

double ClockLine::add(Duration stamp, TimePoint arrived) noexcept {
  const Point p = point(stamp, arrived);
  const double above = p.y - at(p.t);
  const double limit = gate(p.t);
  // A connection that says nothing settles nothing.
  const double lasted = std::clamp(ns(arrived - last_arrived_), 0.0, ns(CameraClock::kHalving));
  unsettled_ *= std::exp2(-lasted / ns(CameraClock::kHalving));
  last_arrived_ = arrived;
  if (open_ && p.t >= open_end_) close_bucket();
  if (p.y - at(p.t) < 0) {
    if (p.y - at(p.t) < -limit) {  // what came before came late, all of it
      count_ = 0;
      open_ = false;
      prior_slope_ = slope_;
      prior_error_ = slope_error_;
      noise_ = kUnknownNoise;
      width_ = kFirstWidth;
      unsettled_ = std::max(unsettled_, 2 * (at(p.t) - p.y));
    }
    level_ = p.y;
    level_t_ = p.t;
  }
  if (!open_) {
    open_ = true;
    open_end_ = p.t + width_;
    lowest_ = p;
  } else if (p.y - slope_ * p.t < lowest_.y - slope_ * lowest_.t) {
    lowest_ = p;
  }
  return above;
}

void ClockLine::close_bucket() noexcept {
  open_ = false;
  if (lowest_.y - at(lowest_.t) > gate(lowest_.t)) return;  // a stall: nothing learned
  if (count_ == kBuckets && width_ < kMostWidth) {
    for (int i = 0; i < kBuckets / 2; ++i) {
      const Point& a = buckets_[static_cast<std::size_t>(2 * i)];
      const Point& b = buckets_[static_cast<std::size_t>(2 * i + 1)];
      buckets_[static_cast<std::size_t>(i)] = a.y - slope_ * a.t <= b.y - slope_ * b.t ? a : b;
    }
    count_ = kBuckets / 2;
    width_ *= 2;
  }
  if (count_ == kBuckets) {
    std::move(buckets_.begin() + 1, buckets_.end(), buckets_.begin());
    --count_;
  }
  buckets_[static_cast<std::size_t>(count_++)] = lowest_;
  fit();
}

// The slope of the lower hull's edge below the middle of the points.
double ClockLine::hull_slope() const noexcept {
  std::array<Point, kBuckets> hull;
  int size = 0;
  double middle = 0;
  for (int i = 0; i < count_; ++i) {
    const Point& p = buckets_[static_cast<std::size_t>(i)];
    middle += p.t / count_;
    while (size >= 2) {
      const Point& a = hull[static_cast<std::size_t>(size - 2)];
      const Point& b = hull[static_cast<std::size_t>(size - 1)];
      if ((b.y - a.y) * (p.t - a.t) < (p.y - a.y) * (b.t - a.t)) break;  // b lies below the line from a to p
      --size;
    }
    hull[static_cast<std::size_t>(size++)] = p;
  }
  int edge = 1;
  while (edge + 1 < size && hull[static_cast<std::size_t>(edge)].t < middle) ++edge;
  const Point& a = hull[static_cast<std::size_t>(edge - 1)];
  const Point& b = hull[static_cast<std::size_t>(edge)];
  return std::clamp((b.y - a.y) / std::max(1.0, b.t - a.t), -kMostSlope, kMostSlope);
}

void ClockLine::fit() noexcept {
  const Point& last = buckets_[static_cast<std::size_t>(count_ - 1)];
  const double span = last.t - buckets_[0].t;
  if (count_ >= 3) {
    // What the points say, and what was known before, each by how well it is known.
    const double told = 2 * std::max(noise_, 0.5 * kMs) / span;
    const double weight = prior_error_ * prior_error_ / (prior_error_ * prior_error_ + told * told);
    slope_ = prior_slope_ + weight * (hull_slope() - prior_slope_);
    slope_error_ = told * std::sqrt(weight) + kWander;
  }
  level_t_ = last.t;
  level_ = last.y;
  double sum = 0;
  for (int i = 0; i < count_; ++i) {
    const Point& p = buckets_[static_cast<std::size_t>(i)];
    const double level = p.y + slope_ * (last.t - p.t);
    level_ = std::min(level_, level);
    sum += level;
  }
  if (count_ >= 4) noise_ = std::max(0.1 * kMs, sum / count_ - level_);
}

// ---- CameraClock

void CameraClock::reconnected(Stamps stamps) noexcept {
  if (stamps != kind_) line_ = {};
  kind_ = stamps;
  least_delay_ns_ = 0;
  trusted_ = false;
  begun_ = false;
  has_before_ = false;
  is_candidate_ = false;
  standing_ = false;
  forget_reports();
}

void CameraClock::forget_reports() noexcept {
  reports_ = next_report_ = 0;
  believed_ = false;
}

void CameraClock::begin_line(Duration stamp, TimePoint arrived) noexcept {
  const bool known = line_.slope_error() > 0;
  const double slope = known ? line_.slope() : 0;
  const double error = known ? std::min(kUnknownSlope, line_.slope_error() + kWander) : kUnknownSlope;
  before_ = line_;
  before_standing_ = standing_;
  has_before_ = begun_;
  standing_ = false;
  is_candidate_ = false;
  epoch_ = ++newest_epoch_;
  line_.begin(stamp, arrived, slope, error);
  forget_reports();
}

CameraStamp CameraClock::observe(Duration stamp, TimePoint arrived) noexcept {
  if (!begun_) {
    begin_line(stamp, arrived);
    begun_ = true;
    trusted_ = kind_ == Stamps::kMonotonic;
    still_ = 0;
    last_above_ = 0;
  } else {
    const Duration gain = stamp - last_stamp_;
    const double above = line_.above(stamp, arrived);
    if (gain != Duration::zero()) {
      still_ = 0;
    } else if (still_++ == 0) {
      still_since_ = last_arrived_;
    }
    const double gain_ns = ns(gain);
    const bool gap = gain_ns > std::max(3 * period_ns_, 0.3 * kSecond);
    const bool forwards = gain_ns > 3 * period_ns_ && ns(gain - (arrived - last_arrived_)) > ns(kStep) &&
                          above < -(ns(kStep) + line_.error(stamp));
    if (standing_) {
      if (still_ == 0) begin_line(stamp, arrived);
    } else if (still_ >= 3 && arrived - still_since_ >= kStanding) {
      begin_line(stamp, arrived);
      standing_ = true;
      trusted_ = false;
      ++status_.steps;
    } else if (forwards || gain_ns < -kReorder) {
      const double above_before = before_.above(stamp, arrived);
      const bool back_again =
          has_before_ && !before_standing_ && above_before > -before_.gate(stamp) && above_before < ns(kStep);
      const ClockLine known = before_;
      begin_line(stamp, arrived);
      if (back_again) {  // one wrong stamp, or two clocks taking turns
        line_ = known;
        (void)line_.add(stamp, arrived);
      }
      trusted_ = false;
      ++status_.steps;
    } else {
      // Stamps that stand still step back with each picture: the last step counts.
      const bool back = (gain_ns < period_ns_ / 2 || gap) && above - last_above_ > kLeastJump;
      if (back && above > std::max(kLeastJump, line_.gate(stamp))) {
        if (!is_candidate_) ++newest_epoch_;
        is_candidate_ = true;
        begin_candidate(stamp, arrived, above);
      } else if (is_candidate_) {
        watch_candidate(stamp, arrived, above);
      }
      if (gain_ns > 0 && !gap) period_ns_ += (gain_ns - period_ns_) / 16;
      (void)line_.add(stamp, arrived);
    }
    last_above_ = standing_ ? 0 : line_.above(stamp, arrived);
  }
  if (trusted_) settle_monotonic(stamp, arrived);
  last_stamp_ = stamp;
  last_arrived_ = arrived;
  return {stamp, newest_epoch_};
}

void CameraClock::begin_candidate(Duration stamp, TimePoint arrived, double above) noexcept {
  candidate_jump_ = above;
  candidate_since_ = arrived;
  candidate_pictures_ = 1;
  candidate_.begin(stamp, arrived, line_.slope(), line_.slope_error());
}

void CameraClock::watch_candidate(Duration stamp, TimePoint arrived, double above) noexcept {
  if (above <= candidate_jump_ / 2) {  // it came back: B pictures, a late one
    is_candidate_ = false;
    return;
  }
  (void)candidate_.add(stamp, arrived);
  ++candidate_pictures_;
  if (arrived - candidate_since_ < kConfirm || candidate_pictures_ < 4) return;
  if (candidate_.gained(stamp) < -kDraining) {  // a backlog runs out: look again
    begin_candidate(stamp, arrived, above);
    return;
  }
  before_ = line_;
  before_standing_ = false;
  has_before_ = true;
  line_ = candidate_;
  epoch_ = newest_epoch_;
  is_candidate_ = false;
  trusted_ = false;
  ++status_.steps;
  forget_reports();
}

// Whether a source's stamps are this machine's times, as it says. Called while they are taken for that.
void CameraClock::settle_monotonic(Duration stamp, TimePoint arrived) noexcept {
  const double delay = ns(line_.earliest(stamp) - TimePoint(stamp));
  const bool young = line_.age(arrived) < kTrustAfter;
  if (delay < -kDriver || (!young && delay > kLongestWay)) {
    trusted_ = false;  // they lie in the future, or far in the past
    least_delay_ns_ = 0;
  } else if (young) {
    least_delay_ns_ = delay;
  } else if (std::abs(delay - least_delay_ns_) > 5 * kMs + line_.error(stamp)) {
    trusted_ = false;  // another clock's: it runs away
  }
}

void CameraClock::report(const SenderReport& report) noexcept {
  if (!begun_ || standing_ || is_candidate_ || line_.error(report.stamp) > ns(kMostSpread)) return;
  if (std::abs(ns(report.stamp - last_stamp_)) > 60 * kSecond) return;
  const double claimed_age = static_cast<double>(report.our_wall_ns) - static_cast<double>(report.wall_ns);
  const double delay = claimed_age - line_.above(report.stamp, report.arrived);
  delays_[static_cast<std::size_t>(next_report_)] = delay;
  next_report_ = (next_report_ + 1) % kReports;
  reports_ = std::min(reports_ + 1, kReports);
  std::array<double, kReports> sorted{};
  for (int i = 0; i < reports_; ++i) {
    auto* at = sorted.data() + i;
    for (; at != sorted.data() && at[-1] > delays_[static_cast<std::size_t>(i)]; --at) *at = at[-1];
    *at = delays_[static_cast<std::size_t>(i)];
  }
  reported_delay_ns_ = sorted[static_cast<std::size_t>(reports_ / 2)];
  reported_spread_ns_ = sorted[static_cast<std::size_t>(reports_ - 1)] - sorted[0];
  believed_ = reports_ >= 2 && reported_spread_ns_ <= ns(kMostSpread) && reported_delay_ns_ >= ns(kLeastBelieved) &&
              reported_delay_ns_ <= ns(kMostBelieved);
}

CaptureTime CameraClock::captured(CameraStamp stamp, TimePoint arrived) noexcept {
  const bool current = stamp.epoch >= epoch_ || !has_before_;
  if (!begun_ || (current ? standing_ : before_standing_)) return captured_unstamped(arrived);
  if (current && trusted_) {
    status_.source = ClockSource::kMonotonic;
    status_.offset = Duration::zero();
    status_.drift_ppm = 0;
    return held(TimePoint(stamp.time), duration_of(kDriver), arrived);
  }
  const ClockLine& line = current ? line_ : before_;
  double least = least_delay_ns_;
  double error = line.error(stamp.time);
  if (current && believed_) {
    least = std::max(0.0, reported_delay_ns_);
    error += reported_spread_ns_;
  }
  if (current) {
    status_.source = believed_ ? ClockSource::kRtcp : ClockSource::kEstimated;
    status_.drift_ppm = -line.slope() * 1e6;
    status_.offset = duration_of(reports_ > 0 ? least - reported_delay_ns_ : -line.gained(stamp.time));
  }
  return held(line.earliest(stamp.time) - duration_of(least), duration_of(error), arrived);
}

CaptureTime CameraClock::known(TimePoint captured, TimePoint arrived) noexcept {
  status_.source = ClockSource::kMonotonic;
  return held(captured, Duration::zero(), arrived);
}

CaptureTime CameraClock::captured_unstamped(TimePoint arrived) noexcept {
  status_.source = ClockSource::kArrival;
  status_.offset = Duration::zero();
  status_.drift_ppm = 0;
  return held(arrived, kUnsettled, arrived);
}

CaptureTime CameraClock::held(TimePoint captured, Duration uncertainty, TimePoint arrived) noexcept {
  const TimePoint kept = std::min(std::max(captured, last_captured_), arrived);
  if (kept > captured) uncertainty += kept - captured;
  last_captured_ = kept;
  status_.uncertainty = uncertainty;
  return {kept, uncertainty};
}

}  // namespace camd::capture
