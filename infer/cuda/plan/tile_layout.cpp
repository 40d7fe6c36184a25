// Tries every tile and keeps the cheapest.
#include "infer/cuda/plan/tile_layout.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "infer/cuda/plan/packing.hpp"

namespace camd::infer::cuda {
namespace {

constexpr std::array kSides = {4, 5, 6, 8, 10, 12, 16, 20, 32};
constexpr std::array kColumns = {1, 2, 3, 4, 5, 8, 15, 16};
constexpr std::array kMoreSides = {2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 16, 20, 26, 32, 40};
constexpr std::array kMoreColumns = {1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 32};

// What a GPU does with this kernel. A phase takes what its busiest warp takes, or what all warps of the processor
// together ask of its shared memory, its tensor cores or its issue slots, whichever is most. Times are cycles.
struct Costs {
  double start;         // between two kernels
  double load_latency;  // from the first fetch to the last arrival
  double load_bytes;    // of images, a cycle and processor
  double barrier;
  double fetch_bytes;    // of weights that nothing hides, a cycle and processor
  double late_start;     // of a block before its weights are under way
  double instruction;    // of a warp alone
  double issue;          // of the processor
  double beside;         // of its time that a warp waits longer for each further block
  double beside_warp;    // and for each further warp than 8
  double shared_bytes;   // a cycle and processor
  double step_latency;   // of a warp, from a step's fragments to its sums
  double not_ahead;      // and more, where they are not fetched during the step before
  double product;        // of a quarter of the processor, 16 x 8 x 16
  double around;         // instructions around the steps of a unit, as multiples of a count of the source
  double setup;          // instructions of a stage that nothing hides
  double stage;          // instructions for each stage that is read
  double word;           // instructions for 16 bytes that are loaded
  double share_of_work;  // the weight of `work` beside `cycles`
  std::span<const int> sides, columns;  // of tiles that are tried, and of blocks that share one
};
// Fitted to a network in which kernels meet each other, are met for the first time, and share the GPU (one H200, the
// reference detector). Chooses groups.
constexpr Costs kInNetwork{.start = 2400,
                           .load_latency = 1100,
                           .load_bytes = 1e9,
                           .barrier = 300,
                           .fetch_bytes = 40,
                           .late_start = 800,
                           .instruction = 6.5,
                           .issue = 0.3,
                           .beside = 0.5,
                           .beside_warp = 0.03,
                           .shared_bytes = 110,
                           .step_latency = 44,
                           .not_ahead = 60,
                           .product = 8,
                           .around = 1,
                           .setup = 110,
                           .stage = 60,
                           .word = 36,
                           .share_of_work = 1,  // lay_out() has it from its caller
                           .sides = kSides,
                           .columns = kColumns};
// Fitted to 19,000 layouts of 369 groups, each in a row of its like (one H100, docs/experiments.md). Chooses layouts:
// of one group these differ in what they do, not in what is around them.
constexpr Costs kInARow{.start = 1470,
                        .load_latency = 0,
                        .load_bytes = 44,
                        .barrier = 420,
                        .fetch_bytes = 280,
                        .late_start = 0,
                        .instruction = 4.3,
                        .issue = 0.5,
                        .beside = 0.1,
                        .beside_warp = 0.045,
                        .shared_bytes = 74,
                        .step_latency = 17,
                        .not_ahead = 50,
                        .product = 14,
                        .around = 1.93,
                        .setup = 13,
                        .stage = 79,
                        .word = 29,
                        .share_of_work = 1,
                        .sides = kMoreSides,
                        .columns = kMoreColumns};
constexpr int kProcessors = 132;
// For what a block writes of an output in one piece, a row of its tile. Across the bus it costs three times as much, at
// whatever length up to 64 bytes; not every network's outputs lie there.
constexpr double kPiece = 0.8;
constexpr int kProcessorThreads = 512;  // that its registers are enough for
constexpr int kProcessorShared = 227 * 1024;
constexpr int kMostTilePixels = 512;

constexpr int kLastPhase = 1000;

// Rows and columns of an image that a block makes, relative to step * (its number): from -back up to end.
struct Span {
  int step = 0, back = 0, end = 0;
  [[nodiscard]] int size() const { return back + end; }
};
struct Region {
  bool known = false;
  Span y, x;
};

bool join(Span& into, const Span& with) {
  if (into.step != with.step) return false;
  into.back = std::max(into.back, with.back);
  into.end = std::max(into.end, with.end);
  return true;
}

Span needed(const Span& out, int stride, int kernel, int pad) {
  return {out.step * stride, out.back * stride + pad, (out.end - 1) * stride + kernel - pad};
}

class Layouter {
 public:
  Layouter(const TileGroup& group, std::size_t shared_bytes, const Costs& costs)
      : group_(group), shared_bytes_(shared_bytes), costs_(costs) {
    const TileLayer& last = group_.layers.back();
    base_ = group_.images[static_cast<std::size_t>(last.to)];
    planes_ = std::any_of(group_.layers.begin(), group_.layers.end(), [](const TileLayer& l) { return l.planes; });
    find_phases();
  }

