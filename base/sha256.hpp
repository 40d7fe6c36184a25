// SHA-256 (FIPS 180-4) of a text or a file, as the metrics' start line names models and configurations.
//
// Threads: functions of their arguments, [any]; sha256_file() [blocks] on file input.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace camd::base {

// 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256(std::string_view bytes);

// The same for a file's content, read in pieces. Throws Error(kIo) naming the file when it cannot be read.
[[nodiscard]] std::string sha256_file(const std::filesystem::path& path);

}  // namespace camd::base
