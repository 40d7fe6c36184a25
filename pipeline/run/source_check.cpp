#include "pipeline/run/source_check.hpp"

#include <string>

#include "base/error.hpp"
#include "capture/frame_source.hpp"

namespace camd::pipeline {

void check_sources(const config::Config& config) {
  std::string mistakes;
  base::ErrorKind kind = base::ErrorKind::kSource;
  for (const config::Camera& camera : config.cameras) {
    try {
      capture::check_source(camera);
    } catch (const base::Error& error) {
      if (!mistakes.empty()) mistakes += '\n';
      mistakes += error.what();
      if (error.kind() == base::ErrorKind::kConfig) kind = error.kind();
    }
  }
  if (!mistakes.empty()) throw base::Error(kind, mistakes);
}

}  // namespace camd::pipeline
