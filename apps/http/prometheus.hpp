// The page /metrics: a snapshot in Prometheus's text format, version 0.0.4
// (prometheus.io/docs/instrumenting/exposition_formats). docs/http.md lists what it has.
//
// Threads: a function of its arguments, [any].
// Invariants: names and units follow Prometheus's rules: base units, counters end with _total. Labels are bounded:
// cameras, stages, outcomes, plug-ins and their counters, devices. For each camera, in every page: captured = sum of
// frames by outcome + in flight, exactly.
#pragma once

#include <string>

#include "config/config.hpp"
#include "pipeline/run/snapshot.hpp"

namespace camd::http {

inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

[[nodiscard]] std::string prometheus_text(const pipeline::Snapshot& now, const std::string& version,
                                          const config::Shard& shard);

}  // namespace camd::http
