// From filters to the kernel's arguments.
#include "infer/cuda/filters.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.hpp"

namespace camd::infer::cuda {
namespace {

constexpr std::size_t kCounters = kMostFilters + 1;  // of a launch

FilterSteps steps_of(const Elements& elements) {
  return {static_cast<int>(elements.cell_step), static_cast<int>(elements.anchor_step),
          static_cast<int>(elements.channel_step), elements.channels};
}

FilterGrid grid_of(const Filter& filter, std::span<const TensorView> outputs, const FilteredTo& to) {
  FilterGrid grid;
  grid.places = static_cast<int>(filter.places());
  grid.anchors = filter.anchors;
  grid.by_anchors = make_divider(filter.anchors);
  grid.floor = filter.floor;
  const auto from = [&outputs](const Elements& elements) {
    return static_cast<const float*>(outputs[static_cast<std::size_t>(elements.output)].data) + elements.first;
  };
  grid.scores = from(filter.scores);
  grid.steps = steps_of(filter.scores);
  for (const Elements& values : filter.values) {
    grid.values[grid.value_count++] = {from(values), to.values[static_cast<std::size_t>(values.output)] + values.first,
                                       steps_of(values)};
    grid.channels += values.channels;
  }
  return grid;
}

bool fits(const Filter& filter, std::span<const TensorView> outputs) {
  const auto is_f32 = [&outputs](const Elements& elements) {
    return outputs[static_cast<std::size_t>(elements.output)].spec->type == DataType::kF32;
  };
  constexpr std::int64_t kMost = std::int64_t{1} << 32;  // Divider
  return filter.places() * filter.anchors < kMost && is_f32(filter.scores) &&
         std::all_of(filter.values.begin(), filter.values.end(), is_f32);
}

}  // namespace

std::optional<Filters> Filters::make(device::CudaDevice& device, device::StreamRef stream,
                                     std::span<const Filter> filters, std::span<const TensorView> outputs,
                                     const FilteredTo& to) {
  static_assert(kMostFilterValues == Filter::kMostValues);
  if (!std::all_of(filters.begin(), filters.end(), [&](const Filter& f) { return fits(f, outputs); })) {
    return std::nullopt;
  }
  Filters made;
  const std::size_t launches = (filters.size() + kMostFilters - 1) / kMostFilters;
  made.counters_ = device.allocate_device(launches * kCounters * sizeof(int));
  const base::Status cleared = device.clear(made.counters_.data(), made.counters_.size_bytes(), stream);
  if (!cleared) throw base::Error(cleared.kind(), cleared.message());
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if (i % kMostFilters == 0) {
      FilterArguments& launch = made.launches_.emplace_back();
      launch.counters = reinterpret_cast<int*>(made.counters_.data()) + i / kMostFilters * kCounters;
    }
    FilterArguments& launch = made.launches_.back();
    FilterGrid& grid = launch.grids[launch.count++];
    grid = grid_of(filters[i], outputs, to);
    grid.passed = to.passed[i];
    grid.first_block = launch.blocks;
    launch.blocks += (grid.places + kFilterThreads - 1) / kFilterThreads;
  }
  return made;
}

int Filters::enqueue(const LaunchContext& context) const {
  for (const FilterArguments& launch : launches_) {
    if (const int error = filter(launch, context); error != 0) return error;
  }
  return 0;
}

}  // namespace camd::infer::cuda
