// How many of a network's first convolutions have to be computed in f32 so that f16 does for the rest: some networks
// amplify what their first layers round a thousandfold. Whether one does shows on a picture made for it, in f16 and in
// f32, when its engine is made (docs/adr/0016).
//
// Threads: functions of their arguments, [any]; part of preparing an engine. No GPU is needed.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace camd::infer::cuda {

// A BGR picture [height][width][3] of a network's proportions, the same for each call: texture of all sizes above,
// below it grey as letterboxes have it and black. Large even areas are what f16 errs on most: there a layer's errors
// are the same at every pixel and add up in the next one.
[[nodiscard]] std::vector<std::byte> trial_picture(int width, int height);

// The worst element of all outputs in shares of its output's largest wanted value; infinite where it is not a number.
[[nodiscard]] float distance(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want);

// Of an output's largest value: up to here f16 stays by itself, and, where it does not, to here it must come down.
// Frames of cameras were between a half and 1.4 times as far off as this picture.
inline constexpr float kToleratedDistance = 0.04F;
inline constexpr float kWantedDistance = 0.01F;

// `distance_of(n)`: how far the network is off with its first n convolutions in f32. Asked for 0 first, then for more
// and more. The answer is what it was last asked for, or `convolutions` (then nothing is left for f16).
[[nodiscard]] int exact_convolutions(int convolutions, const std::function<float(int n)>& distance_of);

}  // namespace camd::infer::cuda
