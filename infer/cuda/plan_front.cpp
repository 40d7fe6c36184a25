#include "infer/cuda/plan_front.hpp"

#include <algorithm>
#include <limits>

#include "infer/cuda/packing.hpp"
#include "infer/cuda/plan_builder.hpp"
#include "infer/cuda/tiles.hpp"

namespace camd::infer::cuda {
namespace {

// What dividing a step asks of it.
struct Divisible {
  int height = 0;     // rows of its result
  int tile_rows = 0;  // of a block
  int blocks = 0;
  // Of its input, for row y of its result: the first row read is y * stride - above.
  int stride = 1, above = 0;
};

int parts(int size, int part) { return (size + part - 1) / part; }

// Nothing (no blocks) where a step is no kernel that makes rows by themselves.
Divisible divisible(const Step& step) {
  if (const auto* const stem = std::get_if<StemArguments>(&step.arguments)) {
    const bool block = stem->block.depthwise != nullptr;
    const int rows = stem_rows(*stem);
    // A block's depthwise part reads one row more.
    return {stem->y.h, rows, parts(stem->y.h, rows) * parts(stem->y.w, kStemColumns), 2,
            stem->pad_top + (block ? 2 : 0)};
  }
  if (const auto* const block = std::get_if<SeparableArguments>(&step.arguments)) {
    const SeparableTile& tile = kSeparableTiles[block->tile];
    return {block->y.h, tile.ty,
            parts(block->y.h, tile.ty) * parts(block->y.w, tile.tx) * parts(block->y.c, tile.channels()), block->stride,
            block->pad_top};
  }
  return {};
}

std::ptrdiff_t readers(const Plan& plan, int buffer) {
  return std::count_if(plan.steps.begin(), plan.steps.end(), [buffer](const Step& step) {
    return std::find(step.reads.begin(), step.reads.end(), buffer) != step.reads.end();
  });
}
std::ptrdiff_t writers(const Plan& plan, int buffer) {
  return std::count_if(plan.steps.begin(), plan.steps.end(), [buffer](const Step& step) {
    return std::find(step.writes.begin(), step.writes.end(), buffer) != step.writes.end();
  });
}

// Whether step i can be divided behind those before it, which are.
bool continues(const Plan& plan, std::size_t i) {
  const Step& step = plan.steps[i];
  if (step.writes.size() != 1) return false;
  const int result = step.writes.front();
  if (plan.buffers[static_cast<std::size_t>(result)].kind != BufferKind::kArena || writers(plan, result) != 1) {
    return false;
  }
  if (i == 0) return plan.stem == 0;
  const std::vector<int>& before = plan.steps[i - 1].writes;
  return step.lane == 0 && step.waits.empty() && step.reads == before && readers(plan, before.front()) == 1;
}

}  // namespace

Front find_front(const Plan& plan, const FrontOptions& options) {
  Front front;
  std::vector<int> results;
  for (std::size_t i = 0; i < plan.steps.size() && continues(plan, i); ++i) {
    const Divisible step = divisible(plan.steps[i]);
    if (step.blocks < std::max(options.least_blocks, 1)) break;
    int border = 0;
    if (i == 0) {
      border = static_cast<int>(options.upper_share * step.height) / step.tile_rows * step.tile_rows;
      front.network_row = border * step.stride - step.above;
      if (front.network_row <= 0) break;
    } else {
      // The first row that needs nothing of the upper rows before it.
      border = round_up(parts(front.borders.back() + step.above, step.stride), step.tile_rows);
      if (border >= step.height) break;
    }
    front.borders.push_back(border);
    results.push_back(plan.steps[i].writes.front());
  }
  if (!results.empty()) front.arena = lay_out_arena(plan, results);
  return front;
}

std::size_t lower_part(const Front& front, const SamplePlan& sample, const base::PictureLayout& layout) {
  if (front.borders.empty()) return 0;
  // A network row that shows no picture reads the nearest that does and does not use it.
  const int network_row = std::clamp(front.network_row, sample.y0, sample.y1 - 1);
  int row = std::numeric_limits<int>::max();
  for (int c = 0; c < sample.component_count; ++c) {
    if (sample.components[c].plane != 0) continue;
    row = std::min(row, sample_tap(sample.components[c].y, network_row, 0).first);
  }
  // One more: a GPU may round a position otherwise than this machine, and rows are fetched in pairs.
  --row;
  const base::Plane& plane = layout.planes[0];
  if (row <= 0 || row >= plane.height) return 0;
  const std::size_t first =
      plane.offset_bytes + static_cast<std::size_t>(row) * static_cast<std::size_t>(plane.stride_bytes);
  for (int i = 1; i < layout.plane_count; ++i) {
    if (layout.planes[static_cast<std::size_t>(i)].offset_bytes < first) return 0;
  }
  return first;
}

Arguments part_of(const Front& front, std::size_t i, const Arguments& bound, Part part) {
  const int border = front.borders[i];
  if (const auto* const stem = std::get_if<StemArguments>(&bound)) {
    StemArguments a = *stem;
    (part == Part::kUpper ? a.end_row : a.first_row) = border;
    return a;
  }
  // Rows of an image are an image.
  SeparableArguments a = std::get<SeparableArguments>(bound);
  if (part == Part::kUpper) {
    a.y.h = border;
    return a;
  }
  const auto from_row = [](Image& image, int row) {
    const auto pixels = static_cast<std::ptrdiff_t>(row) * image.w;
    image.data = static_cast<std::byte*>(image.data) + pixels * image.pitch * static_cast<int>(sizeof(Half));
    image.h -= row;
  };
  from_row(a.x, border * a.stride - a.pad_top);
  a.pad_top = 0;
  from_row(a.y, border);
  return a;
}

}  // namespace camd::infer::cuda
