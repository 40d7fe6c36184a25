#include "plugins/track/motion.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace camd::plugins::track {
namespace {

// Deviations as shares of the side that the number goes with. Measured ones are of a sight; the others are noise that a
// frame's time adds, at 30 frames a second, and grow with the root of the time. ByteTrack's and BoT-SORT's are 1/20,
// 1/20 and 1/160: on the sequences of scripts/measure_tracks.py a calmer filter loses fewer objects that are covered.
constexpr float kFramesPerSecond = 30.0F;
constexpr float kMeasured = 0.035F;
constexpr float kWalk = 0.01F;                                  // of the value
constexpr float kPush = 1.0F / 640.0F * kFramesPerSecond;       // of the velocity
constexpr float kFirstSpeed = 1.0F / 16.0F * kFramesPerSecond;  // a new track's, unknown

float square(float x) noexcept { return x * x; }

// The side that decides the noise of line `i`. Never 0, so that a box without a size divides nothing by 0.
float side_of(const std::array<Line, 4>& lines, std::size_t i) noexcept {
  return std::max(1.0F, lines[2 + i % 2].value);
}

std::array<float, 4> numbers(const Box& box) noexcept {
  return {box.x + box.width / 2, box.y + box.height / 2, box.width, box.height};
}

}  // namespace

float overlap(const Box& a, const Box& b, float grow) noexcept {
  const auto span = [grow](float a0, float a_side, float b0, float b_side) {
    const float left = std::max(a0 - grow * a_side, b0 - grow * b_side);
    const float right = std::min(a0 + (1 + grow) * a_side, b0 + (1 + grow) * b_side);
    return std::max(0.0F, right - left);
  };
  const float shared = span(a.x, a.width, b.x, b.width) * span(a.y, a.height, b.y, b.height);
  const float all = square(1 + 2 * grow) * (a.width * a.height + b.width * b.height) - shared;
  return all > 0.0F ? shared / all : 0.0F;
}

Motion::Motion(const Box& seen) noexcept {
  const std::array<float, 4> values = numbers(seen);
  for (std::size_t i = 0; i < 4; ++i) lines_[i].value = values[i];
  for (std::size_t i = 0; i < 4; ++i) {
    lines_[i].vv = square(2 * kMeasured * side_of(lines_, i));
    lines_[i].ss = square(kFirstSpeed * side_of(lines_, i));
  }
}

void Motion::predict(float seconds) noexcept {
  const float frames = seconds * kFramesPerSecond;
  std::array<float, 4> sides{};
  for (std::size_t i = 0; i < 4; ++i) sides[i] = side_of(lines_, i);
  for (std::size_t i = 0; i < 4; ++i) {
    Line& line = lines_[i];
    const float walk = square(kWalk * sides[i]) * frames, push = square(kPush * sides[i]) * frames;
    line.value += line.velocity * seconds;
    // F P F' + Q; the velocity's noise enters the value as that of a velocity that is pushed all the time.
    line.vv += seconds * (2 * line.vs + seconds * line.ss) + walk + push * seconds * seconds / 3;
    line.vs += seconds * line.ss + push * seconds / 2;
    line.ss += push;
  }
  // A box that shrinks away stays a box.
  for (std::size_t i = 2; i < 4; ++i) lines_[i].value = std::max(1.0F, lines_[i].value);
}

void Motion::correct(const Box& seen) noexcept {
  const std::array<float, 4> values = numbers(seen);
  std::array<float, 4> sides{};
  for (std::size_t i = 0; i < 4; ++i) sides[i] = side_of(lines_, i);
  for (std::size_t i = 0; i < 4; ++i) {
    Line& line = lines_[i];
    const float spread = line.vv + square(kMeasured * sides[i]);
    const float gain = line.vv / spread, speed_gain = line.vs / spread;
    const float off = values[i] - line.value;
    line.value += gain * off;
    line.velocity += speed_gain * off;
    line.ss -= speed_gain * line.vs;
    line.vs -= gain * line.vs;
    line.vv -= gain * line.vv;
  }
}

void Motion::shift(float x, float y) noexcept {
  lines_[0].value += x;
  lines_[1].value += y;
}

void Motion::stop_shrinking() noexcept {
  for (std::size_t i = 2; i < 4; ++i) lines_[i].velocity = std::max(0.0F, lines_[i].velocity);
}

Box Motion::box() const noexcept {
  const float width = lines_[2].value, height = lines_[3].value;
  return {lines_[0].value - width / 2, lines_[1].value - height / 2, width, height};
}

}  // namespace camd::plugins::track
