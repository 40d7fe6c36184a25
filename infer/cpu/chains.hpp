// Chains: elementwise ops of one shape that feed each other. As one step they run on some numbers at a time, so that
// what lies between them stays in the first cache.
//
// Threads: a function of its arguments, [any]. Private to infer/cpu/.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "infer/graph/graph.hpp"

namespace camd::infer::cpu {

// At most so many ops are one chain.
inline constexpr std::size_t kMostChainOps = 32;

struct Chain {
  std::vector<Op> ops;        // Binary and Unary, in execution order; all outputs have one shape
  std::vector<bool> is_kept;  // per op: the graph reads its output outside of the chain
};

// Takes chains of two ops or more out of the graph, but for the last op of each, which stands for all. They are found
// by its output. `taken` says of each op whether it may be in a chain.
[[nodiscard]] std::unordered_map<ValueId, Chain> take_chains(Graph& graph, const std::vector<bool>& taken);

// How many of the last dimensions of `to` a tensor of shape `from` that is broadcast walks evenly, or not at all.
[[nodiscard]] std::size_t even_dimensions(const Shape& from, const Shape& to);

}  // namespace camd::infer::cpu