  std::optional<TileLayout> best() {
    if (group_.layers.size() + loaded_.size() + group_.parts.size() + 1 > kMaxTileStages) return {};
    for (const int ty : costs_.sides) {
      for (const int tx : costs_.sides) {
        // Larger than the image helps nobody; smaller ones than a row of products waste them.
        if (ty * tx > kMostTilePixels || ty * tx < 16 || tx < ty) continue;
        if (planes_ && tx % kPlaneRun != 0) continue;
        if ((ty > 4 && ty >= 2 * base_.h) || (tx > 4 && tx >= 2 * base_.w)) continue;
        if (!find_regions(ty, tx)) continue;
        for (const int columns : costs_.columns) {
          if (columns > 1 && !splits(columns)) continue;
          for (const int threads : {256, 512}) try_layout(ty, tx, columns, threads);
        }
      }
    }
    return std::move(best_);
  }

 private:
  struct ImageUse {
    bool loaded = true;
    int written = 0, read = 0;  // phases: first write, last read (0: never)
  };

  void find_phases() {
    uses_.assign(group_.images.size(), {});
    for (const TileLayer& layer : group_.layers) uses_[static_cast<std::size_t>(layer.to)].loaded = false;
    std::vector<int> ready(group_.images.size(), 0);  // phase in which an image is complete
    for (std::size_t i = 0; i < group_.layers.size(); ++i) {
      const TileLayer& layer = group_.layers[i];
      ImageUse& from = uses_[static_cast<std::size_t>(layer.from)];
      ImageUse& to = uses_[static_cast<std::size_t>(layer.to)];
      const int phase = ready[static_cast<std::size_t>(layer.from)] + 1;
      phase_.push_back(phase);
      int& done = ready[static_cast<std::size_t>(layer.to)];
      to.written = done == 0 ? phase : std::min(to.written, phase);
      done = std::max(done, phase);
      from.read = std::max(from.read, phase);
      if (layer.add >= 0) {
        ImageUse& add = uses_[static_cast<std::size_t>(layer.add)];
        add.read = phase;
      }
      if (layer.planes) {
        to.read = kLastPhase;
      }
      order_.push_back(i);
    }
    for (const TilePart& part : group_.parts) {
      ImageUse& joined = uses_[static_cast<std::size_t>(part.image)];
      joined.loaded = false;  // part by part, not as a whole
      joined.written = 0;
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return phase_[a] < phase_[b]; });
    for (std::size_t v = 0; v < group_.images.size(); ++v) {
      if (uses_[v].loaded) loaded_.push_back(static_cast<int>(v));
    }
  }

  // The blocks of a column share a tile: the last layer alone is split, and nothing else is stored.
  [[nodiscard]] bool splits(int columns) const {
    const TileLayer& last = group_.layers.back();
    if (last.planes || order_.back() + 1 != group_.layers.size()) return false;
    for (const TileLayer& layer : group_.layers) {
      if (&layer != &last && group_.images[static_cast<std::size_t>(layer.to)].stored) return false;
    }
    return round_up(last.channels, 16) / 16 % columns == 0;
  }

