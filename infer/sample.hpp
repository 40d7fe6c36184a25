// How one pixel of the network's input is computed from a picture. The host's loops and the GPU's kernels share it.
//
// Threads: plain values and pure functions, [any]; compiled for the host and, under nvcc, for the device.
// Definition. Network pixel x shows the source span [x, x+1) * step + origin (pixel centres at .5). The span is cut
// into `taps` equal pieces, each read with linear interpolation at its centre; the pixel is their mean. With
// taps = ceil(step / 2) this is plain bilinear resizing up to a shrink of 2 (as OpenCV's INTER_LINEAR) and close to
// area averaging beyond, where bilinear would skip source pixels and make fine patterns flicker. Outside the picture
// its border repeats. Chroma planes have an axis of their own (samples centred between the luma samples they cover,
// as JPEG and OpenCV have it), so colour is interpolated before it is converted: conversion happens once per network
// pixel, Y'CbCr to R'G'B' after ITU-R BT.601-7 section 2.5.1 and BT.709-6 section 3.
#pragma once

#include <cstdint>

#include "base/picture.hpp"
#include "infer/engine.hpp"

#if defined(__CUDACC__)
#define CAMD_HOST_DEVICE __host__ __device__
#else
#define CAMD_HOST_DEVICE
#endif

namespace camd::infer {

// From network pixels to samples of a plane, along one axis.
struct SampleAxis {
  float step = 1.0F;    // samples a network pixel
  float origin = 0.0F;  // sample position (centres at .5) of network position 0
  int taps = 1;
  int size = 1;  // samples of the plane
};

// Two neighbouring samples and the second one's weight.
struct SampleTap {
  int first = 0;
  int second = 0;
  float weight = 0.0F;
};

CAMD_HOST_DEVICE inline SampleTap sample_tap(const SampleAxis& axis, int network, int tap) noexcept {
  const float piece = (static_cast<float>(tap) + 0.5F) / static_cast<float>(axis.taps);
  float at = (static_cast<float>(network) + piece) * axis.step + axis.origin - 0.5F;
  const auto last = static_cast<float>(axis.size - 1);
  at = at < 0.0F ? 0.0F : at > last ? last : at;
  SampleTap result;
  result.first = static_cast<int>(at);  // truncation is floor: at >= 0
  result.second = result.first + 1 < axis.size ? result.first + 1 : result.first;
  result.weight = at - static_cast<float>(result.first);
  return result;
}

// One of a pixel's stored components (B, G, R or Y, Cb, Cr).
struct SampleComponent {
  int plane = 0;         // index into SamplePlan::planes
  int offset_bytes = 0;  // within a group of samples: 1 for the Cr of NV12
  int step_bytes = 1;    // from one sample of this component to the next
  SampleAxis x, y;
};

struct SamplePlane {
  std::size_t offset_bytes = 0;
  int stride_bytes = 0;
  int row_bytes = 0;  // bytes of a row that hold samples
};

enum class SampleColor : std::uint8_t {
  kDirect,  // components are already the network's three channels, in its order
  kGray,    // one component stands for all three
  kYcc,     // Y', Cb, Cr
};

// All that the functions below need to know of a picture's layout and a network's input. Kernels take it by value.
struct SamplePlan {
  SamplePlane planes[3];
  SampleComponent components[3];
  int plane_count = 0;
  int component_count = 0;
  SampleColor color = SampleColor::kDirect;
  // Network channel c of a Y'CbCr pixel: matrix[c][0]*Y + [1]*Cb + [2]*Cr + [3], clamped to 0..255.
  float matrix[3][4] = {};
  // Network value = channel * gain + bias.
  float gain[3] = {1, 1, 1};
  float bias[3] = {0, 0, 0};
  float pad[3] = {0, 0, 0};  // network values outside the picture
  int network_width = 0;
  int network_height = 0;
  // Network pixels that show the picture: [x0, x1) x [y0, y1).
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};

// Where a picture lies.
struct PicturePlace {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* const* at = nullptr;  // in place of `data`: where its address stands when it is read
};
CAMD_HOST_DEVICE inline const std::uint8_t* bytes_of(const PicturePlace& picture) noexcept {
  return picture.at == nullptr ? picture.data : *picture.at;
}

CAMD_HOST_DEVICE inline float clamp_channel(float value) noexcept {
  return value < 0.0F ? 0.0F : value > 255.0F ? 255.0F : value;
}

// The mean of the pieces of component `c` at network pixel (x, y).
CAMD_HOST_DEVICE inline float sample_component(const SamplePlan& plan, const std::uint8_t* picture, int c, int x,
                                               int y) noexcept {
  const SampleComponent& component = plan.components[c];
  const SamplePlane& plane = plan.planes[component.plane];
  const std::uint8_t* data = picture + plane.offset_bytes + component.offset_bytes;
  float sum = 0.0F;
  for (int j = 0; j < component.y.taps; ++j) {
    const SampleTap ty = sample_tap(component.y, y, j);
    const std::uint8_t* row0 = data + static_cast<std::size_t>(ty.first) * static_cast<std::size_t>(plane.stride_bytes);
    const std::uint8_t* row1 =
        data + static_cast<std::size_t>(ty.second) * static_cast<std::size_t>(plane.stride_bytes);
    for (int i = 0; i < component.x.taps; ++i) {
      const SampleTap tx = sample_tap(component.x, x, i);
      const int a = tx.first * component.step_bytes;
      const int b = tx.second * component.step_bytes;
      const float left =
          static_cast<float>(row0[a]) + ty.weight * (static_cast<float>(row1[a]) - static_cast<float>(row0[a]));
      const float right =
          static_cast<float>(row0[b]) + ty.weight * (static_cast<float>(row1[b]) - static_cast<float>(row0[b]));
      sum += left + tx.weight * (right - left);
    }
  }
  return sum / static_cast<float>(component.x.taps * component.y.taps);
}

// The three network values, in the network's channel order, of network pixel (x, y).
CAMD_HOST_DEVICE inline void sample_pixel(const SamplePlan& plan, const std::uint8_t* picture, int x, int y,
                                          float out[3]) noexcept {
  if (x < plan.x0 || x >= plan.x1 || y < plan.y0 || y >= plan.y1) {
    for (int c = 0; c < 3; ++c) out[c] = plan.pad[c];
    return;
  }
  const float first = sample_component(plan, picture, 0, x, y);
  if (plan.color == SampleColor::kGray) {
    for (int c = 0; c < 3; ++c) out[c] = first * plan.gain[c] + plan.bias[c];
    return;
  }
  const float second = sample_component(plan, picture, 1, x, y);
  const float third = sample_component(plan, picture, 2, x, y);
  if (plan.color == SampleColor::kDirect) {
    out[0] = first * plan.gain[0] + plan.bias[0];
    out[1] = second * plan.gain[1] + plan.bias[1];
    out[2] = third * plan.gain[2] + plan.bias[2];
    return;
  }
  for (int c = 0; c < 3; ++c) {
    const float channel =
        plan.matrix[c][0] * first + plan.matrix[c][1] * second + plan.matrix[c][2] * third + plan.matrix[c][3];
    out[c] = clamp_channel(channel) * plan.gain[c] + plan.bias[c];
  }
}

// [any] [no-alloc] The plan for pictures of `layout` and a network input of options.width x options.height.
[[nodiscard]] SamplePlan make_sample_plan(const base::PictureLayout& layout, const InputOptions& options) noexcept;

}  // namespace camd::infer
