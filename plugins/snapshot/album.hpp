// Album: pictures in a folder whose size is bounded; the oldest go first.
//
// Threads: one at a time; all functions [block] on the disk.
// Invariants: a file appears whole or not at all. Only files that are named as the album names its own are counted and
// removed.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace camd::plugins {

// "20261124T131500.123Z-door-person-7.jpg": in the order of their names they are in the order of their time. Parts that
// are empty, and a track of 0, are left out.
[[nodiscard]] std::string album_name(std::int64_t unix_ns, std::string_view camera, std::string_view what,
                                     std::uint64_t track_id);

class Album {
 public:
  // Touches nothing yet.
  Album(std::string folder, std::uint64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}
  // Makes room, then writes the file; a number is added to a name that is taken. Throws std::runtime_error.
  void add(const std::string& name, std::string_view bytes);
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void look();
  struct Page {
    std::string name;
    std::uint64_t bytes = 0;
  };
  const std::string folder_;
  const std::uint64_t most_bytes_;
  bool looked_ = false;
  std::deque<Page> pages_;  // by name
  std::uint64_t bytes_ = 0;
};

}  // namespace camd::plugins
