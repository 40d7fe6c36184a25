// Filter: which values of a network's outputs anybody reads. A detector has tens of thousands of places, and all but a
// few have no score worth a look. So a GPU looks at the scores, and what does not pass stays there.
//
// Threads: plain values.
// Invariants: whoever makes a filter has checked that it names elements inside of the outputs only, 2^24 places at
// most.
#pragma once

#include <cstdint>
#include <vector>

namespace camd::infer {

// The value of a cell, an anchor and a channel is element first + cell * cell_step + anchor * anchor_step + channel *
// channel_step of an output.
struct Elements {
  int output = 0;
  int channels = 0;
  std::int64_t first = 0, cell_step = 0, anchor_step = 0, channel_step = 0;
};

// A grid of places: a place is an anchor of a cell, and its number is cell * anchors + anchor. It passes when one of
// its scores is `floor` or more; what is not a number does not pass. `values` are what is read of a place that passes.
struct Filter {
  static constexpr std::size_t kMostValues = 6;

  std::int64_t cells = 0;
  int anchors = 0;
  float floor = 0.0F;
  Elements scores;
  std::vector<Elements> values;

  [[nodiscard]] std::int64_t places() const noexcept { return cells * anchors; }
};

// Where an execution puts what passes. Memory is the caller's, outlives the execution, and the device writes to it.
struct FilteredTo {
  std::vector<std::int32_t*> passed;  // by filter: the number of places that passed, then their numbers; room for all
  std::vector<float*> values;         // by output: its elements, in their own places; null where no filter names it
};

}  // namespace camd::infer
