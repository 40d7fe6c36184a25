// Front: the first steps of a plan, divided in two by rows, so that they can follow a picture that comes in two parts.
//
// The lower part comes first: it holds what lies behind the picture's first plane too, all chroma where that has planes
// of its own, so each part is one piece of memory. Each step makes its rows from a border on for the lower part, and
// the rest when the upper part is there; borders lie so that the lower rows need nothing of the upper ones. Step i's
// upper rows need step i - 1's lower ones.
//
// Threads: plain values and functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <vector>

#include "base/picture.hpp"
#include "infer/cuda/plan.hpp"
#include "infer/sample.hpp"

namespace camd::infer::cuda {

struct FrontOptions {
  // Of the first step's rows, rounded down to rows of tiles. An estimate for 1280x720 pixels and an H200
  // (docs/adr/0022-layers-follow-the-picture.md).
  double upper_share = 0.3;
  // A step of fewer blocks is hardly made sooner by making less of it: two of them at most share a multiprocessor, here
  // of an H200's 132.
  int least_blocks = 2 * 132 + 1;
};

struct Front {
  // The first row of the lower part of each step's result, of the steps that are divided: the plan's first ones. Empty:
  // the plan's first steps cannot be.
  std::vector<int> borders;
  int network_row = 0;  // the first one that the lower part reads
  // The plan's, with the steps' results apart: lower rows of a later step are there before upper ones of an earlier
  // one.
  ArenaLayout arena;
};

// Divided are the first layer, where it reads the picture itself, and the depthwise blocks behind it, as long as each
// reads what the one before makes, and alone does.
[[nodiscard]] Front find_front(const Plan& plan, const FrontOptions& options = {});

// Where the lower part begins in pictures of `layout`, bytes. 0: such a picture cannot come in two parts.
[[nodiscard]] std::size_t lower_part(const Front& front, const SamplePlan& sample, const base::PictureLayout& layout);

enum class Part : std::uint8_t { kUpper, kLower };

// The arguments of a front's step i for one of its parts. `bound`: with addresses (bind()), for all of it.
[[nodiscard]] Arguments part_of(const Front& front, std::size_t i, const Arguments& bound, Part part);

}  // namespace camd::infer::cuda
