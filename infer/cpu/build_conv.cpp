#include "infer/cpu/build_conv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "infer/half.hpp"

namespace camd::infer::cpu {
namespace {

constexpr int kTiles = 24;  // of an item of a Winograd convolution

// A grouped weight as a dense one with zeros between the groups. Weights of both directions are laid out as
// [all channels of one side][channels of the other side in a group], so one rule fills both.
Constant ungrouped(const Constant& weight, int groups) {
  const Shape& s = weight.shape;
  const std::int64_t taps = s[2] * s[3];
  const std::int64_t per_group = s[0] / groups;
  Constant dense{DataType::kF32, {s[0], s[1] * groups, s[2], s[3]}, {}, {}};
  dense.f32.assign(at(s[0] * s[1] * groups * taps), 0.0F);
  for (std::int64_t m = 0; m < s[0]; ++m) {
    const std::int64_t group = m / per_group;
    for (std::int64_t c = 0; c < s[1]; ++c) {
      for (std::int64_t t = 0; t < taps; ++t) {
        dense.f32[at((m * s[1] * groups + group * s[1] + c) * taps + t)] = weight.f32[at((m * s[1] + c) * taps + t)];
      }
    }
  }
  return dense;
}

Constant part_of(const Constant& weight, std::int64_t first, std::int64_t count) {
  const Shape& s = weight.shape;
  const std::int64_t each = s[1] * s[2] * s[3];
  return {DataType::kF32,
          {count, s[1], s[2], s[3]},
          {weight.f32.begin() + first * each, weight.f32.begin() + (first + count) * each},
          {}};
}

void require_picture(Builder& builder, const Op& op) {
  if (builder.is_picture(op.inputs[0])) return;
  builder.refuse(op, fmt::format("its input is {}, a batch of one is needed", to_string(builder.shape(op.inputs[0]))));
}

// Groups that are not whole blocks run as a dense convolution with zeros.
void require_dense_fits(Builder& builder, const Op& op, const Constant& weight, int groups) {
  if (element_count(weight.shape) <= kMaxValueElements / groups) return;
  builder.refuse(op,
                 fmt::format("with {} groups its weight {} takes too much memory", groups, to_string(weight.shape)));
}

// Of a Conv or a ConvTranspose: each output channel is made of one input channel.
template <typename C>
bool is_depthwise(const C& conv, std::int64_t channels, std::int64_t outputs) {
  return conv.groups > 1 && conv.groups == channels && outputs == channels;
}

// What Conv and ConvTranspose have in common; without weights.
template <typename C>
ConvArguments arguments_of(Builder& builder, const Op& op, const C& conv) {
  ConvArguments a;
  a.kernel = conv.kernel;
  a.stride = conv.stride;
  a.dilation = conv.dilation;
  a.top = conv.pads.top;
  a.left = conv.pads.left;
  a.bias = builder.keep(pad_to_blocks(builder.constant(op.inputs[2]).f32));
  return a;
}

// The blocks of channels that a step reads and writes: all, or those of one group.
struct BlockRange {
  int first_in = 0, first_out = 0, out_blocks = 0;
};

// Weights of a dense convolution, packed as the kernels take them.
const void* keep_dense(Builder& builder, const Kernels& kernels, const Constant& weight) {
  std::vector<float> packed = pack_dense(weight, kernels.together);
  if (!kernels.half) return builder.keep(std::move(packed));
  std::vector<std::uint16_t> halves(packed.size());
  std::transform(packed.begin(), packed.end(), halves.begin(),
                 *kernels.half == HalfType::kF16 ? float_to_half : float_to_bf16);
  return builder.keep(std::move(halves));
}

void add_conv(Builder& builder, const Op& op, ConvForm form, ConvArguments arguments, const BlockRange& range,
              const Kernels& kernels) {
  const bool dense = form == ConvForm::kDense || form == ConvForm::kPlanar;
  auto step = std::make_unique<ConvStep>();
  step->kernels = &kernels;
  step->form = form;
  arguments.activation = op.activation;
  arguments.requantize = builder.requantize_of(op);
  const Shape& in = builder.shape(op.inputs[0]);
  if (form == ConvForm::kPlanar) {
    step->plain_in = builder.read_plain(op.inputs[0]);
    arguments.in = {nullptr, at(in[3]), at(in[2] * in[3]), number(in[1]), number(in[2]), number(in[3])};
  } else {
    step->in = builder.read_blocked(op.inputs[0]);
    const int channels = arguments.in.channels;
    arguments.in = step->in.form;
    if (channels > 0) arguments.in.channels = channels;
  }
  if (op.inputs.size() > 3 && op.inputs[3] != kNoValue) step->residual = builder.read_blocked(op.inputs[3]);
  step->out = builder.write_blocked(op.output);
  arguments.out = step->out.form;
  step->arguments = arguments;
  step->first_in_block = range.first_in;
  step->first_out_block = range.first_out;
  step->out_blocks = range.out_blocks;
  const int parallel = dense ? (range.out_blocks + kConvBlocks - 1) / kConvBlocks : range.out_blocks;
  step->bands = bands_for(arguments.out.height, parallel, builder.threads());
  step->items = parallel * step->bands;
  if (form == ConvForm::kPlanar) step->scratch = conv_planar_scratch(arguments);
  if (form == ConvForm::kWinograd) {
    // Some two dozen tiles an item: enough to use each weight often, few enough to stay in the cache. All threads get
    // as many, where there are few, and pixels by fours, as kernels take them.
    const int tiles = ((arguments.out.height + 3) / 4) * ((arguments.out.width + 3) / 4);
    const int parts = (tiles + kTiles - 1) / kTiles;
    const int even =
        parts < 4 * builder.threads() ? (parts + builder.threads() - 1) / builder.threads() * builder.threads() : parts;
    step->tiles = std::max(kTiles / 3, ((tiles + even - 1) / even + 3) / 4 * 4);
    step->items = (tiles + step->tiles - 1) / step->tiles;
    step->scratch = winograd_scratch(arguments, step->tiles);
  }
  builder.add(std::move(step), &op, step->plain_in, step->in, step->residual, step->out);
}

}  // namespace

// Worth its transforms where many channels share them.
bool suits_winograd(const Conv& conv, const Shape& in, const Shape& out) {
  return conv.groups == 1 && conv.kernel == Pair2{3, 3} && conv.stride == Pair2{1, 1} && conv.dilation == Pair2{1, 1} &&
         in[1] >= 16 && out[1] >= 16 && out[2] * out[3] >= 64;
}

bool suits_half(const Graph& graph, const Op& op, const Conv& conv) {
  const Shape& in = graph.shape(op.inputs[0]);
  const Shape& out = graph.shape(op.output);
  return !is_depthwise(conv, in[1], out[1]) && !suits_winograd(conv, in, out);
}

void build_conv(Builder& builder, const Op& op, const Conv& conv, const Kernels& kernels) {
  require_picture(builder, op);
  const Constant& weight = builder.constant(op.inputs[1]);
  const std::int64_t channels = builder.shape(op.inputs[0])[1];
  const std::int64_t outputs = builder.shape(op.output)[1];
  ConvArguments a = arguments_of(builder, op, conv);
  a.activation_first = conv.activation_first;
  const int out_blocks = blocks(number(outputs));
  if (is_depthwise(conv, channels, outputs)) {
    a.weights = builder.keep(pack_depthwise(weight));
    add_conv(builder, op, ConvForm::kDepthwise, a, {0, 0, out_blocks}, builder.kernels());
    return;
  }
  const std::int64_t in_each = channels / conv.groups;
  const std::int64_t out_each = outputs / conv.groups;
  if (conv.groups > 1 && in_each % kLanes == 0 && out_each % kLanes == 0) {
    for (int g = 0; g < conv.groups; ++g) {
      ConvArguments one = a;
      one.weights = keep_dense(builder, kernels, part_of(weight, g * out_each, out_each));
      one.bias = a.bias + g * out_each;
      one.in.channels = number(in_each);
      add_conv(builder, op, ConvForm::kDense, one,
               {number(g * in_each / kLanes), number(g * out_each / kLanes), number(out_each / kLanes)}, kernels);
    }
    return;
  }
  if (suits_winograd(conv, builder.shape(op.inputs[0]), builder.shape(op.output))) {
    // In f32 always: its transforms amplify what half precision rounds, to hundredths of a layer's largest value.
    a.weights = builder.keep_packed(op.inputs[1], "winograd",
                                    [&](const Constant& own) { return builder.keep(pack_winograd(own)); });
    add_conv(builder, op, ConvForm::kWinograd, a, {0, 0, out_blocks}, builder.kernels());
    return;
  }
  require_dense_fits(builder, op, weight, conv.groups);
  const bool planar = !builder.prefers_blocked(op.inputs[0]) && channels <= 4;
  // What reads the picture is in f32 always. It is little work, and all layers behind it amplify what it rounds.
  const Kernels& used = planar ? builder.kernels() : kernels;
  if (conv.groups > 1) {
    a.weights = keep_dense(builder, used, ungrouped(weight, conv.groups));
  } else {
    a.weights = builder.keep_packed(op.inputs[1], used.half ? "half" : "dense",
                                    [&](const Constant& own) { return keep_dense(builder, used, own); });
  }
  add_conv(builder, op, planar ? ConvForm::kPlanar : ConvForm::kDense, a, {0, 0, out_blocks}, used);
}

void build_transposed(Builder& builder, const Op& op, const ConvTranspose& conv) {
  require_picture(builder, op);
  const Constant& weight = builder.constant(op.inputs[1]);
  ConvArguments a = arguments_of(builder, op, conv);
  const std::int64_t channels = builder.shape(op.inputs[0])[1];
  const bool depthwise = is_depthwise(conv, channels, builder.shape(op.output)[1]);
  if (!depthwise) require_dense_fits(builder, op, weight, conv.groups);
  a.weights = builder.keep(depthwise          ? pack_depthwise(weight)
                           : conv.groups == 1 ? pack_transposed(weight)
                                              : pack_transposed(ungrouped(weight, conv.groups)));
  add_conv(builder, op, depthwise ? ConvForm::kTransposedDepthwise : ConvForm::kTransposed, a,
           {0, 0, blocks(number(builder.shape(op.output)[1]))}, builder.kernels());
}

}  // namespace camd::infer::cpu
