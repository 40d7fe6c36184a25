// Which layers share a tile program: at first every convolution has its own (a depthwise one goes with the 1x1 behind
// it, a level's heads go together), then neighbours are joined, always those that shorten the network most, for as long
// as something does. What a join saves is a kernel's start and an image's way through memory; what it costs is the
// border that neighbouring tiles compute twice.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <queue>

#include "infer/cuda/packing.hpp"
#include "infer/cuda/plan_builder.hpp"

namespace camd::infer::cuda {
namespace {

// Steps side by side share the GPU: their sum counts as well as the longest chain.
constexpr double kShareOfSum = 0.25;
constexpr double kPlainCycles = 6000;  // of an operator that runs by a plain kernel: never compared, only added

class Grouper {
 public:
  Grouper(const Graph& graph, const PlanOptions& options, Fusion& fusion)
      : graph_(graph), options_(options), fusion_(fusion), uses_(use_counts(graph)) {
    maker_.assign(graph_.values.size(), -1);
    readers_.assign(graph_.values.size(), {});
    for (int i = 0; i < count(); ++i) {
      maker_[static_cast<std::size_t>(op(i).output)] = i;
      for (const ValueId in : op(i).inputs) {
        if (in != kNoValue) readers_[static_cast<std::size_t>(in)].push_back(i);
      }
    }
  }

  void run(const std::vector<std::vector<int>>& seeds) {
    unit_of_.assign(static_cast<std::size_t>(count()), -1);
    for (const std::vector<int>& seed : seeds) {
      std::optional<TileProgramPlan> program = build(seed);
      if (program) add_unit(seed, std::move(program));
    }
    for (const auto& [point, deep] : fusion_.depthwise_of) add_unit({deep, point}, {});
    // Operators whose kernel computes others (conv(), the first layer) depend on what those read.
    for (int i = 0; i < count(); ++i) {
      if (unit_of_[static_cast<std::size_t>(i)] < 0) add_unit({i}, {});
    }
    while (join_best()) {
    }
    for (Unit& unit : units_) {
      if (!unit.program) continue;
      const int at = unit.ops.front();
      for (const int i : unit.ops) fusion_.absorbed.insert(i);
      fusion_.absorbed.erase(at);
      fusion_.program_at[at] = static_cast<int>(fusion_.programs.size());
      fusion_.programs.push_back(std::move(*unit.program));
    }
    fusion_.order = order(unit_of_, static_cast<int>(units_.size()));
  }

 private:
  struct Unit {
    std::vector<int> ops;  // ascending; empty: joined into another
    std::optional<TileProgramPlan> program;
    double cycles = 0;
  };

