// Moves selections of channels into the weights of the convolutions that read them.
#include "infer/cuda/plan/selections.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "infer/cuda/kernels/activation.hpp"
#include "infer/cuda/kernels/tiles.hpp"
#include "infer/cuda/plan/fusion.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

using Channels = std::vector<std::int64_t>;

// Channel i of a value is channel `channels[i]` of x.
struct Selection {
  ValueId x = kNoValue;
  Channels channels;
};

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph) { index(); }

  void run() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      if (!std::holds_alternative<Conv>(op(i).operation)) continue;
      const bool moved = move_behind_depthwise(i);
      changed_ = read_the_whole_image(i) || moved || changed_;
      if (moved) index();
    }
    index();
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      if (std::holds_alternative<Concat>(op(i).operation)) changed_ = align_parts(i) || changed_;
    }
    if (changed_) remove_unused(graph_);
  }

 private:
  void index() {
    maker_ = producers(graph_);
    uses_ = use_counts(graph_);
    readers_.assign(graph_.values.size(), {});
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      for (const ValueId in : op(i).inputs) {
        if (in != kNoValue) readers_[at(in)].push_back(i);
      }
    }
  }
  [[nodiscard]] Op& op(int i) { return graph_.ops[at(i)]; }
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[at(i)]; }
  [[nodiscard]] bool is_picture(ValueId id) const {
    const Shape& s = graph_.shape(id);
    return s.size() == 4 && s[0] == 1 && !graph_.is_constant(id);
  }
  [[nodiscard]] std::int64_t channels_of(ValueId id) const { return graph_.shape(id)[1]; }
  [[nodiscard]] bool is_output(ValueId id) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }
  [[nodiscard]] const std::vector<float>* floats(ValueId id) const {
    if (!graph_.is_constant(id) || graph_.value(id).constant->type != DataType::kF32) return nullptr;
    return &graph_.value(id).constant->f32;
  }

  // Nothing where the value is an image already: channels side by side, from a multiple of 8 on.
  [[nodiscard]] std::optional<Selection> selection(ValueId id) const {
    const int make = maker_[at(id)];
    if (make < 0 || !is_picture(id) || op(make).activation.function != Function::kNone) return {};
    const ValueId x = op(make).inputs[0];
    if (!is_picture(x)) return {};
    if (const auto* gather = std::get_if<Gather>(&op(make).operation)) {
      return gather->axis == 1 ? std::optional(Selection{x, gather->indices}) : std::nullopt;
    }
    const auto* slice = std::get_if<Slice>(&op(make).operation);
    if (slice == nullptr || (slice->step[1] == 1 && slice->start[1] % 8 == 0)) return {};
    for (const std::size_t d : {std::size_t{2}, std::size_t{3}}) {
      if (slice->step[d] != 1 || slice->start[d] != 0 || graph_.shape(x)[d] != graph_.shape(id)[d]) return {};
    }
    Selection found{x, Channels(static_cast<std::size_t>(channels_of(id)))};
    for (std::size_t i = 0; i < found.channels.size(); ++i) {
      found.channels[i] = slice->start[1] + static_cast<std::int64_t>(i) * slice->step[1];
    }
    return found;
  }

  [[nodiscard]] bool is_pointwise(int i) const {
    const auto* conv = std::get_if<Conv>(&op(i).operation);
    return conv != nullptr && conv->groups == 1 && conv->kernel == Pair2{1, 1} && is_picture(op(i).inputs[0]) &&
           floats(op(i).inputs[1]) != nullptr && tensor_core_activation(op(i).activation.function);
  }
  // Input channel c of convolution `i` becomes channel `channels[c]` of x.
  void read(int i, ValueId x, const Channels& channels) {
    const std::vector<float> old = *floats(op(i).inputs[1]);
    const auto rows = static_cast<std::size_t>(graph_.shape(op(i).inputs[1])[0]);
    const auto width = static_cast<std::size_t>(channels_of(x));
    std::vector<float> weights(rows * width, 0.0F);
    for (std::size_t n = 0; n < rows; ++n) {
      for (std::size_t c = 0; c < channels.size(); ++c) {
        weights[n * width + static_cast<std::size_t>(channels[c])] += old[n * channels.size() + c];
      }
    }
    op(i).inputs[0] = x;
    op(i).inputs[1] = add_constant(graph_, {static_cast<std::int64_t>(rows), channels_of(x), 1, 1}, std::move(weights));
  }
  bool read_the_whole_image(int i) {
    constexpr std::int64_t kMostTimesWider = 2, kMostChannels = 512;  // products with 0 are not free
    if (!is_pointwise(i)) return false;
    const std::int64_t most = std::min(kMostTimesWider * channels_of(op(i).inputs[0]), kMostChannels);
    bool changed = false;
    for (auto from = selection(op(i).inputs[0]); from && channels_of(from->x) <= most;
         from = selection(op(i).inputs[0])) {
      read(i, from->x, from->channels);
      changed = true;
    }
    return changed;
  }

  bool move_behind_depthwise(int i) {
    const auto& conv = std::get<Conv>(op(i).operation);
    const auto from = selection(op(i).inputs[0]);
    const std::int64_t count = from ? channels_of(from->x) : 0;
    if (!from || conv.groups != count || channels_of(op(i).output) != count || !is_picture(op(i).output)) return false;
    const auto *weights = floats(op(i).inputs[1]), *bias = floats(op(i).inputs[2]);
    if (weights == nullptr || bias == nullptr || residual_of(op(i)) != kNoValue) return false;
    Channels sorted = from->channels;
    std::sort(sorted.begin(), sorted.end());
    Channels all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    if (sorted != all) return false;
    const std::size_t taps = weights->size() / all.size();
    std::vector<float> own_weights(weights->size()), own_bias(bias->size());
    for (std::size_t c = 0; c < all.size(); ++c) {
      const auto to = static_cast<std::size_t>(from->channels[c]);
      std::copy_n(weights->begin() + static_cast<std::ptrdiff_t>(c * taps), taps,
                  own_weights.begin() + static_cast<std::ptrdiff_t>(to * taps));
      own_bias[to] = (*bias)[c];
    }
    const Shape weights_shape = graph_.shape(op(i).inputs[1]), bias_shape = graph_.shape(op(i).inputs[2]);
    op(i).inputs[0] = from->x;
    op(i).inputs[1] = add_constant(graph_, weights_shape, std::move(own_weights));
    op(i).inputs[2] = add_constant(graph_, bias_shape, std::move(own_bias));
    Op order;
    order.operation = Gather{1, from->channels};
    order.origin = op(i).origin;
    order.output = op(i).output;
    const Shape shape = graph_.shape(op(i).output);
    order.inputs = {static_cast<ValueId>(graph_.values.size())};
    op(i).output = order.inputs[0];
    graph_.values.push_back(Value{"", shape, nullptr});
    graph_.ops.insert(graph_.ops.begin() + i + 1, std::move(order));
    return true;
  }

  // ---- Concatenations

  [[nodiscard]] bool can_be_wider(ValueId part) const {
    const int make = maker_[at(part)];
    if (make < 0 || uses_[at(part)] != 1) return false;
    if (const auto* gather = std::get_if<Gather>(&op(make).operation)) return gather->axis == 1;
    return is_pointwise(make) && residual_of(op(make)) == kNoValue && floats(op(make).inputs[2]) != nullptr;
  }
  // More channels, of any finite numbers.
  void widen(ValueId part, std::int64_t count) {
    const int make = maker_[at(part)];
    const auto more = static_cast<std::size_t>(count - channels_of(part));
    graph_.values[at(part)].shape[1] = count;
    if (auto* gather = std::get_if<Gather>(&op(make).operation)) {
      gather->indices.insert(gather->indices.end(), more, gather->indices.front());
      return;
    }
    std::vector<float> weights = *floats(op(make).inputs[1]), bias = *floats(op(make).inputs[2]);
    const Shape old = graph_.shape(op(make).inputs[1]);
    weights.resize(weights.size() + more * static_cast<std::size_t>(old[1]), 0.0F);
    bias.resize(bias.size() + more, 0.0F);
    op(make).inputs[1] = add_constant(graph_, {count, old[1], 1, 1}, std::move(weights));
    op(make).inputs[2] = add_constant(graph_, {count}, std::move(bias));
  }

  bool align_parts(int i) {
    const ValueId whole = op(i).output;
    if (std::get<Concat>(op(i).operation).axis != 1 || !is_picture(whole) || is_output(whole)) return false;
    const std::vector<ValueId> parts = op(i).inputs;
    bool aligned = true;
    for (std::size_t p = 0; p + 1 < parts.size(); ++p) {
      if (graph_.is_constant(parts[p])) return false;
      if (channels_of(parts[p]) % 8 == 0) continue;
      aligned = false;
      if (!can_be_wider(parts[p])) return false;
    }
    if (aligned) return false;
    for (const int reader : readers_[at(whole)]) {
      const auto* gather = std::get_if<Gather>(&op(reader).operation);
      const bool adapts = gather != nullptr ? gather->axis == 1 : is_pointwise(reader) && op(reader).inputs[0] == whole;
      if (!adapts || std::count(op(reader).inputs.begin(), op(reader).inputs.end(), whole) != 1) return false;
    }
    Channels where;  // of each old channel
    std::int64_t first = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::int64_t count = channels_of(parts[p]);
      for (std::int64_t c = 0; c < count; ++c) where.push_back(first + c);
      const std::int64_t wider = p + 1 < parts.size() ? (count + 7) / 8 * 8 : count;
      if (wider != count) widen(parts[p], wider);
      first += wider;
    }
    graph_.values[at(whole)].shape[1] = first;
    for (const int reader : readers_[at(whole)]) {
      if (auto* gather = std::get_if<Gather>(&op(reader).operation)) {
        for (std::int64_t& channel : gather->indices) channel = where[static_cast<std::size_t>(channel)];
      } else {
        read(reader, whole, where);
      }
    }
    return true;
  }

  Graph& graph_;
  bool changed_ = false;
  std::vector<int> maker_;
  std::vector<int> uses_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace

void fold_selections(Graph& graph) { Folder(graph).run(); }

}  // namespace camd::infer::cuda