  bool find_regions(int ty, int tx) {
    regions_.assign(group_.images.size(), {});
    for (std::size_t i = group_.layers.size(); i-- > 0;) {
      const TileLayer& layer = group_.layers[i];
      const TileImage& to = group_.images[static_cast<std::size_t>(layer.to)];
      Region& out = regions_[static_cast<std::size_t>(layer.to)];
      if (!out.known) {
        if (to.h != base_.h || to.w != base_.w) return false;
        out = {true, {ty, 0, ty}, {tx, 0, tx}};
      }
      if (to.stored) {
        out.y.back = std::max(out.y.back, 0);
        out.y.end = std::max(out.y.end, out.y.step);
        out.x.back = std::max(out.x.back, 0);
        out.x.end = std::max(out.x.end, out.x.step);
        const int tiles_y = (base_.h + ty - 1) / ty, tiles_x = (base_.w + tx - 1) / tx;
        if (tiles_y * out.y.step < to.h || tiles_x * out.x.step < to.w) return false;
      }
      if (layer.add >= 0) regions_[static_cast<std::size_t>(layer.add)] = out;
      Region& in = regions_[static_cast<std::size_t>(layer.from)];
      const Span y = needed(out.y, layer.stride, layer.kernel, layer.pad_top);
      const Span x = needed(out.x, layer.stride, layer.kernel, layer.pad_left);
      if (!in.known) {
        in = {true, y, x};
      } else if (!join(in.y, y) || !join(in.x, x)) {
        return false;
      }
    }
    // A region that grew after a layer behind it was looked at would be made too small: layers of one image agree,
    // since each looks at it only after all its readers.
    return true;
  }

  // Of a dense stage, or of a phase.
  struct Work {
    int units = 0;
    double setup = 0, each = 0;                         // cycles of a warp: once, and for each unit
    double issued = 0, shared_bytes = 0, products = 0;  // of all its units: instructions, bytes read, 16 x 8 x 16
    [[nodiscard]] double alone(const Costs& costs, int warps) const {
      const int rounds = (units + warps - 1) / warps;
      return (setup + rounds * each) * (1 + costs.beside_warp * (warps - 8));
    }
    // Of a processor with so many blocks like this one.
    [[nodiscard]] double cycles(const Costs& costs, int warps, int blocks) const {
      const double quarters = std::min(4, std::min(units, warps) * blocks);
      return std::max({alone(costs, warps) * (1 + costs.beside * (blocks - 1)), blocks * issued * costs.issue,
                       blocks * shared_bytes / costs.shared_bytes, blocks * products * costs.product / quarters});
    }
    // Stages of a phase share its warps: their units go on where those of the stage before ended.
    void add(const Work& stage) {
      setup += stage.setup;
      each = (units * each + stage.units * stage.each) / (units + stage.units);
      units += stage.units;
      issued += stage.issued;
      shared_bytes += stage.shared_bytes;
      products += stage.products;
    }
  };

  [[nodiscard]] static Work dense_work(const Costs& costs, const TileStage& s, int unit, bool leaves, bool adds) {
    const int mt = kTileUnits[unit][0], nt = kTileUnits[unit][1];
    const int steps = s.depth * s.kernel * s.kernel;
    const bool ahead = s.depth % 2 == 0 || s.depth % 3 == 0 || (s.depth == 1 && s.kernel == 3);
    Work w;
    w.units = (s.h * s.w + 16 * mt - 1) / (16 * mt) * (s.n16 / nt);
    const int quad = leaves ? 17 : 15;
    const double around =
        costs.around * (14 * mt + 10 * nt + 2 * mt * (14 + (leaves ? 8 : 0) + nt * (quad + (adds ? 20 : 0))));
    const int step = mt + nt + 2 * mt * nt + (ahead ? 3 : 10);
    w.setup = costs.setup * costs.instruction;
    w.each = around * costs.instruction +
             steps * std::max(costs.step_latency + (ahead ? 0 : costs.not_ahead), 2.0 * mt * nt * costs.product);
    w.issued = w.units * (around + steps * step) + 8 * costs.setup;
    w.shared_bytes = w.units * steps * (mt + nt) * 512.0;
    w.products = w.units * steps * 2.0 * mt * nt;
    return w;
  }

