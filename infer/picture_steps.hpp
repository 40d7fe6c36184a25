// What a graph does to the picture before its first layer: exporters may put there what is otherwise done outside.
//
// Threads: [any].
#pragma once

#include <optional>

namespace camd::infer {

struct OnnxFile;

struct PictureSteps {
  bool scaled = false;    // by constants
  bool of_bytes = false;  // ... that are meant for pixels of 0 to 255, and not of 0 to 1
  bool reversed = false;  // its three channels: RGB becomes BGR, or the other way round
  // Where a mean of each channel is subtracted as ImageNet's pictures have it, of which red is the largest: whether the
  // graph takes red first.
  std::optional<bool> red_first;
  // What it makes of a picture of any size, in pixels; 0: it does not.
  int height = 0, width = 0;
};

// Follows the first input as long as one step after the other alone reads it: Cast, Identity, Transpose, Unsqueeze,
// Resize, Mul, Div, Add and Sub with a number or one for each channel, Gather and Slice of the channels in reverse.
[[nodiscard]] PictureSteps picture_steps(const OnnxFile& file);

}  // namespace camd::infer
