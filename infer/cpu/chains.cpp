#include "infer/cpu/chains.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "infer/graph/rewriting.hpp"

namespace camd::infer::cpu {
namespace {

// Numbers side by side that a chain has to have: shorter lines would cost more than the memory does.
constexpr std::int64_t kShortestLine = 64;

// Chains while the graph is walked through. A chain runs where its last op stands, so none may grow once another op has
// read what it makes.
class Finder {
 public:
  Finder(Graph& graph, const std::vector<bool>& taken)
      : graph_(graph), taken_(taken), maker_(producers(graph)), chain_of_(graph.ops.size(), -1) {}

  std::unordered_map<ValueId, Chain> run() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (taken_[i] && is_worth_it(static_cast<int>(i), even_of(static_cast<int>(i))))
        join(static_cast<int>(i));
      else
        close_read_by(static_cast<int>(i), -1);
    }
    return collect();
  }

 private:
  struct Members {
    std::vector<int> ops;
    std::size_t even = 0;  // dimensions, see even_dimensions()
    bool open = true;
  };

  [[nodiscard]] const Op& op(int i) const { return graph_.ops[at(i)]; }
  [[nodiscard]] const Shape& shape_of(int i) const { return graph_.shape(op(i).output); }

  [[nodiscard]] std::size_t even_of(int i) const {
    std::size_t even = shape_of(i).size();
    for (const ValueId id : op(i).inputs) even = std::min(even, even_dimensions(graph_.shape(id), shape_of(i)));
    return even;
  }
  [[nodiscard]] bool is_worth_it(int i, std::size_t even) const {
    const Shape& shape = shape_of(i);
    std::int64_t line = 1;
    for (std::size_t d = shape.size() - even; d < shape.size(); ++d) line *= shape[d];
    return line >= kShortestLine;
  }

  // The chain that makes the value; -1: none.
  [[nodiscard]] int chain_of(ValueId id) const {
    const int maker = id == kNoValue ? -1 : maker_[at(id)];
    return maker < 0 ? -1 : chain_of_[at(maker)];
  }

  void close_read_by(int i, int but) {
    for (const ValueId id : op(i).inputs) {
      const int chain = chain_of(id);
      if (chain >= 0 && chain != but) chains_[at(chain)].open = false;
    }
  }

  // Puts the op into the chains that it reads from, which become one, or begins another.
  void join(int i) {
    Members joined;
    joined.ops = {i};
    joined.even = even_of(i);
    const int number = static_cast<int>(chains_.size());
    for (const ValueId id : op(i).inputs) {
      const int chain = chain_of(id);
      if (chain < 0 || chain == number) continue;
      Members& other = chains_[at(chain)];
      const std::size_t even = std::min(joined.even, other.even);
      const bool fits = other.open && shape_of(other.ops[0]) == shape_of(i) && is_worth_it(i, even) &&
                        joined.ops.size() + other.ops.size() <= kMostChainOps;
      if (!fits) {
        other.open = false;
        continue;
      }
      joined.even = even;
      joined.ops.insert(joined.ops.end(), other.ops.begin(), other.ops.end());
      for (const int member : other.ops) chain_of_[at(member)] = number;
      other.ops.clear();
    }
    std::sort(joined.ops.begin(), joined.ops.end());
    chain_of_[at(i)] = number;
    chains_.push_back(std::move(joined));
  }

  std::unordered_map<ValueId, Chain> collect() {
    std::vector<int> outside = use_counts(graph_);
    for (const Members& members : chains_) {
      for (const int i : members.ops) {
        for (const ValueId id : op(i).inputs) {
          if (chain_of(id) == chain_of_[at(i)]) --outside[at(id)];
        }
      }
    }
    std::unordered_map<ValueId, Chain> found;
    std::vector<bool> dead(graph_.ops.size(), false);
    for (const Members& members : chains_) {
      if (members.ops.size() < 2) continue;
      Chain chain;
      for (const int i : members.ops) {
        chain.ops.push_back(op(i));
        chain.is_kept.push_back(outside[at(op(i).output)] > 0);
        dead[at(i)] = i != members.ops.back();
      }
      const ValueId last = chain.ops.back().output;
      found.emplace(last, std::move(chain));
    }
    erase_marked(graph_, dead);
    return found;
  }

  Graph& graph_;
  const std::vector<bool>& taken_;
  std::vector<int> maker_;
  std::vector<int> chain_of_;  // per op
  std::vector<Members> chains_;
};

}  // namespace

std::unordered_map<ValueId, Chain> take_chains(Graph& graph, const std::vector<bool>& taken) {
  return Finder(graph, taken).run();
}

std::size_t even_dimensions(const Shape& from, const Shape& to) {
  // Dimensions of one element do not matter, and those in front are as if there were ones.
  std::size_t even = 0;
  bool walks = false, repeats = false;
  for (; even < to.size(); ++even) {
    const std::int64_t size = to[to.size() - 1 - even];
    const std::int64_t own = even < from.size() ? from[from.size() - 1 - even] : 1;
    if (size == 1) continue;
    (own == 1 ? repeats : walks) = true;
    if (walks && repeats) break;
  }
  return even;
}

}  // namespace camd::infer::cpu
