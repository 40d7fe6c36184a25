// Which values of a quantised network are bytes while it runs (infer/cpu/bytes.hpp), and what their operators are then.
//
// Threads: a function of its arguments, [any]. Private to infer/cpu/.
// Exporters put a pair of QuantizeLinear and DequantizeLinear around each operator, so numbers between operators are
// whole multiples of a scale. A convolution of such numbers with such weights has whole sums, which are exact and
// become bytes at once; all else that exporters put between pairs either moves bytes or is a table of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "infer/cpu/fusion.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cpu {

// Whole multiples of `scale` from low to high, low <= 0 <= high, at most 256 of them.
struct ByteGrid {
  float scale = 0.0F;
  int low = 0, high = 0;
  friend bool operator==(const ByteGrid&, const ByteGrid&) = default;
};

// Level of one grid to level of another.
using LevelTable = std::array<std::uint8_t, 256>;

struct ByteConv {
  std::vector<std::int8_t> weights;  // [M,C/groups,kh,kw]
  std::vector<std::int32_t> start;   // where a sum begins: a bias that is a whole number in steps of the products
  std::vector<float> scale, bias;    // of a sum, in steps of `to`
  ByteGrid to;
  std::optional<LevelTable> table;  // from `to` to the output's grid; none: they are one
};

struct BytePlan {
  std::vector<std::optional<ByteGrid>> grids;  // per value: where its numbers lie, bytes or not
  std::vector<bool> made;                      // per value: its op makes bytes
  std::unordered_map<ValueId, ByteConv> convs;
  // Of a Unary one, of a Concat one for each input; none: it is as it was.
  std::unordered_map<ValueId, std::vector<std::optional<LevelTable>>> tables;
};

// Also rewrites the graph: chains of functions become one op, a table. After fuse().
[[nodiscard]] BytePlan plan_bytes(Graph& graph, Fusions& fusions);

}  // namespace camd::infer::cpu
