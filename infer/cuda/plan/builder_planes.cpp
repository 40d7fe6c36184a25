// PlanBuilder: the first convolution of f32.
#include "infer/cuda/plan/builder.hpp"
#include "infer/cuda/plan/handles.hpp"
#include "infer/cuda/plan/packing.hpp"

namespace camd::infer::cuda {

bool PlanBuilder::reads_planes(const Op& op, const Conv& conv) const {
  constexpr std::int64_t kMostChannels = 64;  // beyond, the tensor cores are faster
  const bool square = conv.kernel.y == conv.kernel.x && conv.stride.y == conv.stride.x;
  return options_.fuse && options_.read_planes && op.inputs[0] == graph_.input && is_picture(op.inputs[0]) &&
         conv.groups == 1 && conv.dilation == Pair2{1, 1} && square && residual_of(op) == kNoValue &&
         planes_conv_takes(conv.kernel.y, conv.stride.y) && shape(op.inputs[0])[1] <= kMostPlanes &&
         shape(op.output)[1] <= kMostChannels;
}

void PlanBuilder::emit_planes_conv(const Op& op, const Conv& conv) {
  const Shape& in = shape(op.inputs[0]);
  PlanesConvArguments a;
  a.planes = static_cast<const float*>(make_handle(kInputBuffer, 0));
  a.c = static_cast<int>(in[1]);
  a.height = static_cast<int>(in[2]);
  a.width = static_cast<int>(in[3]);
  a.kernel = conv.kernel.y;
  a.stride = conv.stride.y;
  a.pad_top = conv.pads.top;
  a.pad_left = conv.pads.left;
  a.activation = op.activation;
  a.type = type_;
  const int n = static_cast<int>(shape(op.output)[1]), n16 = round_up(n, 16), taps = a.c * a.kernel * a.kernel;
  const std::vector<float> w = floats(op.inputs[1]);
  std::vector<float> weights(static_cast<std::size_t>(taps * n16), 0.0F);
  for (int channel = 0; channel < n; ++channel) {
    for (int tap = 0; tap < taps; ++tap) {
      const int to = tap * n16 + channel, from = channel * taps + tap;
      weights[static_cast<std::size_t>(to)] = w[static_cast<std::size_t>(from)];
    }
  }
  a.weights = constant(weights);
  a.bias = padded_bias(floats(op.inputs[2]), 16);
  a.y = make_image(op.output, true);
  add_step(a, op.origin);
}

}  // namespace camd::infer::cuda
