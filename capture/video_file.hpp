// What can be said of a video file without opening it.
//
// Threads: functions [any].
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.hpp"

namespace camd::capture {

// Throws Error(kSource) that names the file.
[[noreturn]] inline void refuse_file(const std::filesystem::path& path, const std::string& why) {
  throw base::Error(base::ErrorKind::kSource, fmt::format("{}: {}", path.string(), why));
}

// Throws what refuse_file() throws for what cannot be a video: nothing there, a directory, an empty file.
inline void check_video_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    refuse_file(path, status.type() == std::filesystem::file_type::not_found ? "no such file" : error.message());
  }
  if (std::filesystem::is_directory(status)) refuse_file(path, "is a directory, not a video file");
  if (std::filesystem::is_regular_file(status) && std::filesystem::file_size(path, error) == 0) {
    refuse_file(path, "the file is empty");
  }
}

}  // namespace camd::capture
