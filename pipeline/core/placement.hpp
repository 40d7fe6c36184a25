// Placement: which lane shall work for which camera, by measured load. A lane's load is the part of its device's time
// that its cameras ask for: the sum of their frames a second, times the device's time for a frame. It is over 1 where
// they ask for more than there is.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace camd::pipeline {

struct LaneLoad {
  double seconds_per_frame = 0;  // 0: not known, taken for that of the lanes where it is
  bool usable = true;            // its device is not lost
};

struct CameraLoad {
  std::size_t lane = 0;
  double rate = 0;      // captured frames a second; 0: not known, taken for the mean of those that are
  bool movable = true;  // between two frames
};

// By lane.
[[nodiscard]] std::vector<double> loads_of(const std::vector<LaneLoad>& lanes, const std::vector<CameraLoad>& cameras);

// The lane whose load would be the least with one more camera of this rate; of equal ones the first. At least one lane
// must be usable.
[[nodiscard]] std::size_t place(const std::vector<LaneLoad>& lanes, const std::vector<CameraLoad>& cameras,
                                double rate);

struct Move {
  std::size_t camera = 0;
  std::size_t lane = 0;  // where it shall go
};
// What makes uneven load even: the camera whose move leaves the heavier of its two lanes with the least. Empty where
// nobody is held up (no lane is busy for kQuietLoad of its time), where the lightest lane lacks less than kUneven of
// the heaviest one's load, and where no move makes the heaviest lane lighter than the other one becomes.
inline constexpr double kQuietLoad = 0.3;
inline constexpr double kUneven = 0.1;
[[nodiscard]] std::optional<Move> next_move(const std::vector<LaneLoad>& lanes, const std::vector<CameraLoad>& cameras);

}  // namespace camd::pipeline
