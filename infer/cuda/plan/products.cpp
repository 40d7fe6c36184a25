// Replaces matrix products by convolutions.
#include "infer/cuda/plan/products.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "infer/cuda/kernels/activation.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

constexpr std::int64_t kLeastRows = 8;  // fewer would leave most of a tile empty

class Convolver {
 public:
  explicit Convolver(Graph graph) : graph_(std::move(graph)) {}

  Graph run() {
    uses_ = use_counts(graph_);
    std::vector<Op> old = std::move(graph_.ops);
    graph_.ops.clear();
    std::map<ValueId, std::vector<const Op*>> together;  // products of a value that may share a convolution
    for (const Op& op : old) {
      if (std::holds_alternative<MatMul>(op.operation) && takes(op) && may_share(op))
        together[op.inputs[0]].push_back(&op);
    }
    bool changed = false;
    std::set<ValueId> made;
    for (Op& op : old) {
      if (made.count(op.output) != 0) continue;
      if (std::holds_alternative<MatMul>(op.operation) && takes(op)) {
        std::vector<const Op*> products{&op};
        if (may_share(op)) products = together.at(op.inputs[0]);
        find_sum(op.inputs[0], static_cast<int>(products.size()));
        convolve(products);
        for (const Op* product : products) made.insert(product->output);
        changed = true;
      } else {
        find_picture(op);
        graph_.ops.push_back(std::move(op));
      }
    }
    if (changed) remove_unused(graph_);
    return std::move(graph_);
  }

