// Mixed precision: which of a network's first convolutions are computed in f32, so that f16 does for the rest. Some
// networks amplify the rounding of their first layers a thousandfold. When an engine is made, it computes one picture
// in f16 and in f32 and compares the outputs (docs/adr/0016-f16-as-far-as-it-goes.md).
//
// Threads: functions of their arguments, [any]; called while an engine is made. No GPU is needed.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace camd::infer::cuda {

// The picture that is computed: BGR, [height][width][3], the same at each call. Its upper half is texture of all sizes.
// Its lower half is the grey of letterboxes, and black. f16 errs most on large even areas: there a layer's errors are
// the same at every pixel and add up in the next layer.
[[nodiscard]] std::vector<std::byte> trial_picture(int width, int height);

// The largest difference of an element, as a share of the largest wanted value of its output; infinite where an element
// is not a number.
[[nodiscard]] float distance(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want);

// Shares of an output's largest value. Up to kToleratedDistance the network is computed in f16 alone. Beyond,
// convolutions in f32 must bring the distance down to kWantedDistance. Frames of cameras were 0.5 to 1.4 times as far
// off as this picture.
inline constexpr float kToleratedDistance = 0.04F;
inline constexpr float kWantedDistance = 0.01F;

// How many convolutions are computed in f32, of `convolutions`. `distance_of(n)` tells how far the network is off with
// its first n in f32; it is called for 0, then for more and more. The result is its last n, or `convolutions`, which
// leaves nothing for f16.
[[nodiscard]] int choose_f32_convolutions(int convolutions, const std::function<float(int n)>& distance_of);

}  // namespace camd::infer::cuda
