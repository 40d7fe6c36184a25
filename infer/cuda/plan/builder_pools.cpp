// PlanBuilder: pools.
#include <vector>

#include "infer/cuda/plan/builder.hpp"
#include "infer/cuda/plan/handles.hpp"

namespace camd::infer::cuda {

void PlanBuilder::emit(const Op& op, const Pool& pool, int index) {
  if (const auto pools = fusion_.max_pools.find(index); pools != fusion_.max_pools.end())
    return emit_max_pools(pools->second);
  PoolArguments a;
  a.x = image(op.inputs[0]);
  a.type = type_;
  a.pool = pool;
  a.y = make_image(op.output, true);
  add_step(a, op.origin);
}

void PlanBuilder::emit_max_pools(const MaxPools& pools) {
  MaxPoolsArguments a;
  a.x = image(pools.x);
  a.type = type_;
  std::string origin;
  for (std::size_t i = 0; i < pools.ops.size(); ++i) {
    const Op& op = graph_.ops[static_cast<std::size_t>(pools.ops[i])];
    a.radius[a.count] = pools.radius[i];
    a.y[a.count++] = make_image(op.output, true);
    origin += (i == 0 ? "" : " + ") + op.origin;
  }
  add_step(a, origin);
}

void PlanBuilder::add_pixel_sums(GenericConvArguments& a, const PixelSums& sums) {
  const Shape& s = shape(sums.image);
  a.sum_pitch = static_cast<int>(s[1]);
  SumsOfPixels& made = pixel_sums_[sums.image];
  if (made.buffer < 0) {
    const std::int64_t lines = depthwise_sum_parts(static_cast<int>(s[2] * s[3]));
    made.buffer = new_buffer(BufferKind::kArena, static_cast<std::size_t>(lines * s[1]) * sizeof(float));
  }
  const auto from = [&](int channel) {
    made.channels += a.groups;
    return static_cast<float*>(make_handle(made.buffer, static_cast<std::size_t>(channel) * sizeof(float)));
  };
  a.y_sums = from(sums.y_first);
  if (sums.x_first >= 0) a.x_sums = from(sums.x_first);
}

void PlanBuilder::emit_squeeze(const Op& pool, const Op& first, const Op& second, const Op* product) {
  SqueezeArguments a;
  a.x = image(pool.inputs[0]);
  a.type = type_;
  // Another kernel may have taken a convolution that was to add some channels.
  const auto sums = pixel_sums_.find(pool.inputs[0]);
  if (sums != pixel_sums_.end() && sums->second.channels == shape(pool.inputs[0])[1]) {
    a.sums = static_cast<const float*>(make_handle(sums->second.buffer, 0));
    a.sum_lines = depthwise_sum_parts(a.x.h * a.x.w);
  }
  a.hidden = static_cast<int>(shape(first.output)[1]);
  const auto with_bias = [&](std::vector<float> weights, ValueId bias) {
    const std::vector<float> b = floats(bias);
    weights.insert(weights.end(), b.begin(), b.end());
    return constant(weights);
  };
  a.first = with_bias(floats(first.inputs[1]), first.inputs[2]);
  const auto n = static_cast<std::size_t>(shape(second.output)[1]), hidden = static_cast<std::size_t>(a.hidden);
  const std::vector<float> rows = floats(second.inputs[1]);
  std::vector<float> columns(rows.size());
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < hidden; ++k) columns[k * n + i] = rows[i * hidden + k];
  }
  a.second = with_bias(std::move(columns), second.inputs[2]);
  a.first_activation = first.activation;
  a.second_activation = second.activation;
  a.excites = product != nullptr;
  a.y = make_image(a.excites ? product->output : second.output, true);
  add_step(a, pool.origin + " + " + first.origin + " + " + second.origin + (a.excites ? " + " + product->origin : ""));
}

}  // namespace camd::infer::cuda
