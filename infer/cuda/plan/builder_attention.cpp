// PlanBuilder::emit_attention().
#include <algorithm>
#include <optional>

#include "infer/cuda/plan/builder.hpp"
#include "infer/cuda/plan/handles.hpp"

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
}

Strided PlanBuilder::make_for_movements(ValueId id) {
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
  if (!options_.fuse || movements.empty()) return make_strided(id, false);
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
