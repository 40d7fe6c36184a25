// PlanBuilder::emit_bottleneck().
#include "infer/cuda/plan/builder.hpp"
#include "infer/cuda/plan/packing.hpp"

namespace camd::infer::cuda {

void PlanBuilder::emit_bottleneck(const Op& point, const Bottleneck& block) {
  const Op& front = graph_.ops[static_cast<std::size_t>(block.front)];
  const Op& deep = graph_.ops[static_cast<std::size_t>(fusion_.depthwise_of.at(block.point))];
  BottleneckArguments a = block.sizes;
  a.x = image(front.inputs[0]);
  a.table = constant(block.table);
  const int c = a.c, width = a.x.c;
  const std::vector<float> front_weights = floats(front.inputs[1]);
  a.front = constant(pack_right(c, 8 * a.front_groups, [&](int n, int k) {
    const int channel = block.table[static_cast<std::size_t>(k / 8)] * 8 + k % 8;
    const int i = n * width + channel;
    return channel < width ? front_weights[static_cast<std::size_t>(i)] : 0.0F;
  }));
  a.front_bias = padded_bias(floats(front.inputs[2]), 16);
  a.front_activation = front.activation;
  const std::vector<float> taps = round_keeping_sums(floats(deep.inputs[1]), 9);
  a.depthwise = constant(pack_depthwise(c, [&](int tap, int ch) {
    const int i = ch * 9 + tap;
    return taps[static_cast<std::size_t>(i)];
  }));
  a.depthwise_bias = padded_bias(floats(deep.inputs[2]), 8);
  a.depthwise_activation = deep.activation;
  const std::vector<float> weights = floats(point.inputs[1]);
  a.pointwise = constant(pack_right(a.y.c, c, [&](int n, int k) {
    const int i = n * c + k;
    return weights[static_cast<std::size_t>(i)];
  }));
  a.pointwise_bias = padded_bias(floats(point.inputs[2]), 16);
  a.activation = point.activation;
  a.activation_first = std::get<Conv>(point.operation).activation_first;
  a.y = make_image(point.output, true);
  if (block.kept >= 0) a.kept = make_image(graph_.ops[static_cast<std::size_t>(block.kept)].output, true);
  add_step(a, front.origin + " + " + deep.origin + " + " + point.origin);
  constexpr double kFurther = 1500;  // than a usual step
  plan_.steps.back().cycles += kFurther;
}

}  // namespace camd::infer::cuda
