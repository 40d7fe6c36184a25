// Where a box is and how it moves: a Kalman filter with constant velocity for centre, width and height.
//
// Threads: values without shared state.
// Invariants: [no-alloc]. The noise of the four numbers is independent, so that the usual filter with eight states is
//   four with two states each. All noise is per second, not per frame: a dropped frame is a longer step.
#pragma once

#include <array>

namespace camd::plugins::track {

struct Box {  // source pixels
  float x = 0.0F, y = 0.0F, width = 0.0F, height = 0.0F;
};

// Intersection over union of both boxes after each has grown by `grow` of its sides at every edge.
[[nodiscard]] float overlap(const Box& a, const Box& b, float grow) noexcept;

// One number and its velocity.
struct Line {
  float value = 0.0F, velocity = 0.0F;
  float vv = 0.0F, vs = 0.0F, ss = 0.0F;  // covariance: of value, of value and velocity, of velocity
};

class Motion {
 public:
  Motion() = default;
  // Velocity 0, and unsure of it.
  explicit Motion(const Box& seen) noexcept;
  void predict(float seconds) noexcept;
  void correct(const Box& seen) noexcept;
  // Moves all of it: the camera has turned.
  void shift(float x, float y) noexcept;
  // Width and height grow on, but shrink no more.
  void stop_shrinking() noexcept;
  [[nodiscard]] Box box() const noexcept;

 private:
  std::array<Line, 4> lines_{};  // centre x, centre y, width, height
};

}  // namespace camd::plugins::track
