// What passes over a Graph share: looking things up in it and changing it.
//
// Threads: functions of their arguments, [any]. Private to infer/.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "infer/graph/graph.hpp"

namespace camd::infer {

// A ValueId, or another number of a graph that is never negative, as an index.
[[nodiscard]] constexpr std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }

// For each value the index of the op that makes it; -1 for the input and constants.
[[nodiscard]] std::vector<int> producers(const Graph& graph);
// Removes the ops i with dead[i].
void erase_marked(Graph& graph, const std::vector<bool>& dead);
// Drops ops that no output needs, and values that no op mentions. Values get new numbers.
void remove_unused(Graph& graph);
// A new constant of the graph.
[[nodiscard]] ValueId add_constant(Graph& graph, Shape shape, std::vector<float> values);

// The number of a constant with one element.
[[nodiscard]] std::optional<float> scalar(const Graph& graph, ValueId id);
// The constant as one number per position of `axis` of `shape`, to which it broadcasts; empty when it varies along
// another axis.
[[nodiscard]] std::vector<double> along_axis(const Constant& c, const Shape& shape, std::size_t axis);

// Whether each result is one of the values, the nearest one.
[[nodiscard]] bool is_nearest(const Resize& resize);
// Whether each value of the output is one of the first input's.
[[nodiscard]] bool only_moves(const Operation& operation);

// y = x * gain + offset, per channel.
struct ChannelLine {
  std::vector<double> gain, offset;
};
// The op as such a line along `axis`: a Binary of a constant and a value of the output's shape, without activation.
[[nodiscard]] std::optional<ChannelLine> channel_line(const Graph& graph, const Op& op, std::size_t axis);

}  // namespace camd::infer
