#include "capture/frame_source.hpp"

#include <atomic>
#include <variant>

#include "capture/gst_source.hpp"
#include "capture/test_source.hpp"

namespace camd::capture {

namespace {
std::atomic<bool> threads_left_behind{false};
}  // namespace

bool left_threads_behind() noexcept { return threads_left_behind; }
void note_left_behind() noexcept { threads_left_behind = true; }

std::string_view to_string(SourceState state) noexcept {
  switch (state) {
    case SourceState::kStarting: return "starting";
    case SourceState::kRunning: return "running";
    case SourceState::kStarved: return "starved";
    case SourceState::kStalled: return "stalled";
    case SourceState::kReconnecting: return "reconnecting";
    case SourceState::kEnded: return "ended";
    case SourceState::kFailed: return "failed";
  }
  return "?";
}

bool FrameSource::stop() noexcept {
  request_stop();
  return join(kStopPatience);
}

void check_source(const config::Camera& camera) {
  if (!std::holds_alternative<config::TestSource>(camera.source)) check_gst_source(camera);
}

std::unique_ptr<FrameSource> make_source(const config::Camera& camera, CameraIndex index, FrameRing& ring,
                                         SourceListener& listener, const base::Clock& clock) {
  if (const auto* const test = std::get_if<config::TestSource>(&camera.source)) {
    return make_test_source(*test, camera.name, index, ring, listener, clock);
  }
  return make_gst_source(camera, index, ring, listener, clock);
}

bool is_lossless(const config::Camera& camera) noexcept {
  if (const auto* const test = std::get_if<config::TestSource>(&camera.source)) return !test->realtime;
  if (const auto* const file = std::get_if<config::FileSource>(&camera.source)) return !file->realtime;
  return false;
}

}  // namespace camd::capture