 private:
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.shape(id); }

  [[nodiscard]] bool takes(const Op& op) const {
    const ValueId x = op.inputs[0], w = op.inputs[1];
    if (graph_.is_constant(x) || !graph_.is_constant(w)) return false;
    if (graph_.value(w).constant->type != DataType::kF32) return false;
    const Shape &from = shape(x), &by = shape(w);
    const std::int64_t depth = from.back(), columns = by.back(), rows = element_count(from) / depth;
    if (element_count(by) != depth * columns || element_count(shape(op.output)) != rows * columns) return false;
    // Whole groups of 8 channels: no copy that pads them.
    return depth % 8 == 0 && rows >= kLeastRows && bias_of(op).has_value();
  }
  // With others of the same value, as queries and keys are: their results are parts of one.
  [[nodiscard]] bool may_share(const Op& op) const {
    return op.activation.function == Function::kNone && shape(op.output).back() % 8 == 0;
  }
  // One number for each column; nothing where the bias is of another kind.
  [[nodiscard]] std::optional<std::vector<float>> bias_of(const Op& op) const {
    const auto columns = static_cast<std::size_t>(shape(op.output).back());
    const ValueId bias = op.inputs.size() > 2 ? op.inputs[2] : kNoValue;
    if (bias == kNoValue) return std::vector<float>(columns, 0.0F);
    if (!graph_.is_constant(bias)) return {};
    const Shape& out = shape(op.output);
    const std::vector<double> values = along_axis(*graph_.value(bias).constant, out, out.size() - 1);
    if (values.empty()) return {};
    return std::vector<float>(values.begin(), values.end());
  }

  ValueId add(Operation operation, std::vector<ValueId> inputs, Shape shape, const Op& from) {
    const auto made = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(Value{graph_.value(from.output).name, std::move(shape), nullptr});
    Op op;
    op.operation = std::move(operation);
    op.inputs = std::move(inputs);
    op.output = made;
    op.origin = from.origin;
    graph_.ops.push_back(std::move(op));
    return made;
  }

  // The positions of a picture as lines of its channels, [1, C, H, W] -> [1, C, H * W] -> [1, H * W, C]: then the
  // picture is known.
  void find_picture(const Op& op) {
    if (op.inputs.empty() || op.inputs[0] == kNoValue) return;
    const ValueId x = op.inputs[0];
    const Shape &from = shape(x), &to = shape(op.output);
    const auto* transpose = std::get_if<Transpose>(&op.operation);
    if (std::holds_alternative<Reshape>(op.operation) && from.size() == 4 && from[0] == 1 &&
        to == Shape{1, from[1], from[2] * from[3]}) {
      flat_[op.output] = x;
    } else if (transpose != nullptr && transpose->permutation == std::vector<int>{0, 2, 1} && flat_.count(x) != 0) {
      pictures_.emplace(op.output, flat_.at(x));
    }
  }

  // A sum that only these products read becomes one of pictures: then their kernel may add while it reads.
  void find_sum(ValueId x, int products) {
    if (uses_[at(x)] != products || pictures_.count(x) != 0) return;
    const auto made = std::find_if(graph_.ops.begin(), graph_.ops.end(), [&](const Op& op) { return op.output == x; });
    if (made == graph_.ops.end()) return;
    const Op sum = *made;  // a copy: operators are added
    const auto* binary = std::get_if<Binary>(&sum.operation);
    if (binary == nullptr || binary->kind != Binary::Kind::kAdd || sum.activation.function != Function::kNone) return;
    for (const ValueId part : sum.inputs) {
      if (graph_.is_constant(part) || shape(part) != shape(x)) return;
    }
    const ValueId one = picture_of(sum.inputs[0], sum), other = picture_of(sum.inputs[1], sum);
    const Shape picture = shape(one);
    if (shape(other) == picture) pictures_[x] = add(Binary{Binary::Kind::kAdd}, {one, other}, picture, sum);
  }

  // x as a picture; made once, however many products read it.
  ValueId picture_of(ValueId x, const Op& from) {
    const auto known = pictures_.find(x);
    if (known != pictures_.end()) return known->second;
    const std::int64_t depth = shape(x).back(), rows = element_count(shape(x)) / depth;
    std::int64_t height = 1;  // as near to a square as whole numbers allow: tiles are no lines
    for (std::int64_t h = 1; h * h <= rows; ++h) {
      if (rows % h == 0) height = h;
    }
    const std::int64_t width = rows / height;
    const ValueId lines = add(Reshape{}, {x}, {1, height, width, depth}, from);
    return pictures_[x] = add(Transpose{{0, 3, 1, 2}}, {lines}, {1, depth, height, width}, from);
  }

  // Products of one value; where there are several, none has a function.
  void convolve(const std::vector<const Op*>& products) {
    const Op& op = *products.front();
    const std::int64_t depth = shape(op.inputs[0]).back();
    std::vector<float> weights, bias;
    for (const Op* product : products) {
      const std::int64_t own = shape(product->output).back();
      const std::vector<float>& w = graph_.value(product->inputs[1]).constant->f32;
      for (std::int64_t n = 0; n < own; ++n) {
        for (std::int64_t k = 0; k < depth; ++k) weights.push_back(w[static_cast<std::size_t>(k * own + n)]);
      }
      const std::vector<float> more = *bias_of(*product);
      bias.insert(bias.end(), more.begin(), more.end());
    }
    const auto columns = static_cast<std::int64_t>(bias.size());
    const ValueId weight = add_constant(graph_, {columns, depth, 1, 1}, std::move(weights));
    const ValueId biases = add_constant(graph_, {columns}, std::move(bias));
    const ValueId x = picture_of(op.inputs[0], op);
    const Shape in = shape(x);
    const bool function_behind = !tensor_core_activation(op.activation.function);
    Conv conv;
    conv.kernel = {1, 1};
    const ValueId picture = add(conv, {x, weight, biases, kNoValue}, {1, columns, in[2], in[3]}, op);
    for (const Op* product : products) {
      if (product != &op) graph_.ops.back().origin += " + " + product->origin;
    }
    if (!function_behind) graph_.ops.back().activation = op.activation;
    const ValueId lines = add(Transpose{{0, 2, 3, 1}}, {picture}, {1, in[2], in[3], columns}, op);
    Shape joined = shape(op.output);
    joined.back() = columns;
    const ValueId y = add(Reshape{}, {lines}, joined, op);
    if (products.size() > 1) return split(products, y);
    if (function_behind) (void)add(Unary{op.activation}, {y}, joined, op);
    graph_.ops.back().output = op.output;
    if (!function_behind) pictures_[op.output] = picture;
  }
  // Gives each product its columns of y.
  void split(const std::vector<const Op*>& products, ValueId y) {
    std::int64_t first = 0;
    for (const Op* product : products) {
      const Shape& to = shape(product->output);
      Slice own{std::vector<std::int64_t>(to.size(), 0), std::vector<std::int64_t>(to.size(), 1)};
      own.start.back() = first;
      first += to.back();
      (void)add(own, {y}, to, *product);
      graph_.ops.back().output = product->output;
    }
  }

  Graph graph_;
  std::vector<int> uses_;                // before
  std::map<ValueId, ValueId> flat_;      // [1, C, H * W] -> the picture that it is of
  std::map<ValueId, ValueId> pictures_;  // [.., M, K] -> the picture of the same elements
};

}  // namespace

Graph with_convolved_products(const Graph& graph) { return Convolver(graph).run(); }

}  // namespace camd::infer::cuda
