#include "capture/gst_sample_times.hpp"

namespace camd::capture {

using base::Duration;
using base::TimePoint;

std::optional<Duration> running_time_of(GstSample* sample) {
  const GstClockTime pts = GST_BUFFER_PTS(gst_sample_get_buffer(sample));
  const GstSegment* const segment = gst_sample_get_segment(sample);
  if (!GST_CLOCK_TIME_IS_VALID(pts) || segment == nullptr || segment->format != GST_FORMAT_TIME) return std::nullopt;
  const GstClockTime running = gst_segment_to_running_time(segment, GST_FORMAT_TIME, pts);
  if (!GST_CLOCK_TIME_IS_VALID(running)) return std::nullopt;
  return Duration(static_cast<std::int64_t>(running));
}

std::optional<TimePoint> clock_time_of(GstSample* sample, GstElement* pipeline) {
  const auto running = running_time_of(sample);
  const GstClockTime base_time = gst_element_get_base_time(pipeline);
  constexpr Duration kLongest = std::chrono::hours(24 * 365 * 30);  // streams can name any time
  if (!running || *running < Duration::zero() || *running > kLongest) return std::nullopt;
  if (!GST_CLOCK_TIME_IS_VALID(base_time)) return std::nullopt;
  return base::from_ns(static_cast<std::int64_t>(base_time)) + *running;
}

}  // namespace camd::capture
