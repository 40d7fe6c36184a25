// ChainLength: how long a network takes whose operators share kernels, as its longest chain of kernels says. Private to
// the planner.
//
// Threads: used by one.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

class ChainLength {
 public:
  explicit ChainLength(const Graph& graph);

  // For each read of a value that an operator makes: that operator and the one that reads, by index in Graph::ops.
  [[nodiscard]] const std::vector<std::pair<int, int>>& reads() const noexcept { return reads_; }

  struct Cycles {
    double longest = 0;  // of the chains; a kernel that waits for two others starts later
    double sum = 0;      // of all kernels
  };
  // `unit_of`: for each operator the unit that computes it, by its index in `cycles`. None where units wait for each
  // other. It is asked thousands of times for a plan, so it keeps its memory.
  [[nodiscard]] std::optional<Cycles> of(const std::vector<int>& unit_of, const std::vector<double>& cycles);

 private:
  struct Unit {
    bool exists = false;  // computes an operator
    int before = -1;      // a unit that it reads
    bool joins = false;   // it reads another one, too
    int waiting = 0;      // for so many reads
    int end = 0;          // of its readers, in readers_
    double begin = 0;
  };

  std::vector<std::pair<int, int>> reads_;
  // Of the call that runs.
  std::vector<Unit> units_;
  std::vector<int> readers_;  // units, those of one unit behind those of the one before
  std::vector<int> ready_;
};

}  // namespace camd::infer::cuda
