#include "infer/cpu/build_tensor.hpp"

#include <algorithm>

#include "infer/cpu/build_picture.hpp"

namespace camd::infer::cpu {
namespace {

// Of a product: its right side is copied where that pays for itself, and a thread's copy is at most 512 KiB.
constexpr std::int64_t kMostCopiedRows = 4096;
constexpr std::int64_t kFewestRowsToCopy = 32;

// Of attention: the scores that a thread has at a time, 128 KiB.
constexpr std::int64_t kScoresTogether = 32768;

}  // namespace

void build_softmax(Builder& builder, const Op& op, const Softmax& softmax) {
  auto step = std::make_unique<SoftmaxStep>();
  step->kernels = &builder.kernels();
  const Shape& s = builder.shape(op.output);
  step->in = builder.read_plain(op.inputs[0]);
  step->out = builder.write_plain(op.output);
  step->log = softmax.log;
  for (std::size_t d = 0; d < s.size(); ++d) {
    (d < at(softmax.axis) ? step->outer : d == at(softmax.axis) ? step->size : step->inner) *= s[d];
  }
  const int most = parts_for(element_count(s), std::int64_t{2} * builder.threads(), builder.threads());
  step->by_columns = step->outer < most && step->inner > 1;
  step->items = number(std::min<std::int64_t>(most, step->by_columns ? step->inner : step->outer));
  builder.add(std::move(step), &op, step->in, step->out);
}

void build_matmul(Builder& builder, const Op& op) {
  const Shape& left = builder.shape(op.inputs[0]);
  const Shape& right = builder.shape(op.inputs[1]);
  const Shape& out = builder.shape(op.output);
  std::int64_t m = out[out.size() - 2];
  const std::int64_t n = out.back(), k = left.back();
  std::int64_t batch = element_count(out) / (m * n);
  const auto batch_step = [&](const Shape& s, std::int64_t each, bool& fits) {
    const std::int64_t own = element_count(s) / each;
    fits = fits && (own == 1 || own == batch);
    return own == 1 ? std::int64_t{0} : each;
  };
  bool fits = true;
  auto step = std::make_unique<MatMulStep>();
  step->a_batch = batch_step(left, m * k, fits);
  step->b_batch = batch_step(right, k * n, fits);
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] != kNoValue;
  if (has_bias) {
    const Shape& s = builder.shape(op.inputs[2]);
    const auto strides = broadcast_strides(s, out);
    for (std::size_t d = 0; d + 2 < out.size(); ++d) fits = fits && strides[d] == 0;
    step->bias_row = at(strides[out.size() - 2]);
    step->bias_step = number(strides.back());
  }
  if (!fits) return build_reference(builder, op);
  // One matrix for all of the batch: the rows of all are those of one product.
  if (step->b_batch == 0 && step->a_batch != 0 && step->bias_row == 0) {
    m *= batch;
    batch = 1;
  }
  step->kernels = &builder.kernels();
  step->function = op.activation;
  step->requantize = builder.requantize_of(op);
  step->m = number(m);
  step->k = number(k);
  step->n = number(n);
  step->batch = number(batch);
  step->a = builder.read_plain(op.inputs[0]);
  step->b = builder.read_plain(op.inputs[1]);
  if (has_bias) step->bias = builder.read_plain(op.inputs[2]);
  step->out = builder.write_plain(op.output);
  step->bands = number(std::clamp(m / kProductTile, std::int64_t{1}, std::int64_t{2} * builder.threads()));
  step->items = step->batch * step->bands;
  if (k <= kMostCopiedRows && m >= kFewestRowsToCopy) step->scratch = matmul_scratch(step->k);
  builder.add(std::move(step), &op, step->a, step->b, step->bias, step->out);
}

void build_attention(Builder& builder, const Op& op, const Attention& attention) {
  const ValueId q = op.inputs[0], k = op.inputs[1], v = op.inputs[3];
  const Shape& queries = builder.shape(q);
  const Shape& keys = builder.shape(k);
  const Shape& out = builder.shape(op.output);
  const auto batch_step = [](const Shape& s) {
    const std::int64_t each = s[s.size() - 2] * s.back();
    return element_count(s) == each ? std::int64_t{0} : each;
  };
  auto step = std::make_unique<AttentionStep>();
  step->kernels = &builder.kernels();
  step->scale = attention.scale;
  step->queries = number(queries[queries.size() - 2]);
  step->inner = number(queries.back());
  step->keys = number(keys.back());
  step->turned = attention.turned;
  step->columns = number(attention.turned ? out[out.size() - 2] : out.back());
  step->k_batch = batch_step(keys);
  step->v_batch = batch_step(builder.shape(v));
  step->q = builder.read_plain(q);
  step->k = builder.read_plain(k);
  step->v = builder.read_plain(v);
  step->out = builder.write_plain(op.output);
  const std::int64_t batch = element_count(out) / (std::int64_t{step->queries} * step->columns);
  const std::int64_t together = std::clamp(kScoresTogether / step->keys / kProductTile, std::int64_t{1},
                                           std::int64_t{AttentionStep::kMostQueries} / kProductTile);
  step->together = number(together * kProductTile);
  const std::int64_t wanted = (std::int64_t{4} * builder.threads() + batch - 1) / batch;
  step->bands = number(std::clamp(wanted, std::int64_t{1}, std::max<std::int64_t>(step->queries / kProductTile, 1)));
  step->items = number(batch) * step->bands;
  step->scratch = at(step->together) * at(step->keys);
  if (step->turned) step->scratch += (at(step->together) + at(step->keys)) * at(step->columns);
  builder.add(std::move(step), &op, step->q, step->k, step->v, step->out);
}

