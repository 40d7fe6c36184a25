#include "pipeline/core/sights.hpp"

#include <algorithm>
#include <cstring>

namespace camd::pipeline {
namespace {

double number_of(const camd_event& event, std::string_view name) noexcept {
  for (std::int32_t i = 0; i < event.number_count; ++i) {
    if (name == event.numbers[i].name) return event.numbers[i].value;
  }
  return 0;
}

}  // namespace

void Sights::begin(capture::CameraIndex index) {
  Camera& camera = cameras_[index];
  const base::MutexLock lock(camera.mutex);
  camera.place_count = 0;
  camera.wanted = true;
}

void Sights::note(capture::CameraIndex index, const camd_results& results, const FramePostprocessing& frame) noexcept {
  Camera& camera = cameras_[index];
  const std::int32_t events = frame.event_count();
  const bool wanted = camera.wanted.load(std::memory_order_relaxed);
  if (!wanted && events == 0) return;
  const base::MutexLock lock(camera.mutex);
  for (std::int32_t i = 0; i < events; ++i) camera.count(*frame.event(i));
  if (wanted) camera.look_at(results);
}

void Sights::Camera::look_at(const camd_results& results) noexcept {
  detections = static_cast<std::uint32_t>(results.count);
  tracks = 0;
  text_count = 0;
  for (std::int32_t i = 0; i < results.count; ++i) {
    const camd_detection& d = results.items[i];
    tracks += d.track_id != 0 ? 1 : 0;
    if (d.text[0] == '\0' || text_count == kMostTexts) continue;
    const auto end = texts.begin() + static_cast<std::ptrdiff_t>(text_count);
    const auto same = [&d](const Text& text) { return std::strcmp(text.data(), d.text) == 0; };
    if (std::any_of(texts.begin(), end, same)) continue;
    std::copy(std::begin(d.text), std::end(d.text), texts[text_count++].begin());
  }
  wanted = false;
}

void Sights::Camera::count(const camd_event& event) noexcept {
  const std::string_view name(event.name);
  const bool is_line = name == "line_crossed";
  if (!is_line && name != "zone_entered" && name != "zone_left" && name != "zone_dwell") return;
  std::size_t at = 0;
  while (at < place_count && (places[at].is_line != is_line || std::strcmp(places[at].name.data(), event.zone) != 0)) {
    ++at;
  }
  if (at == kMostPlaces) return;
  Place& place = places[at];
  if (at == place_count) {
    ++place_count;
    place.is_line = is_line;
    std::copy(std::begin(event.zone), std::end(event.zone), place.name.begin());
  }
  place.first = number_of(event, is_line ? "in" : "inside");
  place.second = number_of(event, is_line ? "out" : "entered");
}

std::optional<Sight> Sights::take(capture::CameraIndex index) {
  Camera& camera = cameras_[index];
  const base::MutexLock lock(camera.mutex);
  if (camera.wanted.exchange(true)) return std::nullopt;
  Sight sight;
  sight.detections = camera.detections;
  sight.tracks = camera.tracks;
  for (std::size_t i = 0; i < camera.text_count; ++i) sight.texts.emplace_back(camera.texts[i].data());
  for (std::size_t i = 0; i < camera.place_count; ++i) {
    const Place& place = camera.places[i];
    if (place.is_line) {
      sight.lines.push_back({place.name.data(), place.first, place.second});
    } else {
      sight.zones.push_back({place.name.data(), place.first, place.second});
    }
  }
  return sight;
}

}  // namespace camd::pipeline
