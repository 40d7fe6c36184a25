// PlanBuilder: what transformers have.
#include <algorithm>
#include <optional>

#include "infer/cuda/plan/builder.hpp"
#include "infer/cuda/plan/handles.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

// The transposition that takes back what `permutation` does.
std::vector<int> inverse(const std::vector<int>& permutation) {
  std::vector<int> back(permutation.size());
  for (std::size_t d = 0; d < permutation.size(); ++d)
    back[static_cast<std::size_t>(permutation[d])] = static_cast<int>(d);
  return back;
}

}  // namespace

void PlanBuilder::emit_attention(const Op& op, const Attention& attention) {
  const Op& product = graph_.ops[static_cast<std::size_t>(attention.scores)];
  const Shape& scores = shape(product.output);
  const std::size_t rank = scores.size(), row = rank - 2, column = rank - 1;
  const auto with_last = [&](std::int64_t rows, std::int64_t columns) {
    Shape s = scores;
    s[row] = rows;
    s[column] = columns;
    return s;
  };
  const auto matrices = [&](const Strided& t, std::size_t rows, std::size_t elements) {
    return StridedMatrices{t, t.strides[rows], t.strides[elements]};
  };
  const std::int64_t queries = scores[row], keys = scores[column], depth = shape(product.inputs[0]).back();
  const std::int64_t width = shape(op.output)[attention.v_first ? row : column];
  AttentionArguments a;
  a.q = matrices(broadcast(product.inputs[0], with_last(queries, depth)), row, column);
  a.k = matrices(broadcast(product.inputs[1], with_last(depth, keys)), column, row);
  a.v = attention.v_first ? matrices(broadcast(op.inputs[0], with_last(width, keys)), column, row)
                          : matrices(broadcast(op.inputs[1], with_last(keys, width)), row, column);
  if (attention.bias != kNoValue) a.bias = matrices(broadcast(attention.bias, scores), row, column);
  const Strided y = make_for_movements(op.output);
  a.y = attention.v_first ? matrices(y, column, row) : matrices(y, row, column);
  a.rank = static_cast<int>(rank) - 2;
  std::copy(scores.begin(), scores.end() - 2, a.shape);
  a.queries = static_cast<int>(queries);
  a.keys = static_cast<int>(keys);
  a.depth = static_cast<int>(depth);
  a.width = static_cast<int>(width);
  a.scale = attention.scale;
  add_step(a, product.origin + " + " + op.origin);
  constexpr double kUsualSteps = 2.5;  // some hundred keys take 5 us where other small steps take 3; less was slower
  plan_.steps.back().cycles = kUsualSteps * kUsualCycles;
}

void PlanBuilder::emit_layer_norm(const Op& op, const LayerNorm& norm) {
  const Shape& s = shape(op.output);
  const auto axis = static_cast<std::size_t>(norm.axis);
  const auto along = [&](ValueId id) -> const float* {
    if (id == kNoValue) return nullptr;
    const std::vector<double> values = along_axis(*graph_.value(id).constant, s, axis);
    return constant(std::vector<float>(values.begin(), values.end()));
  };
  LayerNormArguments a;
  a.x = strided(norm.x);
  a.x_step = a.x.strides[axis];
  if (norm.added != kNoValue) {
    a.added = broadcast(norm.added, s);
    a.added_step = a.added.strides[axis];
  }
  a.sum_activation = norm.sum_activation;
  a.gain = along(norm.gain);
  a.offset = along(norm.offset);
  a.epsilon = norm.epsilon;
  a.y = make_result(op.output, !graph_.is_constant(norm.x) && has_image(norm.x));
  a.y_step = a.y.strides[axis];
  a.rank = static_cast<int>(s.size());
  std::copy(s.begin(), s.end(), a.shape);
  a.shape[axis] = 1;
  a.count = s[axis];
  a.activation = op.activation;
  add_step(a, op.origin);
}

