#include "plugins/snapshot/album.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <stdexcept>

#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

bool is_of_album(std::string_view name) noexcept {
  constexpr std::string_view kForm = "dddddddd-dddddd.dddZ-";
  static_assert(kForm.size() == 21);
  if (name.size() <= kForm.size() || !name.ends_with(".jpg")) return false;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const char c = name[i];
    const bool fits = kForm[i] == 'd' ? c >= '0' && c <= '9' : i == 8 ? c == 'T' : c == kForm[i];
    if (!fits) return false;
  }
  return true;
}

}  // namespace

std::string album_name(std::int64_t unix_ns, std::string_view camera, std::string_view what, std::uint64_t track_id) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> time{};
  const std::size_t length = std::strftime(time.data(), time.size(), "%Y%m%dT%H%M%S", &utc);
  std::string name =
      fmt::format("{}.{:03}Z", std::string_view(time.data(), length), unix_ns % 1'000'000'000 / 1'000'000);
  for (const std::string_view part : {camera, what}) {
    if (!part.empty()) name += "-" + file_part(part);
  }
  if (track_id != 0) name += fmt::format("-{}", track_id);
  return name + ".jpg";
}

void Album::look() {
  create_parents(folder_ + "/x");
  pages_.clear();
  bytes_ = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    std::error_code problem;
    const std::uintmax_t size = is_of_album(name) ? entry.file_size(problem) : 0;
    if (!is_of_album(name) || problem) continue;
    pages_.push_back({name, size});
    bytes_ += size;
  }
  std::sort(pages_.begin(), pages_.end(), [](const Page& a, const Page& b) { return a.name < b.name; });
  looked_ = true;
}

void Album::add(const std::string& name, std::string_view bytes) {
  if (!looked_) look();
  if (bytes.size() > most_bytes_)
    throw std::runtime_error(name + ": the picture alone is bigger than the folder may be");
  while (bytes_ + bytes.size() > most_bytes_ && !pages_.empty()) {
    const std::string path = folder_ + "/" + pages_.front().name;
    // One that somebody else has removed is gone as well.
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw std::runtime_error(io_message(path, errno));
    bytes_ -= pages_.front().bytes;
    pages_.pop_front();
  }
  const std::string path = first_free(folder_ + "/" + name, is_there);
  write_whole_file(path, bytes.data(), bytes.size());
  Page page{path.substr(folder_.size() + 1), bytes.size()};
  const auto place = std::upper_bound(pages_.begin(), pages_.end(), page,
                                      [](const Page& a, const Page& b) { return a.name < b.name; });
  pages_.insert(place, std::move(page));
  bytes_ += bytes.size();
}

}  // namespace camd::plugins
