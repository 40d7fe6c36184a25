#include "infer/cuda/plan/chain_length.hpp"

#include <algorithm>

#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

constexpr double kJoin = 2500;  // cycles by which a kernel starts later where it waits for two

}  // namespace

ChainLength::ChainLength(const Graph& graph) {
  const std::vector<int> makers = producers(graph);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const ValueId in : graph.ops[i].inputs) {
      if (in != kNoValue && makers[at(in)] >= 0) reads_.emplace_back(makers[at(in)], static_cast<int>(i));
    }
  }
}

std::optional<ChainLength::Cycles> ChainLength::of(const std::vector<int>& unit_of, const std::vector<double>& cycles) {
  units_.assign(cycles.size(), {});
  for (const int u : unit_of) units_[at(u)].exists = true;
  const auto each_edge = [&](const auto& use) {
    for (const auto& [made_by, read_by] : reads_) {
      const int from = unit_of[at(made_by)], to = unit_of[at(read_by)];
      if (from != to) use(from, to);
    }
  };
  std::size_t edges = 0;
  each_edge([&](int from, int to) {
    ++edges;
    ++units_[at(from)].end;
    Unit& reader = units_[at(to)];
    ++reader.waiting;
    if (reader.before < 0) reader.before = from;
    reader.joins = reader.joins || reader.before != from;
  });
  int end = 0;
  for (Unit& unit : units_) {
    end += unit.end;
    unit.end = end - unit.end;  // the first for now; moves to the end as they are written
  }
  readers_.resize(edges);
  each_edge([&](int from, int to) { readers_[at(units_[at(from)].end++)] = to; });
  ready_.clear();
  std::ptrdiff_t left = 0;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    left += units_[u].exists ? 1 : 0;
    if (units_[u].exists && units_[u].waiting == 0) ready_.push_back(static_cast<int>(u));
  }
  Cycles total;
  while (!ready_.empty()) {
    const std::size_t u = at(ready_.back());
    ready_.pop_back();
    --left;
    const Unit& unit = units_[u];
    const double until = unit.begin + (unit.joins ? kJoin : 0.0) + cycles[u];
    total.longest = std::max(total.longest, until);
    total.sum += cycles[u];
    for (int r = u == 0 ? 0 : units_[u - 1].end; r < unit.end; ++r) {
      const int reader = readers_[at(r)];
      Unit& behind = units_[at(reader)];
      behind.begin = std::max(behind.begin, until);
      if (--behind.waiting == 0) ready_.push_back(reader);
    }
  }
  if (left != 0) return std::nullopt;
  return total;
}

}  // namespace camd::infer::cuda
