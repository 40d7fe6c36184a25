// Looks at the graph for operators that one kernel can compute together.
#include "infer/cuda/plan/fusion.hpp"

#include <algorithm>
#include <optional>

#include "infer/cuda/kernels/activation.hpp"
#include "infer/cuda/kernels/tiles.hpp"
#include "infer/cuda/plan/attentions.hpp"
#include "infer/cuda/plan/deformables.hpp"
#include "infer/cuda/plan/elementwise.hpp"
#include "infer/cuda/plan/flattened_heads.hpp"
#include "infer/cuda/plan/groups.hpp"
#include "infer/cuda/plan/halves.hpp"
#include "infer/cuda/plan/layer_norms.hpp"
#include "infer/cuda/plan/mixed_precision.hpp"
#include "infer/cuda/plan/packing.hpp"
#include "infer/cuda/plan/residuals.hpp"
#include "infer/cuda/plan/resized_sums.hpp"
#include "infer/cuda/plan/selections.hpp"
#include "infer/cuda/plan/squeezes.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

class Finder {
 public:
  Finder(Graph& graph, const PlanOptions& options) : graph_(graph), options_(options) { index(); }

  Fusion find() {
    if (!options_.fuse) return {};
    move_before_concats(graph_);
    index();
    if (options_.type != DataType::kF16) {
      find_expectations();
      find_max_pools();
      find_layer_norms(graph_, fusion_);
      find_deformables(graph_, fusion_);
      find_resized_sums(graph_, fusion_);
      find_computed_where_read(graph_, fusion_);
      return std::move(fusion_);
    }
    fold_selections(graph_);
    part_residuals(graph_);
    index();
    fusion_.f32_ops = f32_ops(graph_, options_.f32_convolutions);
    find_enlarged_residuals();
    find_sums();
    find_expectations();
    find_layer_norms(graph_, fusion_);
    find_deformables(graph_, fusion_);
    find_attentions(graph_, options_.shared_bytes, fusion_);
    index();
    find_max_pools();
    find_squeezes(graph_, options_, fusion_);
    find_stem();
    fusion_.flattened_heads = find_flattened_heads(graph_);
    find_bottlenecks(graph_, options_.shared_bytes,
                     {[this](int i) { return pointwise(i); }, [this](int i) { return depthwise_before(i); },
                      [this](int i) { return in_f32(i); }},
                     fusion_);
    find_separables();
    find_stem_block();
    find_pairs();
    find_heads();
    find_enlargements();
    find_programs();
    absorb_flattenings(graph_, fusion_);
    find_siblings();
    find_resized_sums(graph_, fusion_);
    find_computed_where_read(graph_, fusion_);
    find_halves(graph_, fusion_);
    return std::move(fusion_);
  }

