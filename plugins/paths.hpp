// Where the built-ins write: `{camera}` and `{sequence}` in paths, folders, files that appear whole or not at all.
//
// Threads: [any], no shared state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

// `name` as a part of a file name: anything but letters, digits, '-', '_' and '.' becomes '_', so that no camera's
// name can leave the folder.
[[nodiscard]] std::string file_part(std::string_view name);

// Every `from` in `text` replaced.
[[nodiscard]] std::string replaced(std::string text, std::string_view from, std::string_view to);

// The cameras' names as parts of file names; "" for a place that no camera has. Throws std::invalid_argument when two
// become the same.
[[nodiscard]] std::vector<std::string> camera_parts(const camd_model& model);

// The path of one camera: `{camera}` filled in, or, where the path has none and there are several cameras,
// "-CAMERA" before the extension.
[[nodiscard]] std::string camera_path(const std::string& path, const std::string& camera_part, bool several);

// Where an instance that a reload made writes instead, so that nothing of before is replaced: "out/door.mp4" becomes
// "out/door-reload2.mp4" after the second reload. `reloads` is camd_host.reloads; 0 changes nothing.
[[nodiscard]] std::string after_reload(const std::string& path, std::uint32_t reloads);

// Creates the folders above `path`. Throws std::invalid_argument naming the folder and the cause.
void create_parents(const std::string& path);

// "PATH: No space left on device"
[[nodiscard]] std::string io_message(const std::string& path, int error_number);

// Writes `bytes` into a new file beside `path` and renames it. Throws std::runtime_error; leaves nothing behind then.
void write_whole_file(const std::string& path, const void* bytes, std::size_t size);

}  // namespace camd::plugins
