// Pictures: the latest picture of each camera that somebody asks for, as JPEG.
//
// Threads: [any], one at a time: a JPEG is made by who asks first, under the lock.
// Invariants: a camera's picture is copied and encoded only when somebody asks, and at most once in kFreshFor for each
// width, however many ask. What nobody has asked for in kForgottenAfter is forgotten.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/core/frame_tap.hpp"

namespace camd::http {

inline constexpr base::Duration kFreshFor = std::chrono::milliseconds(150);
inline constexpr base::Duration kForgottenAfter = std::chrono::seconds(10);

struct Jpeg {
  std::string bytes;
  std::uint64_t sequence = 0;
  int width = 0, height = 0;  // of the camera's picture, in pixels
  base::TimePoint delivered;
};

class Pictures {
 public:
  // Both outlive this.
  Pictures(const base::Clock& clock, pipeline::FrameTap& tap) : clock_(clock), tap_(tap) {}

  // A picture of the camera that was delivered within kFreshFor. Null: there is none yet; the camera's next one is on
  // order, so ask again. `slot` is the camera's, `most_width` as in plugins::jpeg_of(). Throws std::exception.
  [[nodiscard]] std::shared_ptr<const Jpeg> ask(const std::string& camera, capture::CameraIndex slot, int most_width);

 private:
  struct Kept {
    base::TimePoint asked;
    std::shared_ptr<const Jpeg> jpeg;
  };
  void take_over(base::TimePoint now) CAMD_REQUIRES(mutex_);

  const base::Clock& clock_;
  pipeline::FrameTap& tap_;
  base::Mutex mutex_;
  std::map<std::pair<std::string, int>, Kept> kept_ CAMD_GUARDED_BY(mutex_);  // by camera and width
};

}  // namespace camd::http
