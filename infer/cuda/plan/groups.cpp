// Which layers share a tile program. At first every convolution has a program of its own; a depthwise one goes with the
// 1x1 behind it, and the heads of a level go together. Then neighbours are joined, each time those that shorten the
// network most, for as long as that shortens it. A join saves the start of a kernel and the way of an image through
// memory. It costs the border that neighbouring tiles both compute.
#include "infer/cuda/plan/groups.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <queue>

#include "infer/cuda/kernels/tiles.hpp"
#include "infer/cuda/plan/chain_length.hpp"
#include "infer/cuda/plan/packing.hpp"

namespace camd::infer::cuda {
namespace {

// Steps side by side, and frames, share the GPU: how much of it they keep busy counts as well as the longest chain
// (PlanOptions::share_of_work), and a little what the shorter chains take.
constexpr double kShareOfSum = 0.1;

// What the longest chain's own layouts may take of the GPU, beside those that the groups were chosen by.
constexpr double kMostMoreWork = 1.1;

class Grouper {
 public:
  Grouper(const Graph& graph, const PlanOptions& options, Fusion& fusion)
      : graph_(graph), options_(options), fusion_(fusion), uses_(use_counts(graph)), chain_(graph) {
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
      if (!program) continue;
      add_unit(seed, std::move(program));
      seeds_.push_back(seed);
    }
    for (const auto& [point, deep] : fusion_.depthwise_of) {
      std::vector<int> ops{deep, point};
      if (const auto block = fusion_.bottlenecks.find(point); block != fusion_.bottlenecks.end()) {
        ops.push_back(block->second.front);
        if (block->second.kept >= 0) ops.push_back(block->second.kept);
        std::sort(ops.begin(), ops.end());
      }
      add_unit(ops, {});
    }
    // Operators whose kernel computes others (conv(), the first layer) depend on what those read.
    for (int i = 0; i < count(); ++i) {
      if (unit_of_[static_cast<std::size_t>(i)] < 0) add_unit({i}, {});
    }
    while (change_best()) {
    }
    if (options_.share_of_work <= kWorkForLatency) lay_out_longest_chain();
    for (Unit& unit : units_) {
      if (!unit.program || better_by_conv(unit)) continue;
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
    double cycles = 0, work = 0;  // TileLayout's
  };