void build_reduce(Builder& builder, const Op& op, const Reduce& reduce) {
  using Kind = Reduce::Kind;
  const Shape& in = builder.shape(op.inputs[0]);
  const bool over_picture = reduce.axes == std::vector<int>{2, 3};
  if (over_picture && (reduce.kind == Kind::kMean || reduce.kind == Kind::kMax) &&
      builder.prefers_blocked(op.inputs[0])) {
    Pool pool;
    pool.kind = reduce.kind == Kind::kMean ? Pool::Kind::kAverage : Pool::Kind::kMax;
    pool.kernel = pool.stride = {number(in[2]), number(in[3])};
    return build_pool(builder, op, pool);
  }
  const bool has_kernel = reduce.kind == Kind::kMean || reduce.kind == Kind::kSum || reduce.kind == Kind::kMax ||
                          reduce.kind == Kind::kMin || reduce.kind == Kind::kSumSquare;
  const bool neighbours =
      !reduce.axes.empty() && reduce.axes.back() - reduce.axes.front() + 1 == static_cast<int>(reduce.axes.size());
  if (!has_kernel || !neighbours) return build_reference(builder, op);
  auto step = std::make_unique<ReduceStep>();
  step->kernels = &builder.kernels();
  step->kind = reduce.kind;
  step->in = builder.read_plain(op.inputs[0]);
  step->out = builder.write_plain(op.output);
  for (int d = 0; d < static_cast<int>(in.size()); ++d) {
    (d < reduce.axes.front() ? step->outer : d > reduce.axes.back() ? step->inner : step->size) *= in[at(d)];
  }
  step->items = parts_for(element_count(in), step->outer, builder.threads());
  builder.add(std::move(step), &op, step->in, step->out);
}

void build_selection(Builder& builder, const Op& op) {
  auto step = std::make_unique<SelectionStep>();
  step->kernels = &builder.kernels();
  step->operation = op.operation;
  step->shape = builder.shape(op.inputs[0]);
  step->out_shape = builder.shape(op.output);
  const Shape& in = step->shape;
  const std::int64_t elements = element_count(in);
  const auto along = [&](int axis) {
    step->length = in[at(axis)];
    step->stride = strides_of(in)[at(axis)];
    step->parts = number(elements / step->length);
  };
  if (const auto* top = std::get_if<TopK>(&op.operation)) {
    along(top->axis);
    step->scratch = at(step->length);
  } else if (const auto* sum = std::get_if<CumSum>(&op.operation)) {
    along(sum->axis);
  } else if (std::holds_alternative<GridSample>(op.operation)) {
    step->parts = number(in[0] * in[1]);
  } else if (std::holds_alternative<Select>(op.operation)) {
    step->selects = select_shape(in, builder.shape(op.inputs[1]), builder.shape(op.inputs[2]), step->out_shape);
  } else {
    step->picks = pick_shape(in, builder.shape(op.inputs[1]));
    step->parts = number(in[0]);
  }
  step->items = parts_for(std::max(elements, element_count(step->out_shape)), step->parts, builder.threads());
  for (const ValueId id : op.inputs) step->in.push_back(builder.read_plain(id));
  step->out = builder.write_plain(op.output);
  builder.add(std::move(step), &op, step->in, step->out);
}

void build_reference(Builder& builder, const Op& op) {
  auto step = std::make_unique<ReferenceStep>();
  step->kernels = &builder.kernels();
  step->op = op;
  step->requantize = builder.requantize_of(op);
  step->out_shape = builder.shape(op.output);
  for (const ValueId id : op.inputs) {
    step->in_shapes.push_back(id == kNoValue ? Shape{} : builder.shape(id));
    step->in.push_back(id == kNoValue ? Place{} : builder.read_plain(id));
  }
  step->out = builder.write_plain(op.output);
  builder.add(std::move(step), &op, step->in, step->out);
}

}  // namespace camd::infer::cpu