  // What a layout does, from which its time is estimated.
  struct Doing {
    int blocks = 0, threads = 0, shared_bytes = 0, weight_bytes = 0, stages = 0;
    double load_bytes = 0;
    int plane_rounds = 0;  // of a warp that writes outputs; 0: there are none
    struct Dense {
      TileStage stage;
      bool begins, leaves, adds;
    };
    std::vector<Dense> dense;
  };
  struct Times {
    double cycles = 0, work = 0;  // TileLayout's
  };
  [[nodiscard]] static Times estimate(const Costs& costs, const Doing& doing) {
    const int warps = doing.threads / 32;
    std::vector<Work> phases;
    for (const Doing::Dense& d : doing.dense) {
      if (d.begins) phases.emplace_back();
      phases.back().add(dense_work(costs, d.stage, d.stage.unit, d.leaves, d.adds));
    }
    double own = costs.instruction *
                 (60 + doing.stages * costs.stage + costs.word * (doing.load_bytes / 16 / doing.threads + 0.5));
    if (doing.plane_rounds != 0) own += costs.instruction * (60 + doing.plane_rounds * 50.0) + costs.barrier;
    const int fit =
        std::max(1, std::min(kProcessorShared / (doing.shared_bytes + 1024), kProcessorThreads / doing.threads));
    const auto wave_of = [&](int beside) {
      double wave = costs.load_latency + own + beside * doing.load_bytes / costs.load_bytes;
      // Where there is no room beside a block of the kernel in front, weights are fetched when that one has ended.
      if (fit < 2) wave += costs.late_start + doing.weight_bytes / costs.fetch_bytes;
      for (const Work& w : phases) wave += costs.barrier + w.cycles(costs, warps, beside);
      return wave;
    };
    const int each = (doing.blocks + kProcessors - 1) / kProcessors, beside = std::min(fit, each);
    const int waves = (each + beside - 1) / beside;
    return {costs.start + waves * wave_of(beside), doing.blocks * wave_of(fit) / fit / kProcessors};
  }

  void try_layout(int ty, int tx, int columns, int threads) {
    TileLayout made;
    made.stages.reserve(kMaxTileStages);
    TileProgramArguments& p = made.program;
    p.threads = threads;
    p.columns = columns;
    p.tiles_y = (base_.h + ty - 1) / ty;
    p.tiles_x = (base_.w + tx - 1) / tx;
    const int warps = threads / 32;
    int at = static_cast<int>((loaded_.size() + group_.parts.size() + group_.layers.size() + (planes_ ? 1 : 0)) *
                              sizeof(TileStage));
    Doing doing;
    for (const int v : loaded_) {
      TileStage& s = add_stage(made, v, -1);
      s.kind = TileStageKind::kLoad;
      s.depth = words_of(v);
      s.by_depth = make_divider(s.depth);
      set_pixels(s, v);
      doing.load_bytes += 16.0 * s.h * s.w * s.depth * (group_.images[static_cast<std::size_t>(v)].sum ? 2 : 1);
    }
    for (std::size_t i = 0; i < group_.parts.size(); ++i) {
      const TilePart& part = group_.parts[i];
      TileStage& s = add_stage(made, -1, -1);
      made.stage_part.back() = static_cast<int>(i);
      s.kind = TileStageKind::kLoad;
      s.depth = part.channels / 8;
      s.by_depth = make_divider(s.depth);
      set_pixels(s, part.image);
      doing.load_bytes += 16.0 * s.h * s.w * s.depth;
    }
    doing.stages = p.stage_count;
    double pieces = 0;  // of outputs
    int phase = 0;
    for (const std::size_t i : order_) {
      const TileLayer& layer = group_.layers[i];
      TileStage& s = add_stage(made, -1, static_cast<int>(i));
      s.kind = TileStageKind::kDense;
      s.barrier = phase_[i] != phase;
      phase = phase_[i];
      s.kernel = static_cast<std::uint8_t>(layer.kernel);
      s.stride = static_cast<std::uint8_t>(layer.stride);
      set_pixels(s, layer.to);
      Work work;
      const TileImage& to = group_.images[static_cast<std::size_t>(layer.to)];
      s.depth = (group_.images[static_cast<std::size_t>(layer.from)].c + 15) / 16;
      s.n16_total = round_up(layer.channels, 16) / 16;
      const bool split = columns > 1 && i + 1 == group_.layers.size();
      s.n16 = split ? s.n16_total / columns : s.n16_total;
      if (split) p.split_stage = p.stage_count - 1;
      bool first = true;
      for (int unit = 0; unit < kTileUnitCount; ++unit) {
        if (s.n16 % kTileUnits[unit][1] != 0) continue;
        const Work other = dense_work(costs_, s, unit, to.stored && !layer.planes, layer.add >= 0);
        if (first || other.cycles(costs_, warps, 1) < work.cycles(costs_, warps, 1)) {
          work = other;
          s.unit = static_cast<std::uint8_t>(unit);
        }
        first = false;
      }
      s.weights_at = at;
      at += s.depth * layer.kernel * layer.kernel * s.n16 * 512;
      s.bias_at = at;
      at += s.n16 * 64;
      s.by_depth = make_divider(s.depth);
      s.by_columns = make_divider(std::max(1, s.n16 / kTileUnits[s.unit][1]));
      s.units = work.units;
      doing.dense.push_back({s, s.barrier, to.stored && !layer.planes, layer.add >= 0});
      if (static_cast<std::size_t>(at) > shared_bytes_) return;
    }
    p.program_bytes = at;
    for (std::size_t i = 0; i < group_.layers.size(); ++i) {
      if (!group_.layers[i].planes) continue;
      TileStage& s = add_stage(made, -1, static_cast<int>(i));
      s.kind = TileStageKind::kPlanes;
      s.barrier = true;
      set_pixels(s, group_.layers[i].to);
      s.channels = group_.layers[i].channels;
      s.depth = (s.channels + 7) / 8;
      s.by_depth = make_divider(s.depth);
      const int runs = s.h * (s.w / kPlaneRun);
      s.by_w = make_divider(s.w / kPlaneRun);
      s.units = (runs + 3) / 4 * s.depth;
      s.planes_at = at;
      at += s.depth * 8 * kPlaneBytes;
      doing.plane_rounds = (s.units + warps - 1) / warps;
      pieces += static_cast<double>(s.h) * s.channels * p.tiles_y * p.tiles_x;
    }
    doing.weight_bytes = at;
    if (!place_images(made, at)) return;
    p.shared_bytes = at;
    doing.shared_bytes = at;
    doing.blocks = p.tiles_y * p.tiles_x * columns;
    doing.threads = threads;
    const Times times = estimate(costs_, doing), network = estimate(kInNetwork, doing);
    made.cycles = network.cycles;
    made.work = network.work;
    const double cost = times.cycles + costs_.share_of_work * times.work + kPiece * pieces;
    if (best_ && cost >= best_->cost) return;
    best_ = std::move(made);
    best_->cost = cost;
  }
  // Good until the next one is added.
  static TileStage& add_stage(TileLayout& made, int image, int layer) {
    made.stage_image.push_back(image);
    made.stage_layer.push_back(layer);
    made.stage_part.push_back(-1);
    ++made.program.stage_count;
    return made.stages.emplace_back();
  }
  void set_pixels(TileStage& s, int image) const {
    const Region& r = regions_[static_cast<std::size_t>(image)];
    s.step_y = static_cast<std::int16_t>(r.y.step);
    s.step_x = static_cast<std::int16_t>(r.x.step);
    s.back_y = static_cast<std::int16_t>(r.y.back);
    s.back_x = static_cast<std::int16_t>(r.x.back);
    s.h = static_cast<std::int16_t>(r.y.size());
    s.w = static_cast<std::int16_t>(r.x.size());
    s.image_h = group_.images[static_cast<std::size_t>(image)].h;
    s.image_w = group_.images[static_cast<std::size_t>(image)].w;
    s.by_w = make_divider(s.w);
  }
  // 16-byte words of a pixel in shared memory: a product reads 16 channels at a time.
  [[nodiscard]] int words_of(int image) const {
    return (group_.images[static_cast<std::size_t>(image)].c + 15) / 16 * 2;
  }