 private:
  void index() {
    uses_ = use_counts(graph_);
    readers_.assign(graph_.values.size(), {});
    maker_.assign(graph_.values.size(), -1);
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      const Op& op = graph_.ops[static_cast<std::size_t>(i)];
      maker_[static_cast<std::size_t>(op.output)] = i;
      for (const ValueId in : op.inputs) {
        if (in != kNoValue) readers_[static_cast<std::size_t>(in)].push_back(i);
      }
    }
  }
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[static_cast<std::size_t>(i)]; }
  [[nodiscard]] Op& op(int i) { return graph_.ops[static_cast<std::size_t>(i)]; }
  [[nodiscard]] int uses(ValueId id) const { return uses_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] int maker(ValueId id) const { return maker_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Conv* conv(int i) const { return std::get_if<Conv>(&op(i).operation); }
  [[nodiscard]] bool is_output(ValueId id) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }

  // The axis along which op `i` adds the elements of its first input, each times its own constant; or -1.
  [[nodiscard]] int weighed_axis(int i) const {
    const Op& o = op(i);
    const Shape& out = graph_.shape(o.output);
    if (o.activation.function != Function::kNone) return -1;
    if (const Conv* c = conv(i); c != nullptr) {
      const bool plain = c->kernel == Pair2{1, 1} && c->stride == Pair2{1, 1} && c->pads == Pads{} && c->groups == 1;
      return plain && out[1] == 1 && residual(i) == kNoValue ? 1 : -1;
    }
    if (!std::holds_alternative<MatMul>(o.operation) || !graph_.is_constant(o.inputs[1])) return -1;
    const Shape& in = graph_.shape(o.inputs[0]);
    const bool bias = o.inputs.size() > 2 && o.inputs[2] != kNoValue && !scalar(graph_, o.inputs[2]);
    const bool one = in.size() == out.size() && out.back() == 1 &&
                     element_count(graph_.shape(o.inputs[1])) == in.back() &&
                     element_count(in) == element_count(out) * in.back();
    return one && !bias ? static_cast<int>(in.size()) - 1 : -1;
  }

  void find_expectations() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      const int axis = op(i).inputs.empty() ? -1 : weighed_axis(i);
      const int make = axis < 0 ? -1 : maker(op(i).inputs[0]);
      if (make < 0 || uses(op(i).inputs[0]) != 1 || is_output(op(i).inputs[0])) continue;
      const auto* softmax = std::get_if<Softmax>(&op(make).operation);
      if (softmax == nullptr || softmax->axis != axis || softmax->log) continue;
      fusion_.expectation_of[i] = make;
      fusion_.absorbed.insert(make);
    }
  }

  // The pixels that a max pool looks at on each side, where its image keeps its size; else -1.
  [[nodiscard]] int radius_of(int i) const {
    const auto* pool = std::get_if<Pool>(&op(i).operation);
    if (pool == nullptr || pool->kind != Pool::Kind::kMax || !single_picture(i)) return -1;
    const int radius = pool->kernel.y / 2;
    const Pads around{radius, radius, radius, radius};
    if (pool->kernel != Pair2{2 * radius + 1, 2 * radius + 1} || pool->stride != Pair2{1, 1} ||
        pool->dilation != Pair2{1, 1} || pool->pads != around || op(i).activation.function != Function::kNone) {
      return -1;
    }
    return graph_.shape(op(i).inputs[0]) == graph_.shape(op(i).output) ? radius : -1;
  }
  // A pool of a pool with such windows is a pool with a larger one.
  void find_max_pools() {
    struct Found {
      ValueId x;
      int radius;
    };
    std::map<int, Found> found;                                  // of each such pool, as one pool of x
    std::map<std::pair<ValueId, bool>, std::vector<int>> pools;  // of a value, in its type
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      const int radius = radius_of(i);
      if (radius < 0) continue;
      Found own{op(i).inputs[0], radius};
      const auto before = found.find(maker(own.x));
      if (before != found.end() && in_f32(before->first) == in_f32(i))
        own = {before->second.x, before->second.radius + radius};
      found[i] = own;
      const Shape& s = graph_.shape(own.x);
      constexpr std::int64_t kMostPixels = 1 << 20;
      if (s[2] * s[3] > kMostPixels ||
          max_pools_bytes(static_cast<int>(s[2]), static_cast<int>(s[3])) > options_.shared_bytes) {
        continue;
      }
      auto& together = pools[{own.x, in_f32(i)}];
      if (together.size() < kMostMaxPools) together.push_back(i);
    }
    for (auto& [key, ops] : pools) {
      const int first = ops.front();
      fusion_.absorbed.insert(ops.begin() + 1, ops.end());
      std::stable_sort(ops.begin(), ops.end(), [&](int a, int b) { return found.at(a).radius < found.at(b).radius; });
      MaxPools& all = fusion_.max_pools[first];
      all.x = key.first;
      all.ops = ops;
      for (const int i : ops) all.radius.push_back(found.at(i).radius);
    }
  }

  [[nodiscard]] bool in_f32(int i) const {
    return !fusion_.f32_ops.empty() && fusion_.f32_ops[static_cast<std::size_t>(i)];
  }

  [[nodiscard]] bool batch_of_one(ValueId id) const {
    const Shape& s = graph_.shape(id);
    return s.size() == 4 && s[0] == 1;
  }
  [[nodiscard]] static bool square(const Conv& c, int kernel) {
    return c.kernel == Pair2{kernel, kernel} && c.dilation == Pair2{1, 1} && c.stride.y == c.stride.x;
  }
  [[nodiscard]] ValueId residual(int i) const { return residual_of(op(i)); }
  [[nodiscard]] bool single_picture(int i) const { return batch_of_one(op(i).inputs[0]) && batch_of_one(op(i).output); }

  // A dense convolution that conv() takes, shared memory aside.
  [[nodiscard]] bool dense(int i) const {
    const Conv* c = conv(i);
    if (c == nullptr || in_f32(i) || c->groups != 1 || !single_picture(i)) return false;
    if (fusion_.expectation_of.count(i) != 0 || fusion_.squeeze_of.count(i) != 0 || fusion_.absorbed.count(i) != 0)
      return false;
    if (!square(*c, 1) && !square(*c, 3)) return false;
    if (c->stride.y != 1 && c->stride.y != 2) return false;
    return tensor_core_activation(op(i).activation.function);
  }

  void find_enlarged_residuals() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      if (!dense(i) || residual(i) == kNoValue) continue;
      const int make = maker(residual(i));
      if (make < 0 || in_f32(make) || uses(residual(i)) != 1) continue;
      const auto* resize = std::get_if<Resize>(&op(make).operation);
      if (resize == nullptr || !batch_of_one(op(make).inputs[0])) continue;
      const Shape& from = graph_.shape(op(make).inputs[0]);
      const Shape& to = graph_.shape(op(make).output);
      if (!repeats(*resize, from, to)) continue;
      if (adds_nothing_behind(i) && read_by_one_convolution(op(i).output)) {
        sum_where_it_is_read(i, op(make).inputs[0]);
      } else {
        fusion_.enlarged_residual[i] = op(make).inputs[0];
        fusion_.absorbed.insert(make);
      }
    }
  }
  // Row y of the result is row y * from / to, and columns likewise: as kernels read what is enlarged.
  [[nodiscard]] static bool repeats(const Resize& resize, const Shape& from, const Shape& to) {
    const auto same = [](const ResizeAxis& axis, std::int64_t in, std::int64_t out) {
      if (axis.taps != 1) return false;
      for (std::int64_t j = 0; j < out; ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (axis.index[at] != j * in / out || axis.weight[at] != 1.0F) return false;
      }
      return true;
    };
    return same(resize.y, from[2], to[2]) && same(resize.x, from[3], to[3]);
  }
  // Enlarged images that a concatenation alone reads: a program that reads the concatenation may load the small ones.
  void find_enlargements() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      const auto* resize = std::get_if<Resize>(&op(i).operation);
      if (resize == nullptr || in_f32(i) || !single_picture(i) || uses(op(i).output) != 1 || is_output(op(i).output))
        continue;
      const auto& all = readers_[static_cast<std::size_t>(op(i).output)];
      const auto* concat = all.empty() ? nullptr : std::get_if<Concat>(&op(all[0]).operation);
      if (concat == nullptr || concat->axis != 1 || in_f32(all[0])) continue;
      if (op(i).activation.function != Function::kNone) continue;
      if (repeats(*resize, graph_.shape(op(i).inputs[0]), graph_.shape(op(i).output))) fusion_.enlargements.insert(i);
    }
  }
  // Sums of two images that one convolution reads, which may be in a tile program: that adds them while it loads.
  void find_sums() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      const auto* binary = std::get_if<Binary>(&op(i).operation);
      if (binary == nullptr || binary->kind != Binary::Kind::kAdd || in_f32(i)) continue;
      if (op(i).activation.function != Function::kNone || !batch_of_one(op(i).output)) continue;
      if (fusion_.sums.count(op(i).output) != 0 || !read_by_one_convolution(op(i).output)) continue;
      const ValueId one = op(i).inputs[0], other = op(i).inputs[1];
      const auto fits = [&](ValueId id) {
        return !graph_.is_constant(id) && graph_.shape(id) == graph_.shape(op(i).output) && maker(id) >= 0 &&
               !in_f32(maker(id)) && !std::holds_alternative<Resize>(op(maker(id)).operation);
      };
      if (one != other && fits(one) && fits(other) && graph_.shape(one)[1] % 8 == 0)
        fusion_.sums[op(i).output] = {one, other};
    }
  }
  [[nodiscard]] bool adds_nothing_behind(int i) const {
    return conv(i)->activation_first || op(i).activation.function == Function::kNone;
  }
  // And by nothing else; one that can be in a tile program.
  [[nodiscard]] bool read_by_one_convolution(ValueId id) const {
    if (uses(id) != 1 || is_output(id)) return false;
    const int reader = readers_[static_cast<std::size_t>(id)][0];
    return dense(reader) && op(reader).inputs[0] == id;
  }
  // Of a pyramid: the convolution does not wait for the level above, whose enlarged image is added where the sum is
  // read.
  void sum_where_it_is_read(int i, ValueId small) {
    const ValueId sum = op(i).output, residual = op(i).inputs[3];
    const auto own = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(Value{graph_.value(sum).name + " before its sum", graph_.shape(sum), nullptr});
    op(i).output = own;
    op(i).inputs.resize(3);
    Op add;
    add.operation = Binary{Binary::Kind::kAdd};
    add.inputs = {own, residual};
    add.output = sum;
    add.origin = op(i).origin;
    graph_.ops.insert(graph_.ops.begin() + i + 1, std::move(add));
    if (!fusion_.f32_ops.empty()) fusion_.f32_ops.insert(fusion_.f32_ops.begin() + i + 1, false);
    fusion_.sums[sum] = {own, small};
    index();
  }

  void find_stem() {
    if (uses(graph_.input) != 1 || readers_[static_cast<std::size_t>(graph_.input)].size() != 1) return;
    const int i = readers_[static_cast<std::size_t>(graph_.input)][0];
    const Conv* c = conv(i);
    if (c == nullptr || in_f32(i) || !single_picture(i) || c->groups != 1 || !square(*c, 3) || c->stride.y != 2) return;
    if (graph_.shape(graph_.input)[1] != 3 || residual(i) != kNoValue) return;
    if (!tensor_core_activation(op(i).activation.function)) return;
    fusion_.stem = i;
  }

  // Of the kernel for pointwise op `point` and depthwise op `deep`: what its tile depends on.
  [[nodiscard]] SeparableArguments separable_sizes(int point, int deep) const {
    SeparableArguments a;
    const Shape& out = graph_.shape(op(point).output);
    a.x.c = static_cast<int>(graph_.shape(op(deep).inputs[0])[1]);
    a.y.c = static_cast<int>(out[1]);
    a.y.h = static_cast<int>(out[2]);
    a.y.w = static_cast<int>(out[3]);
    a.stride = conv(deep)->stride.y;
    return a;
  }

  // A 1x1 convolution of all pixels that makes no output of the network.
  [[nodiscard]] bool pointwise(int i) const {
    const Conv* c = conv(i);
    return c != nullptr && dense(i) && square(*c, 1) && c->stride.y == 1 && c->pads == Pads{} && !is_head(i);
  }
  // The depthwise 3x3 convolution that convolution `point` alone reads, or -1.
  [[nodiscard]] int depthwise_before(int point) const {
    const int d = maker(op(point).inputs[0]);
    if (d < 0 || uses(op(d).output) != 1 || is_output(op(d).output)) return -1;
    const Conv* deep = conv(d);
    if (deep == nullptr || in_f32(d) || !single_picture(d) || !square(*deep, 3) || residual(d) != kNoValue) return -1;
    const std::int64_t channels = graph_.shape(op(d).inputs[0])[1];
    if (deep->groups != channels || graph_.shape(op(d).output)[1] != channels) return -1;
    const bool strides = deep->stride.y == 1 || deep->stride.y == 2;
    return strides && tensor_core_activation(op(d).activation.function) ? d : -1;
  }

  void find_separables() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      if (!pointwise(i) || residual(i) != kNoValue || fusion_.absorbed.count(i) != 0) continue;
      if (fusion_.depthwise_of.count(i) != 0) continue;
      const int d = depthwise_before(i);
      if (d < 0 || choose_tile(separable_sizes(i, d), options_.shared_bytes) < 0) continue;
      fusion_.depthwise_of[i] = d;
      fusion_.absorbed.insert(d);
    }
  }

  // The first depthwise block, where nothing but it reads the first convolution.
  void find_stem_block() {
    if (fusion_.stem < 0) return;
    const ValueId between = op(fusion_.stem).output;
    if (uses(between) != 1 || is_output(between)) return;
    for (const auto& [point, deep] : fusion_.depthwise_of) {
      const Conv& c = *conv(deep);
      if (op(deep).inputs[0] != between || c.stride.y != 1 || c.pads != Pads{1, 1, 1, 1}) continue;
      const auto channels = static_cast<int>(graph_.shape(between)[1]);
      const auto n = static_cast<int>(graph_.shape(op(point).output)[1]);
      if (channels > kMostStemBlockChannels || stem_block_memory(channels, n).total() > options_.shared_bytes) return;
      fusion_.stem_block = point;
      fusion_.absorbed.insert(fusion_.stem);
      return;
    }
  }

  // What the second depthwise block hands to the third: there f16 would take more from a network that looks at
  // differences than everywhere behind together (adr/0014).
  void find_pairs() {
    if (fusion_.stem_block < 0) return;
    const auto only_reader = [&](ValueId id) {  // the pointwise op of the only block that reads it, or -1
      if (uses(id) != 1 || is_output(id)) return -1;
      for (const auto& [point, deep] : fusion_.depthwise_of) {
        if (op(deep).inputs[0] == id) return point;
      }
      return -1;
    };
    const int second = only_reader(op(fusion_.stem_block).output);
    const int third = second < 0 ? -1 : only_reader(op(second).output);
    if (third < 0) return;
    SeparableArguments makes = separable_sizes(second, fusion_.depthwise_of.at(second));
    SeparableArguments reads = separable_sizes(third, fusion_.depthwise_of.at(third));
    makes.y_pairs = reads.x_pairs = true;
    const bool fits = choose_tile(makes, options_.shared_bytes) >= 0 && choose_tile(reads, options_.shared_bytes) >= 0;
    if (fits) fusion_.pairs.insert(op(second).output);
  }

  // A 1x1 convolution whose result is a network output, or flattened, and nothing else.
  [[nodiscard]] bool is_head(int i) const {
    const Conv* c = conv(i);
    return c != nullptr && dense(i) && square(*c, 1) && c->stride.y == 1 && c->pads == Pads{} &&
           residual(i) == kNoValue && uses(op(i).output) == 1 && (is_output(op(i).output) || flattened(i));
  }
  [[nodiscard]] bool flattened(int i) const { return fusion_.flattened_heads.count(i) != 0; }

  void find_heads() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      if (!is_head(i) || fusion_.head_of.count(i) != 0 || fusion_.stem == i) continue;
      std::vector<int> members;
      for (const int j : readers_[static_cast<std::size_t>(op(i).inputs[0])]) {
        if (!is_head(j) || static_cast<int>(members.size()) == kMaxPlaneSinks) continue;
        if (j != i && (flattened(i) || flattened(j))) continue;
        if (fusion_.head_of.emplace(j, i).second) members.push_back(j);
      }
      fusion_.head_groups[i] = members;
    }
  }

  void find_programs() {
    std::vector<std::vector<int>> seeds;
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      if (!dense(i) || fusion_.stem == i || fusion_.depthwise_of.count(i) != 0) continue;
      if (fusion_.absorbed.count(i) != 0) continue;
      const auto head = fusion_.head_of.find(i);
      if (head != fusion_.head_of.end()) {
        if (head->second == i) seeds.push_back(fusion_.head_groups.at(i));
        continue;
      }
      std::vector<int> seed{i};
      if (fusion_.enlarged_residual.count(i) != 0) seed.push_back(maker(residual(i)));
      const ValueId in = op(i).inputs[0];
      if (fusion_.sums.count(in) != 0) {
        const int add = maker(in);
        seed.push_back(add);
        if (fusion_.sums.at(in).second != op(add).inputs[1]) seed.push_back(maker(op(add).inputs[1]));  // what enlarges
      }
      std::sort(seed.begin(), seed.end());
      seeds.push_back(seed);
    }
    group_layers(graph_, options_, seeds, fusion_);
  }

  [[nodiscard]] bool free_for_conv(int i) const {
    return dense(i) && fusion_.absorbed.count(i) == 0 && fusion_.stem != i && fusion_.depthwise_of.count(i) == 0 &&
           fusion_.program_at.count(i) == 0;
  }

  void find_siblings() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      if (!free_for_conv(i)) continue;
      const Conv& c = *conv(i);
      std::vector<int> members{i};
      if (residual(i) == kNoValue) {
        for (const int j : readers_[static_cast<std::size_t>(op(i).inputs[0])]) {
          if (j <= i || !free_for_conv(j) || residual(j) != kNoValue) continue;
          const Conv& other = *conv(j);
          if (!(other.kernel == c.kernel) || !(other.stride == c.stride) || !(other.pads == c.pads)) continue;
          if (static_cast<int>(members.size()) < kMaxSinks) members.push_back(j);
        }
      }
      if (!fits(members)) {
        members.resize(1);
        if (!fits(members)) continue;  // by its generic kernel
      }
      for (const int j : members) fusion_.absorbed.insert(j);
      fusion_.absorbed.erase(i);
      fusion_.siblings[i] = members;
    }
  }

  [[nodiscard]] bool fits(const std::vector<int>& members) const {
    return conv_sizes(graph_, members, options_).shape.tile >= 0;
  }

  Graph& graph_;
  const PlanOptions& options_;
  Fusion fusion_;
  std::vector<int> uses_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> maker_;
};

}  // namespace

ConvArguments conv_sizes(const Graph& graph, const std::vector<int>& ops, const PlanOptions& options) {
  const Op& first = graph.ops[static_cast<std::size_t>(ops[0])];
  const auto& conv = std::get<Conv>(first.operation);
  const Shape& out = graph.shape(first.output);
  ConvArguments a;
  a.x.c = static_cast<int>(graph.shape(first.inputs[0])[1]);
  a.kernel = conv.kernel.y;
  a.stride = conv.stride.y;
  a.h = static_cast<int>(out[2]);
  a.w = static_cast<int>(out[3]);
  bool warpgroups = options.warpgroup_products;  // which apply one function to all that they make
  for (const int i : ops) {
    const Op& op = graph.ops[static_cast<std::size_t>(i)];
    a.n += round_up(static_cast<int>(graph.shape(op.output)[1]), 16);
    warpgroups = warpgroups && op.activation == first.activation;
  }
  a.shape = choose_shape(a, options.shared_bytes, warpgroups);
  return a;
}

Fusion find_fusions(Graph& graph, const PlanOptions& options) { return Finder(graph, options).find(); }

}  // namespace camd::infer::cuda
