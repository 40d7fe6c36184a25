// describe_bottleneck(): what bottleneck() needs to know of three convolutions behind each other. Private to the
// planner.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "infer/cuda/kernels/bottleneck.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// A 1x1 convolution in front of a depthwise one and the 1x1 behind it. An op is named by its index in Graph::ops.
struct Bottleneck {
  int front = -1, point = -1;
  int kept = -1;                     // a Gather of what the front reads, whose result is joined with the block's; or -1
  std::vector<std::uint16_t> table;  // BottleneckArguments::table
  BottleneckArguments sizes;         // without addresses
};

// The channels of the input that the op takes, one for each of its own; nothing where it is no Gather or Slice of
// channels.
[[nodiscard]] std::optional<std::vector<std::int64_t>> selected_channels(const Graph& graph, const Op& op);

// Nothing where one kernel for them does not fit `shared_bytes` or does not pay. `kept`: -1, or an op that
// selected_channels() takes.
[[nodiscard]] std::optional<Bottleneck> describe_bottleneck(const Graph& graph, int front, int deep, int point,
                                                            int kept, std::size_t shared_bytes);

}  // namespace camd::infer::cuda