  [[nodiscard]] int count() const { return static_cast<int>(graph_.ops.size()); }
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[static_cast<std::size_t>(i)]; }
  // Over channels: others have a step of their own.
  [[nodiscard]] bool is_concat(int i) const {
    const auto* concat = std::get_if<Concat>(&op(i).operation);
    return concat != nullptr && concat->axis == 1 && graph_.shape(op(i).output).size() == 4;
  }
  [[nodiscard]] bool is_enlargement(int i) const { return fusion_.enlargements.count(i) != 0; }
  [[nodiscard]] int maker(ValueId id) const { return maker_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const std::vector<int>& readers(ValueId id) const { return readers_[static_cast<std::size_t>(id)]; }

  void add_unit(const std::vector<int>& ops, std::optional<TileProgramPlan> program) {
    const int number = static_cast<int>(units_.size());
    for (const int i : ops) unit_of_[static_cast<std::size_t>(i)] = number;
    const bool free = is_concat(ops[0]);
    const double cycles = program ? program->layout.cycles : free ? 0.0 : kUsualCycles;
    const double work = program ? program->layout.work : 0.0;
    units_.push_back({ops, std::move(program), cycles, work});
  }

  // A 3x3 alone, long enough, that conv() makes much faster by both estimates. Shorter ones and 1x1 lost in networks
  // what they gained alone (docs/experiments.md).
  [[nodiscard]] bool better_by_conv(const Unit& unit) const {
    constexpr double kLong = 16000, kMuchFaster = 0.75;
    constexpr double kLongForWarpgroups = 14000, kFasterByWarpgroups = 0.85;  // their estimate is the better one
    const int i = unit.ops[0];
    const auto* conv = std::get_if<Conv>(&op(i).operation);
    if (unit.ops.size() != 1 || conv == nullptr || conv->kernel.y != 3 || fusion_.head_of.count(i) != 0) return false;
    if (unit.cycles < kLongForWarpgroups) return false;
    const ConvArguments a = conv_sizes(graph_, {i}, options_);
    if (a.shape.tile < 0) return false;
    const bool warpgroups = is_warpgroup_shape(a.shape);
    if (!warpgroups && unit.cycles < kLong) return false;
    return conv_cycles(a) < (warpgroups ? kFasterByWarpgroups : kMuchFaster) * unit.cycles;
  }

  // ---- One group of operators as layers

  // Kept for as long as this object lives.
  [[nodiscard]] const std::optional<TileProgramPlan>& build(const std::vector<int>& ops) {
    const auto known = built_.find(ops);
    if (known != built_.end()) return known->second;
    std::optional<TileProgramPlan> made = describe(ops);
    if (made) {
      const auto layout = lay_out(made->group, options_.shared_bytes, LayoutFor::kGrouping, options_.share_of_work);
      if (layout)
        made->layout = *layout;
      else
        made.reset();
    }
    return built_.emplace(ops, std::move(made)).first->second;
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
      made.image_sums.push_back(kNoValue);
      return static_cast<int>(made.group.images.size()) - 1;
    };
    const auto read_outside = [&](ValueId id) {
      const auto& all = readers(id);
      const bool output = std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
      return output || !std::all_of(all.begin(), all.end(), inside);
    };
    for (const int i : ops) {
      if (!is_concat(i)) continue;
      if (read_outside(op(i).output)) return {};
      const int image = new_image(op(i).output);
      where[op(i).output] = {image, 0};
      int first = 0;
      for (const ValueId in : op(i).inputs) {
        const auto channels = static_cast<int>(graph_.shape(in)[1]);
        if (first % 16 != 0 || maker(in) < 0) return {};
        if (inside(maker(in)) && is_enlargement(maker(in))) {
          const ValueId small = op(maker(in)).inputs[0];
          if (channels % 16 != 0 || maker(small) < 0 || inside(maker(small))) return {};
          made.group.parts.push_back({image, first, channels});
          made.part_values.push_back(small);
        } else if (inside(maker(in))) {
          if (uses_[static_cast<std::size_t>(in)] != 1) return {};
          where[in] = {image, first};
        } else {
          if (channels % 16 != 0) return {};
          made.group.parts.push_back({image, first, channels});
          made.part_values.push_back(in);
        }
        first += channels;
      }
    }
    for (const int i : ops) {
      const auto* conv = std::get_if<Conv>(&op(i).operation);
      if (conv == nullptr) continue;  // a concatenation, or an enlargement that a convolution does
      const auto head = fusion_.head_of.find(i);
      if (head != fusion_.head_of.end() && head->second != i) continue;  // with the first of its heads
      TileLayer layer;
      const ValueId in = op(i).inputs[0];
      if (where.count(in) == 0) {
        const auto image = static_cast<std::size_t>(new_image(in));
        where[in] = {static_cast<int>(image), 0};
        const auto sum = fusion_.sums.find(in);
        if (sum != fusion_.sums.end() && inside(maker(in))) {
          const auto& [own, small] = sum->second;
          if ((maker(own) >= 0 && inside(maker(own))) || (maker(small) >= 0 && inside(maker(small)))) return {};
          made.image_values[image] = own;
          made.image_sums[image] = small;
          made.group.images[image].sum = true;
        }
      }
      const ValueId read = made.image_values[static_cast<std::size_t>(where[in].first)];
      if (where[in].second != 0 || (read != in && fusion_.sums.count(in) == 0)) return {};
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
        // A program has room for the outputs of one group of heads.
        const auto& before = made.group.layers;
        if (std::any_of(before.begin(), before.end(), [](const TileLayer& l) { return l.planes; })) return {};
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
        made.image_sums.push_back(kNoValue);
        layer.add = static_cast<int>(made.group.images.size()) - 1;
      }
      made.layer_ops.push_back(members);
      made.group.layers.push_back(layer);
    }
    // Nothing to compute: of a concatenation that is an output nobody is left to read it.
    if (made.group.layers.empty()) return {};
    return made;
  }