  [[nodiscard]] int count() const { return static_cast<int>(graph_.ops.size()); }
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[static_cast<std::size_t>(i)]; }
  [[nodiscard]] int maker(ValueId id) const { return maker_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const std::vector<int>& readers(ValueId id) const { return readers_[static_cast<std::size_t>(id)]; }

  void add_unit(const std::vector<int>& ops, std::optional<TileProgramPlan> program) {
    const int number = static_cast<int>(units_.size());
    for (const int i : ops) unit_of_[static_cast<std::size_t>(i)] = number;
    const bool free = std::holds_alternative<Concat>(op(ops[0]).operation);
    const double cycles = program ? program->layout.cycles : free ? 0.0 : kPlainCycles;
    units_.push_back({ops, std::move(program), cycles});
  }

  // ---- One group of operators as layers

  [[nodiscard]] std::optional<TileProgramPlan> build(const std::vector<int>& ops) {
    const auto known = built_.find(ops);
    if (known != built_.end()) return known->second;
    std::optional<TileProgramPlan> made = describe(ops);
    if (made) {
      const std::optional<TileLayout> layout = lay_out(made->group, options_.shared_bytes);
      if (layout)
        made->layout = *layout;
      else
        made.reset();
    }
    built_[ops] = made;
    return made;
  }

  [[nodiscard]] std::optional<TileProgramPlan> describe(const std::vector<int>& ops) const {
    const auto inside = [&](int i) { return std::binary_search(ops.begin(), ops.end(), i); };
    TileProgramPlan made;
    made.ops = ops;
    std::map<ValueId, std::pair<int, int>> where;  // value -> image and first channel
    const auto new_image = [&](ValueId id) {
      const Shape& s = graph_.shape(id);
      made.group.images.push_back({static_cast<int>(s[2]), static_cast<int>(s[3]), static_cast<int>(s[1]), false});
      made.image_values.push_back(id);
      return static_cast<int>(made.group.images.size()) - 1;
    };
    const auto read_outside = [&](ValueId id) {
      const auto& all = readers(id);
      const bool output = std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
      return output || !std::all_of(all.begin(), all.end(), inside);
    };
    for (const int i : ops) {
      if (!std::holds_alternative<Concat>(op(i).operation)) continue;
      if (read_outside(op(i).output)) return {};
      const int image = new_image(op(i).output);
      where[op(i).output] = {image, 0};
      int first = 0;
      for (const ValueId in : op(i).inputs) {
        if (first % 16 != 0 || maker(in) < 0 || !inside(maker(in)) || uses_[static_cast<std::size_t>(in)] != 1)
          return {};
        where[in] = {image, first};
        first += static_cast<int>(graph_.shape(in)[1]);
      }
    }
    for (const int i : ops) {
      const auto* conv = std::get_if<Conv>(&op(i).operation);
      if (conv == nullptr) continue;  // a concatenation, or an enlargement that a convolution does
      const auto head = fusion_.head_of.find(i);
      if (head != fusion_.head_of.end() && head->second != i) continue;  // with the first of its heads
      TileLayer layer;
      const ValueId in = op(i).inputs[0];
      if (where.count(in) == 0) where[in] = {new_image(in), 0};
      if (where[in].second != 0 || made.image_values[static_cast<std::size_t>(where[in].first)] != in) return {};
      layer.from = where[in].first;
      layer.kernel = conv->kernel.y;
      layer.stride = conv->stride.y;
      layer.pad_top = conv->pads.top;
      layer.pad_left = conv->pads.left;
      std::vector<int> members{i};
      if (head != fusion_.head_of.end()) members = fusion_.head_groups.at(i);
      for (const int m : members) layer.channels += static_cast<int>(graph_.shape(op(m).output)[1]);
      const ValueId out = op(i).output;
      if (where.count(out) == 0) where[out] = {new_image(out), 0};
      layer.to = where[out].first;
      layer.first_channel = where[out].second;
      TileImage& to = made.group.images[static_cast<std::size_t>(layer.to)];
      if (head != fusion_.head_of.end()) {
        layer.planes = true;
        to.c = layer.channels;
        to.stored = true;
      } else if (read_outside(out)) {
        to.stored = true;
      }
      if (residual_of(op(i)) != kNoValue) {
        // What is added is read from memory: it must be there before.
        const bool enlarged = fusion_.enlarged_residual.count(i) != 0;
        const ValueId added = enlarged ? fusion_.enlarged_residual.at(i) : residual_of(op(i));
        if (maker(added) >= 0 && inside(maker(added))) return {};
        const TileImage like{to.h, to.w, layer.channels, false};  // a copy: the images may move
        made.group.images.push_back(like);
        made.image_values.push_back(added);
        layer.add = static_cast<int>(made.group.images.size()) - 1;
      }
      made.layer_ops.push_back(members);
      made.group.layers.push_back(layer);
    }
    return made;
  }

  // ---- Joining

  // Units of `unit_of` in an order in which they can run; empty when there is none.
  [[nodiscard]] std::vector<std::vector<int>> edges(const std::vector<int>& unit_of, int units) const {
    std::vector<std::vector<int>> into(static_cast<std::size_t>(units));
    for (int i = 0; i < count(); ++i) {
      const int to = unit_of[static_cast<std::size_t>(i)];
      for (const ValueId in : op(i).inputs) {
        if (in == kNoValue || maker(in) < 0) continue;
        const int from = unit_of[static_cast<std::size_t>(maker(in))];
        if (from != to) into[static_cast<std::size_t>(to)].push_back(from);
      }
    }
    return into;
  }
  // Units in an order in which they can run, each by its first operator; shorter than all units if there is none.
  [[nodiscard]] std::vector<int> sorted_units(const std::vector<int>& unit_of, int units,
                                              const std::vector<std::vector<int>>& into) const {
    std::vector<int> waiting(static_cast<std::size_t>(units), 0), first(static_cast<std::size_t>(units), -1);
    std::vector<std::vector<int>> from(static_cast<std::size_t>(units));
    for (int u = 0; u < units; ++u) {
      for (const int v : into[static_cast<std::size_t>(u)]) {
        ++waiting[static_cast<std::size_t>(u)];
        from[static_cast<std::size_t>(v)].push_back(u);
      }
    }
    for (int i = count(); i-- > 0;) first[static_cast<std::size_t>(unit_of[static_cast<std::size_t>(i)])] = i;
    using Item = std::pair<int, int>;
    std::priority_queue<Item, std::vector<Item>, std::greater<>> ready;
    for (int u = 0; u < units; ++u) {
      if (first[static_cast<std::size_t>(u)] >= 0 && waiting[static_cast<std::size_t>(u)] == 0)
        ready.emplace(first[static_cast<std::size_t>(u)], u);
    }
    std::vector<int> sorted;
    while (!ready.empty()) {
      const int u = ready.top().second;
      ready.pop();
      sorted.push_back(u);
      for (const int v : from[static_cast<std::size_t>(u)]) {
        if (--waiting[static_cast<std::size_t>(v)] == 0) ready.emplace(first[static_cast<std::size_t>(v)], v);
      }
    }
    return sorted;
  }
  [[nodiscard]] std::vector<int> order(const std::vector<int>& unit_of, int units) const {
    std::vector<int> ops;
    for (const int u : sorted_units(unit_of, units, edges(unit_of, units))) {
      const Unit& unit = units_[static_cast<std::size_t>(u)];
      ops.insert(ops.end(), unit.ops.begin(), unit.ops.end());
    }
    return ops;
  }

  // What the network takes, roughly; infinite if units wait for each other.
  [[nodiscard]] double length(const std::vector<int>& unit_of, const std::vector<double>& cycles, int alive) const {
    const int units = static_cast<int>(cycles.size());
    const std::vector<std::vector<int>> into = edges(unit_of, units);
    const std::vector<int> sorted = sorted_units(unit_of, units, into);
    if (static_cast<int>(sorted.size()) != alive) return std::numeric_limits<double>::infinity();
    std::vector<double> end(cycles.size(), 0.0);
    double longest = 0, sum = 0;
    for (const int u : sorted) {
      double begin = 0;
      for (const int v : into[static_cast<std::size_t>(u)]) begin = std::max(begin, end[static_cast<std::size_t>(v)]);
      end[static_cast<std::size_t>(u)] = begin + cycles[static_cast<std::size_t>(u)];
      longest = std::max(longest, end[static_cast<std::size_t>(u)]);
      sum += cycles[static_cast<std::size_t>(u)];
    }
    return longest + kShareOfSum * sum;
  }

  [[nodiscard]] bool reads(int reader, ValueId id) const {
    const auto& all = readers(id);
    return std::any_of(all.begin(), all.end(), [&](int i) {
      return i == reader || (std::holds_alternative<Concat>(op(i).operation) && reads(reader, op(i).output));
    });
  }

  // One reads what the other makes, or they read the same.
  [[nodiscard]] bool related(const Unit& a, const Unit& b) const {
    for (const int i : a.ops) {
      for (const int j : b.ops) {
        if (reads(j, op(i).output)) return true;
        const bool both =
            std::holds_alternative<Conv>(op(i).operation) && std::holds_alternative<Conv>(op(j).operation);
        if (both && op(i).inputs[0] == op(j).inputs[0]) return true;
      }
    }
    return false;
  }

  // Groups that could be one: every two related units, and all that meet in a concatenation.
  [[nodiscard]] std::set<std::vector<int>> candidates() const {
    std::set<std::vector<int>> found;
    const auto add = [&](const std::set<int>& units) {
      std::vector<int> ops;
      for (const int u : units) {
        const Unit& unit = units_[static_cast<std::size_t>(u)];
        if (!unit.program) return;
        ops.insert(ops.end(), unit.ops.begin(), unit.ops.end());
      }
      found.insert(with_concats(ops));
    };
    for (int a = 0; a < static_cast<int>(units_.size()); ++a) {
      for (int b = 0; b < a; ++b) {
        const Unit& one = units_[static_cast<std::size_t>(a)];
        const Unit& other = units_[static_cast<std::size_t>(b)];
        if (one.program && other.program && (related(one, other) || related(other, one))) add({a, b});
      }
    }
    for (int i = 0; i < count(); ++i) {
      if (!std::holds_alternative<Concat>(op(i).operation)) continue;
      std::set<int> units;
      for (const ValueId in : op(i).inputs) {
        if (maker(in) >= 0) units.insert(unit_of_[static_cast<std::size_t>(maker(in))]);
      }
      for (const int reader : readers(op(i).output)) units.insert(unit_of_[static_cast<std::size_t>(reader)]);
      if (units.size() > 1) add(units);
    }
    return found;
  }

  // These operators, and concatenations that lie wholly between them.
  [[nodiscard]] std::vector<int> with_concats(std::vector<int> ops) const {
    std::sort(ops.begin(), ops.end());
    const std::vector<int> both = ops;
    const auto inside = [&](int i) { return i >= 0 && std::binary_search(both.begin(), both.end(), i); };
    for (int i = 0; i < count(); ++i) {
      if (!std::holds_alternative<Concat>(op(i).operation) || inside(i)) continue;
      const auto& all = readers(op(i).output);
      const auto& in = op(i).inputs;
      if (!all.empty() && std::all_of(all.begin(), all.end(), inside) &&
          std::all_of(in.begin(), in.end(), [&](ValueId id) { return inside(maker(id)); })) {
        ops.push_back(i);
      }
    }
    std::sort(ops.begin(), ops.end());
    return ops;
  }

  bool join_best() {
    std::vector<double> cycles;
    int alive = 0;
    for (const Unit& unit : units_) {
      cycles.push_back(unit.cycles);
      alive += unit.ops.empty() ? 0 : 1;
    }
    double best = length(unit_of_, cycles, alive);
    std::vector<int> best_ops;
    for (const std::vector<int>& ops : candidates()) {
      const std::optional<TileProgramPlan> program = build(ops);
      if (!program) continue;
      std::vector<int> unit_of = unit_of_;
      std::vector<double> after = cycles;
      const int joined = unit_of_[static_cast<std::size_t>(ops[0])];
      int left = alive + 1;
      std::set<int> gone;
      for (const int i : ops) {
        int& u = unit_of[static_cast<std::size_t>(i)];
        if (gone.insert(u).second) --left;
        after[static_cast<std::size_t>(u)] = 0;
        u = joined;
      }
      after[static_cast<std::size_t>(joined)] = program->layout.cycles;
      const double total = length(unit_of, after, left);
      if (total < best) {
        best = total;
        best_ops = ops;
      }
    }
    if (best_ops.empty()) return false;
    for (const int i : best_ops) {
      Unit& old = units_[static_cast<std::size_t>(unit_of_[static_cast<std::size_t>(i)])];
      old = Unit{};
    }
    add_unit(best_ops, build(best_ops));
    return true;
  }

  const Graph& graph_;
  const PlanOptions& options_;
  Fusion& fusion_;
  const std::vector<int> uses_;
  std::vector<int> maker_;
  std::vector<std::vector<int>> readers_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_;
  std::map<std::vector<int>, std::optional<TileProgramPlan>> built_;
};

}  // namespace

void group_layers(const Graph& graph, const PlanOptions& options, const std::vector<std::vector<int>>& seeds,
                  Fusion& fusion) {
  Grouper(graph, options, fusion).run(seeds);
}

}  // namespace camd::infer::cuda
