// Set-up throws where per-frame work returns a Status (CONTRIBUTING.md, "Errors").
//
// Threads: [any].
#pragma once

#include "base/error.hpp"

namespace camd::pipeline {

// [setup] Throws the Error that a failed `status` tells of.
inline void throw_if_failed(const base::Status& status) {
  if (!status.ok()) throw base::Error(status.kind(), status.message());
}

}  // namespace camd::pipeline
