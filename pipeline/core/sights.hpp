// Sights: what the cameras show, for the metrics lines: how many detections and tracks, which texts, and what has been
// counted in zones and at lines.
//
//   function   thread
//   note()     [post], one frame of a camera at a time, [no-alloc]
//   take()     [metrics] only
//   begin()    [setup]
//
// Invariants: of a camera's frames only the first after each take() is looked at; of the others only events are, and
//   most frames have none. Memory does not grow: what finds no room is left out.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "capture/frame.hpp"
#include "pipeline/core/postprocessor_chain.hpp"
#include "pipeline/core/slot_table.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

// What one frame of a camera showed, and what was counted until then.
struct Sight {
  struct Zone {
    std::string name;
    double inside = 0, entered = 0;
  };
  struct Gate {
    std::string name;
    double in = 0, out = 0;
  };
  std::uint32_t detections = 0;
  std::uint32_t tracks = 0;        // detections with a track_id
  std::vector<std::string> texts;  // of the detections, each once, in their order
  std::vector<Zone> zones;         // by the newest event of each: zone_entered, zone_left, zone_dwell
  std::vector<Gate> lines;         // by the newest line_crossed of each
};

class Sights {
 public:
  static constexpr std::size_t kMostTexts = 16;   // of a frame
  static constexpr std::size_t kMostPlaces = 32;  // zones and lines of a camera together

  explicit Sights(std::size_t cameras) : cameras_(cameras) {}  // [setup]
  void grow(std::size_t cameras) { cameras_.grow(cameras); }   // [setup] until there is room for so many
  // [setup] The slot is another camera's from now on.
  void begin(capture::CameraIndex camera);
  // [post] [no-alloc] A delivered frame.
  void note(capture::CameraIndex camera, const camd_results& results, const FramePostprocessing& frame) noexcept;
  // [metrics] Nothing when no frame was delivered since the last take().
  [[nodiscard]] std::optional<Sight> take(capture::CameraIndex camera);

 private:
  using Text = std::array<char, CAMD_TEXT_BYTES>;
  struct Place {
    std::array<char, sizeof(camd_event::zone)> name{};
    bool is_line = false;
    double first = 0, second = 0;
  };
  struct Camera {
    void look_at(const camd_results& results) noexcept CAMD_REQUIRES(mutex);
    void count(const camd_event& event) noexcept CAMD_REQUIRES(mutex);

    std::atomic<bool> wanted{true};  // the next frame is looked at
    base::Mutex mutex;
    std::uint32_t detections CAMD_GUARDED_BY(mutex) = 0;
    std::uint32_t tracks CAMD_GUARDED_BY(mutex) = 0;
    std::size_t text_count CAMD_GUARDED_BY(mutex) = 0;
    std::size_t place_count CAMD_GUARDED_BY(mutex) = 0;
    std::array<Text, kMostTexts> texts CAMD_GUARDED_BY(mutex);
    std::array<Place, kMostPlaces> places CAMD_GUARDED_BY(mutex);
  };
  SlotTable<Camera> cameras_;
};

}  // namespace camd::pipeline