void PlanBuilder::emit_deformable(const Op& op, const Deformable& deformable) {
  const Shape& out = shape(op.output);
  DeformableArguments a;
  a.heads = static_cast<int>(out[0]);
  a.channels = static_cast<int>(out[1]);
  a.queries = static_cast<int>(out[2]);
  a.align_corners = deformable.align_corners;
  std::string origin;
  for (const int i : deformable.samples) {
    const Op& sample = graph_.ops[static_cast<std::size_t>(i)];
    const Shape &from = shape(sample.inputs[0]), &places = shape(sample.inputs[1]);
    DeformableLevel& level = a.levels[a.level_count++];
    level.x = strided(sample.inputs[0]);
    level.grid = strided(sample.inputs[1]);
    level.height = static_cast<int>(from[2]);
    level.width = static_cast<int>(from[3]);
    level.points = static_cast<int>(places[2]);
    origin += sample.origin + " + ";
  }
  a.softmax = deformable.softmax >= 0;
  if (a.softmax) {
    const ValueId logits = graph_.ops[static_cast<std::size_t>(deformable.softmax)].inputs[0];
    std::optional<Form> form = moved(first_form(logits), deformable.movements);
    if (!form) form = moved(tensor(logits), deformable.movements);
    a.weights = strided(deformable.weights, *form);
  } else {
    a.weights = strided(deformable.weights);
  }
  // There is one for all channels.
  a.weights.strides[1] = a.weights.strides[2];
  a.weights.strides[2] = a.weights.strides[3];
  a.y = make_for_movements(op.output);
  add_step(a, origin + op.origin);
}

// The form of what the movements, one behind the other, make of a value in this form.
std::optional<Form> PlanBuilder::moved(Form form, const std::vector<int>& movements) const {
  for (const int i : movements) {
    const Op& movement = graph_.ops[static_cast<std::size_t>(i)];
    const Shape &from = shape(movement.inputs[0]), &to = shape(movement.output);
    if (const auto* transpose = std::get_if<Transpose>(&movement.operation)) {
      form = transpose_view(form, *transpose, to);
    } else {
      const std::optional<Form> view = reshape_view(form, from, to);
      if (!view) return std::nullopt;
      form = *view;
    }
  }
  return form;
}

// Reshapes and Transpositions that alone read the value, each behind the other.
std::vector<const Op*> PlanBuilder::movements_of(ValueId id) const {
  const std::vector<int> uses = use_counts(graph_);
  std::vector<const Op*> movements;
  ValueId last = id;
  while (uses[static_cast<std::size_t>(last)] == 1 && output_buffers_.count(last) == 0) {
    const auto reader = std::find_if(graph_.ops.begin(), graph_.ops.end(),
                                     [&](const Op& o) { return !o.inputs.empty() && o.inputs[0] == last; });
    if (reader == graph_.ops.end()) break;
    if (!std::holds_alternative<Reshape>(reader->operation) && !std::holds_alternative<Transpose>(reader->operation))
      break;
    movements.push_back(&*reader);
    last = reader->output;
  }
  return movements;
}

Strided PlanBuilder::make_result(ValueId id, bool as_image) {
  if (!options_.fuse || slices_.count(id) != 0 || joins_heads(id)) return make_strided(id, as_image);
  const std::vector<const Op*> movements = movements_of(id);
  const ValueId last = movements.empty() ? kNoValue : movements.back()->output;
  const bool inside = last != kNoValue && (slices_.count(last) != 0 || output_buffers_.count(last) != 0);
  return inside ? make_for_movements(id) : make_strided(id, as_image);
}

Strided PlanBuilder::make_for_movements(ValueId id) {
  std::vector<const Op*> movements = movements_of(id);
  if (!options_.fuse || movements.empty()) return make_strided(id, false);
  const ValueId last = movements.back()->output;
  (void)make_strided(last, type_ == DataType::kF16);
  Form form = forms_[static_cast<std::size_t>(last)].back();
  std::reverse(movements.begin(), movements.end());
  for (const Op* movement : movements) {
    const Shape& to = shape(movement->inputs[0]);
    if (const auto* transpose = std::get_if<Transpose>(&movement->operation)) {
      form = transpose_view(form, Transpose{inverse(transpose->permutation)}, to);
    } else {
      const std::optional<Form> view = reshape_view(form, shape(movement->output), to);
      if (!view) {
        // It will be copied. Nothing writes the form that was tried.
        forms_[static_cast<std::size_t>(last)].pop_back();
        return make_strided(id, false);
      }
      form = *view;
    }
  }
  add_view(id, form);
  return strided(id, form);
}

}  // namespace camd::infer::cuda