  // Gives every image that the group reads its place behind `at`, which becomes the end of all.
  bool place_images(TileLayout& made, int& at) const {
    struct Placed {
      int image, begin, end;
    };
    std::vector<Placed> placed;
    std::vector<int> offset(group_.images.size(), -1);
    const int first = at;
    for (std::size_t v = 0; v < group_.images.size(); ++v) {
      const ImageUse& use = uses_[v];
      if (use.read == 0) continue;
      const Region& r = regions_[v];
      const int size = r.y.size() * row_bytes(static_cast<int>(v));
      int begin = first;
      std::vector<Placed> others;
      for (const Placed& o : placed) {
        const ImageUse& other = uses_[static_cast<std::size_t>(o.image)];
        if (other.written <= use.read && use.written <= other.read) others.push_back(o);
      }
      std::sort(others.begin(), others.end(), [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
      for (const Placed& o : others) {
        if (begin + size <= o.begin) break;
        begin = std::max(begin, o.end);
      }
      offset[v] = begin;
      placed.push_back({static_cast<int>(v), begin, begin + size});
      at = std::max(at, begin + size);
      if (static_cast<std::size_t>(at) > shared_bytes_) return false;
    }
    for (int i = 0; i < made.program.stage_count; ++i) {
      TileStage& s = made.stages[static_cast<std::size_t>(i)];
      const int image = made.stage_image[static_cast<std::size_t>(i)];
      if (image >= 0) {
        s.to = offset[static_cast<std::size_t>(image)];
        s.to_pixel = pixel_bytes(image);
        s.to_row = row_bytes(image);
        continue;
      }
      if (const int number = made.stage_part[static_cast<std::size_t>(i)]; number >= 0) {
        const TilePart& part = group_.parts[static_cast<std::size_t>(number)];
        s.to = offset[static_cast<std::size_t>(part.image)] + part.first_channel * 2;
        s.to_pixel = pixel_bytes(part.image);
        s.to_row = row_bytes(part.image);
        continue;
      }
      const TileLayer& layer = group_.layers[static_cast<std::size_t>(made.stage_layer[static_cast<std::size_t>(i)])];
      const Region& in = regions_[static_cast<std::size_t>(layer.from)];
      const Region& out = regions_[static_cast<std::size_t>(layer.to)];
      if (s.kind == TileStageKind::kPlanes) {
        s.from = offset[static_cast<std::size_t>(layer.to)];
        s.from_pixel = pixel_bytes(layer.to);
        s.from_row = row_bytes(layer.to);
        continue;
      }
      if (layer.add >= 0) {
        s.add_at = offset[static_cast<std::size_t>(layer.add)];
        s.add_pixel = pixel_bytes(layer.add);
      }
      s.from_pixel = pixel_bytes(layer.from);
      s.from_row = row_bytes(layer.from);
      s.from = offset[static_cast<std::size_t>(layer.from)] +
               (in.y.back - out.y.back * layer.stride - layer.pad_top) * s.from_row +
               (in.x.back - out.x.back * layer.stride - layer.pad_left) * s.from_pixel;
      if (offset[static_cast<std::size_t>(layer.to)] < 0) continue;
      s.to_pixel = pixel_bytes(layer.to);
      s.to_row = row_bytes(layer.to);
      s.to = offset[static_cast<std::size_t>(layer.to)] + layer.first_channel * 2;
      const int room = words_of(layer.to) * 8 - layer.first_channel;
      s.stored = std::min(s.n16 * 16, room);
    }
    return true;
  }
  // An odd number of words: no bank conflicts between neighbouring pixels.
  [[nodiscard]] int pixel_bytes(int image) const { return (words_of(image) | 1) * 16; }
  // A product reads pixels of two rows where one ends: the next row begins where the pixel behind the last would.
  [[nodiscard]] int row_bytes(int image) const {
    const int words = words_of(image) | 1;
    const int width = regions_[static_cast<std::size_t>(image)].x.size();
    for (const TileLayer& layer : group_.layers) {
      if (layer.from != image || layer.stride != 1) continue;
      const int read = regions_[static_cast<std::size_t>(layer.to)].x.size();
      const int beyond = (width - read) * words;
      return (width * words + (8 - beyond % 8) % 8) * 16;
    }
    return width * words * 16;
  }

  const TileGroup& group_;
  const std::size_t shared_bytes_;
  const Costs& costs_;
  TileImage base_;
  bool planes_ = false;
  std::vector<int> phase_;          // of each layer, from 1
  std::vector<std::size_t> order_;  // layers by phase
  std::vector<ImageUse> uses_;
  std::vector<int> loaded_;
  std::vector<Region> regions_;
  std::optional<TileLayout> best_;
};

}  // namespace

std::optional<TileLayout> lay_out(const TileGroup& group, std::size_t shared_bytes, LayoutFor purpose,
                                  double share_of_work) {
  Costs costs = purpose == LayoutFor::kGrouping ? kInNetwork : kInARow;
  if (purpose == LayoutFor::kGrouping) costs.share_of_work = share_of_work;
  // Where a block of the longest chain has half of a processor's memory, what runs beside it must do with the rest.
  constexpr std::size_t kHalf = kProcessorShared / 2 - 2048;  // each block takes 1 KB more
  std::optional<TileLayout> made = Layouter(group, std::min(shared_bytes, kHalf), costs).best();
  if (group.layers.size() == 1 && (!made || purpose == LayoutFor::kRunning)) {
    // Blocks of most of a processor's memory leave no room beside them.
    constexpr double kMuchFaster = 0.8;
    std::optional<TileLayout> large = Layouter(group, shared_bytes, costs).best();
    if (large && (!made || large->cost < kMuchFaster * made->cost)) made = std::move(large);
  }
  return made;
}

}  // namespace camd::infer::cuda
