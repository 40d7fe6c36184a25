// The times that a GStreamer sample carries.
//
// Threads: functions [any].
#pragma once

#include <gst/gst.h>

#include <optional>

#include "base/clock.hpp"

namespace camd::capture {

// The sample's time in its stream, from 0 where it began. Empty where it has none.
[[nodiscard]] std::optional<base::Duration> running_time_of(GstSample* sample);

// The sample's time on the pipeline's clock, which is CLOCK_MONOTONIC. Empty where it has none, or one that cannot be.
[[nodiscard]] std::optional<base::TimePoint> clock_time_of(GstSample* sample, GstElement* pipeline);

}  // namespace camd::capture