  // ---- Joining

  // For each unit the units whose results it reads.
  [[nodiscard]] std::vector<std::vector<int>> edges(const std::vector<int>& unit_of, int units) const {
    std::vector<std::vector<int>> into(static_cast<std::size_t>(units));
    for (const auto& [made_by, read_by] : chain_.reads()) {
      const int from = unit_of[static_cast<std::size_t>(made_by)], to = unit_of[static_cast<std::size_t>(read_by)];
      if (from != to) into[static_cast<std::size_t>(to)].push_back(from);
    }
    return into;
  }
  // Units in an order in which they can run; of those that are ready the one with the first operator goes first. Where
  // units wait for each other, these are missing.
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
    const std::vector<std::vector<int>> into = edges(unit_of, units);
    std::vector<int> sorted = sorted_units(unit_of, units, into), depth(static_cast<std::size_t>(units), 0);
    for (const int u : sorted) {
      int& own = depth[static_cast<std::size_t>(u)];
      for (const int v : into[static_cast<std::size_t>(u)]) own = std::max(own, depth[static_cast<std::size_t>(v)] + 1);
    }
    // What can run early comes early, and does not stand in a lane behind what comes late.
    std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
      return depth[static_cast<std::size_t>(a)] < depth[static_cast<std::size_t>(b)];
    });
    std::vector<int> ops;
    for (const int u : sorted) {
      const Unit& unit = units_[static_cast<std::size_t>(u)];
      ops.insert(ops.end(), unit.ops.begin(), unit.ops.end());
    }
    return ops;
  }

  // The kernels of the longest chain get the layouts that take the least time by themselves. They keep theirs where all
  // of the new ones together would take much more of the GPU, as fewer frames a second would come through then. Kernels
  // beside the chain keep those that leave most of the GPU to others. What the groups were chosen by stays: it tells
  // the lanes.
  void lay_out_longest_chain() {
    const int units = static_cast<int>(units_.size());
    const std::vector<std::vector<int>> into = edges(unit_of_, units);
    std::vector<double> end(units_.size(), 0.0);
    std::vector<int> before(units_.size(), -1);  // the unit in front in the longest chain that ends here
    int last = -1;
    for (const int u : sorted_units(unit_of_, units, into)) {
      const auto at = static_cast<std::size_t>(u);
      for (const int v : into[at]) {
        if (before[at] < 0 || end[static_cast<std::size_t>(v)] > end[static_cast<std::size_t>(before[at])])
          before[at] = v;
      }
      end[at] = units_[at].cycles + (before[at] < 0 ? 0.0 : end[static_cast<std::size_t>(before[at])]);
      if (last < 0 || end[at] > end[static_cast<std::size_t>(last)]) last = u;
    }
    std::vector<std::pair<Unit*, TileLayout>> found;
    double work = 0, work_before = 0;
    for (int u = last; u >= 0; u = before[static_cast<std::size_t>(u)]) {
      Unit& unit = units_[static_cast<std::size_t>(u)];
      if (!unit.program) continue;
      std::optional<TileLayout> layout = lay_out(unit.program->group, options_.shared_bytes, LayoutFor::kRunning);
      if (!layout) continue;
      work += layout->work;
      work_before += unit.work;
      found.emplace_back(&unit, std::move(*layout));
    }
    if (work > kMostMoreWork * work_before) return;
    for (auto& [unit, layout] : found) {
      layout.cycles = unit->cycles;
      layout.work = unit->work;
      unit->program->layout = std::move(layout);
    }
  }

  [[nodiscard]] bool reads(int reader, ValueId id) const {
    const auto& all = readers(id);
    return std::any_of(all.begin(), all.end(),
                       [&](int i) { return i == reader || (is_concat(i) && reads(reader, op(i).output)); });
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

  // Groups of operators; they replace the units whose operators they have.
  using Change = std::vector<std::vector<int>>;

  // Each two related units joined; all units that a concatenation joins, or all but one of them, joined; and each seed
  // taken out of its unit, alone or joined with another unit.
  [[nodiscard]] std::set<Change> candidates() const {
    std::set<Change> found;
    const auto join = [&](const std::set<int>& units) {
      std::vector<int> ops;
      for (const int u : units) {
        const Unit& unit = units_[static_cast<std::size_t>(u)];
        if (!unit.program) return;
        ops.insert(ops.end(), unit.ops.begin(), unit.ops.end());
      }
      found.insert({with_concats(ops)});
    };
    for (int a = 0; a < static_cast<int>(units_.size()); ++a) {
      for (int b = 0; b < a; ++b) {
        const Unit& one = units_[static_cast<std::size_t>(a)];
        const Unit& other = units_[static_cast<std::size_t>(b)];
        if (one.program && other.program && (related(one, other) || related(other, one))) join({a, b});
      }
    }
    for (int i = 0; i < count(); ++i) {
      if (!is_concat(i)) continue;
      std::set<int> units, read_it;
      bool enlarges = false;
      for (const ValueId in : op(i).inputs) {
        const bool enlarged = maker(in) >= 0 && is_enlargement(maker(in));
        enlarges = enlarges || enlarged;
        if (maker(in) >= 0 && !enlarged) units.insert(unit_of_[static_cast<std::size_t>(maker(in))]);
      }
      const std::set<int> makers = units;
      for (const int reader : readers(op(i).output)) read_it.insert(unit_of_[static_cast<std::size_t>(reader)]);
      if (enlarges) join(read_it);
      units.insert(read_it.begin(), read_it.end());
      if (units.size() < 2) continue;
      join(units);
      for (const int without : makers) {
        std::set<int> others = units;
        others.erase(without);
        if (others.size() > 1) join(others);
      }
    }
    for (const std::vector<int>& seed : seeds_) {
      const int own = unit_of_[static_cast<std::size_t>(seed[0])];
      std::vector<int> rest;
      for (const int i : units_[static_cast<std::size_t>(own)].ops) {
        if (!is_concat(i) && !is_enlargement(i) && !std::binary_search(seed.begin(), seed.end(), i)) rest.push_back(i);
      }
      if (rest.empty()) continue;
      rest = with_concats(rest);
      found.insert({rest, with_concats(seed)});
      Unit moved;
      moved.ops = seed;
      for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
        const Unit& unit = units_[static_cast<std::size_t>(u)];
        if (u == own || !unit.program || !(related(moved, unit) || related(unit, moved))) continue;
        std::vector<int> ops = unit.ops;
        ops.insert(ops.end(), seed.begin(), seed.end());
        found.insert({rest, with_concats(ops)});
      }
    }
    return found;
  }

  // These operators, the concatenations that only they read and that read one of them or an enlargement, and the
  // enlargements that those read.
  [[nodiscard]] std::vector<int> with_concats(std::vector<int> ops) const {
    std::sort(ops.begin(), ops.end());
    const std::vector<int> both = ops;
    const auto inside = [&](int i) { return i >= 0 && std::binary_search(both.begin(), both.end(), i); };
    for (int i = 0; i < count(); ++i) {
      if (!is_concat(i) || inside(i)) continue;
      const auto& all = readers(op(i).output);
      const auto& in = op(i).inputs;
      if (!all.empty() && std::all_of(all.begin(), all.end(), inside) &&
          std::any_of(in.begin(), in.end(),
                      [&](ValueId id) { return inside(maker(id)) || is_enlargement(maker(id)); })) {
        ops.push_back(i);
      }
    }
    std::sort(ops.begin(), ops.end());
    const std::vector<int> all = ops;
    for (const int i : fusion_.enlargements) {
      const int reader = readers(op(i).output)[0];
      if (std::binary_search(all.begin(), all.end(), reader) && !std::binary_search(all.begin(), all.end(), i))
        ops.push_back(i);
    }
    std::sort(ops.begin(), ops.end());
    return ops;
  }

  // The units that a change replaces, and the operators that it leaves alone: concatenations, enlargements.
  struct Replaced {
    std::set<int> units;
    std::vector<int> alone;
  };
  [[nodiscard]] Replaced replaced_by(const Change& change) const {
    Replaced found;
    std::set<int> kept;
    for (const std::vector<int>& group : change) {
      for (const int i : group) {
        found.units.insert(unit_of_[static_cast<std::size_t>(i)]);
        kept.insert(i);
      }
    }
    for (const int u : found.units) {
      for (const int i : units_[static_cast<std::size_t>(u)].ops) {
        if (kept.count(i) == 0) found.alone.push_back(i);
      }
    }
    return found;
  }

  // Estimated cycles of the network after the change; infinite if the change is not possible.
  [[nodiscard]] double length_after(const Change& change) {
    constexpr double kImpossible = std::numeric_limits<double>::infinity();
    const Replaced replaced = replaced_by(change);
    std::vector<int> unit_of = unit_of_;
    std::vector<double> cycles;
    double work = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const bool stays = !units_[u].ops.empty() && replaced.units.count(static_cast<int>(u)) == 0;
      cycles.push_back(stays ? units_[u].cycles : 0.0);
      work += stays ? units_[u].work : 0.0;
    }
    for (const std::vector<int>& group : change) {
      const std::optional<TileProgramPlan>& program = build(group);
      if (!program) return kImpossible;
      for (const int i : group) unit_of[static_cast<std::size_t>(i)] = static_cast<int>(cycles.size());
      cycles.push_back(program->layout.cycles);
      work += program->layout.work;
    }
    for (const int i : replaced.alone) {
      if (!is_concat(i) && !is_enlargement(i)) return kImpossible;
      unit_of[static_cast<std::size_t>(i)] = static_cast<int>(cycles.size());
      cycles.push_back(is_concat(i) ? 0.0 : kUsualCycles);
    }
    const std::optional<ChainLength::Cycles> chain = chain_.of(unit_of, cycles);
    if (!chain) return kImpossible;
    return chain->longest + options_.share_of_work * work + kShareOfSum * chain->sum;
  }

  bool change_best() {
    double best = length_after({});
    Change best_change;
    for (const Change& change : candidates()) {
      const double total = length_after(change);
      if (total < best) {
        best = total;
        best_change = change;
      }
    }
    if (best_change.empty()) return false;
    const Replaced replaced = replaced_by(best_change);
    for (const int u : replaced.units) units_[static_cast<std::size_t>(u)] = Unit{};
    for (const std::vector<int>& group : best_change) add_unit(group, build(group));
    for (const int i : replaced.alone) add_unit({i}, {});
    return true;
  }

  const Graph& graph_;
  const PlanOptions& options_;
  Fusion& fusion_;
  const std::vector<int> uses_;
  std::vector<int> maker_;
  std::vector<std::vector<int>> readers_;
  std::vector<std::vector<int>> seeds_;  // that have a program alone
  std::vector<Unit> units_;
  std::vector<int> unit_of_;
  std::map<std::vector<int>, std::optional<TileProgramPlan>> built_;
  ChainLength chain_;
};

}  // namespace

void group_layers(const Graph& graph, const PlanOptions& options, const std::vector<std::vector<int>>& seeds,
                  Fusion& fusion) {
  Grouper(graph, options, fusion).run(seeds);
}

}  // namespace camd::infer::cuda
