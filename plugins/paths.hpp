// Where the built-ins write: `{camera}`, `{sequence}` and times in paths, names that nothing has yet, folders, files
// that appear whole or not at all.
//
// Threads: [any], no shared state.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
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
[[nodiscard]] std::vector<std::string> camera_parts(const std::vector<std::string>& names);
[[nodiscard]] std::vector<std::string> camera_parts(const camd_model& model);

// The path of one camera: `{camera}` filled in, or, where the path has none and there are several cameras,
// "-CAMERA" before the extension.
[[nodiscard]] std::string camera_path(const std::string& path, const std::string& camera_part, bool several);

// What is wrong with the times in `path`, empty when nothing is: of strftime's conversions those that are at_time()'s.
[[nodiscard]] std::string time_problem(std::string_view path);
// `path` with %Y, %y, %m, %d, %j, %H, %M, %S, %F and %% filled in as strftime does, in UTC.
[[nodiscard]] std::string at_time(const std::string& path, std::time_t when);

// The second, third, ... file beside `path`: "out/door.mp4" becomes "out/door-2.mp4". 1 is `path` itself.
[[nodiscard]] std::string numbered(const std::string& path, int number);
// The first of numbered(path, 1), numbered(path, 2), ... that `taken` is false for.
template <class Taken>
[[nodiscard]] std::string first_free(const std::string& path, Taken&& taken) {
  for (int number = 1;; ++number) {
    std::string name = numbered(path, number);
    if (!taken(name)) return name;
  }
}
[[nodiscard]] bool is_there(const std::string& path);
// Whether there is a file whose name is `path` with a number for `{sequence}`.
[[nodiscard]] bool has_sequences(const std::string& path);

// Which file it is, whatever it is called.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileId& a, const FileId& b) { return a.device == b.device && a.inode == b.inode; }
};
// The file that `path` leads to; FileId() for none.
[[nodiscard]] FileId file_at(const std::string& path);

// Creates the folders above `path`. Throws std::invalid_argument naming the folder and the cause.
void create_parents(const std::string& path);

// Why no file can be made in `folder`, "" for the working directory; empty: one can. Folders that are missing would be
// made, so the nearest one that is there decides. Makes nothing.
[[nodiscard]] std::string folder_problem(const std::string& folder);

// "PATH: No space left on device"
[[nodiscard]] std::string io_message(const std::string& path, int error_number);

// Writes `bytes` into a new file beside `path` and renames it. A folder that has gone is made anew. Throws
// std::runtime_error; leaves nothing behind then.
void write_whole_file(const std::string& path, const void* bytes, std::size_t size);

}  // namespace camd::plugins
