// Chooses how frames travel through this device. What the configuration says is kept; the rest is measured.
//
// Threads: [setup], [blocks] for less than a second on a GPU, not at all on the host.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "pipeline/core/frame_path.hpp"

namespace camd::pipeline {

struct PathChoice {
  FramePathOptions options;
  std::string figures;           // for the start line: what was measured, or why nothing was
  int in_flight = 0;             // frames to have on the device at once; 0: DeviceInfo::default_depth
  double frames_per_second = 0;  // with so many; 0: not measured
};

// An empty `transfer` is measured by `clock`, and best_way() chooses for `demand`: how many frames a second the cameras
// of this device bring together, infinity where some come as fast as they are taken. Where the engine serves
// throughput as well, that is one more way, with kPinned or with the transfer that is given. On a device that can
// capture graphs, StreamStrategy::kSplit becomes one graph for each frame in flight. It orders upload, network and
// downloads as the three streams would. Throws Error(kDevice | kModel).
//
// How many frames a device that works by itself has at once is measured as well, see frames_in_flight(). Where memory
// for one more cannot be had, there are enough. On the host it is not measured: there whoever waits for a frame
// computes it, and a second one would only wait.
[[nodiscard]] PathChoice choose_path(const base::Clock& clock, device::Device& device, infer::Engine& engine,
                                     PostprocessorChain& postprocessors, StreamStrategy streams,
                                     std::optional<Transfer> transfer, double demand);

// `rates`: frames a second with one, two, ... in flight. Whether one more is to be measured.
[[nodiscard]] bool more_may_pay(std::span<const double> rates) noexcept;
// The fewest frames in flight with which the rate comes within 3 % of the best. Each keeps memory of the device, so one
// that brings less than that is one too many. `rates` as above; not empty.
[[nodiscard]] int fewest_that_pay(std::span<const double> rates) noexcept;

// How many frames a lane has on the device: the fewest that pay. Where many frames come, two more of those that were
// measured: decoders work beside the frames then, which the measurement does not see.
[[nodiscard]] int frames_in_flight(std::span<const double> rates, infer::Goal goal) noexcept;

// A way for frames through the device, as it was measured.
struct Way {
  Transfer transfer = Transfer::kPinned;
  double p50_us = 0;             // host to host, of one frame alone
  double frames_per_second = 0;  // with as many in flight as pay
  infer::Goal goal = infer::Goal::kLatency;
};
[[nodiscard]] std::string to_string(const Way& way);  // "pinned", "pinned for throughput"
// How long a frame takes where `demand` frames a second come, microseconds: alone, and the mean time in which it waits
// for those before it. For that the device counts as a server with one queue, a constant service time and frames that
// come at random (M/D/1, the formula of Pollaczek and Khinchine). Infinity where more come than it takes.
[[nodiscard]] double expected_us(const Way& way, double demand) noexcept;
// The way with the least expected time. Where each takes fewer frames than come, the one that takes the most. `all` is
// not empty.
[[nodiscard]] Way best_way(std::span<const Way> all, double demand) noexcept;

// What to say of `device` where more frames a second come than it takes, "" where it takes them all, or that is not
// known. `kept`: the way was chosen earlier, for other cameras.
[[nodiscard]] std::string too_many_frames(const std::string& device, const Way& way, double demand, bool kept);

}  // namespace camd::pipeline
