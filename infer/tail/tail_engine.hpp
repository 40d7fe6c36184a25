// An engine for models whose last part has sizes that the picture decides: another engine runs the head on its device,
// and the tail (infer/graph/tail.hpp) runs on the host behind it, in the stream's order.
//
// Threads: as Engine; the tail runs on the thread that runs the stream's host functions.
// Outputs that the tail makes are f32 and have a fixed shape with room for kTailRows rows where the picture decides how
// many there are: what the model puts out is at the beginning, the rest is -1. More rows than that are left out. Where
// the tail fails on a picture, all of its outputs are -1, and the log says so once.
// Unlike other engines, its executions allocate while they run.
#pragma once

#include <functional>
#include <memory>

#include "infer/engine.hpp"
#include "infer/graph/tail.hpp"

namespace camd::infer {

inline constexpr std::int64_t kTailRows = 1024;
// Steps that a tail takes for one picture, some five seconds: a second stage of convolutions for 1000 boxes
// (LibreYOLO's Mask R-CNN) takes half of them.
inline constexpr double kTailSteps = 2.0 * (1 << 30);
inline constexpr std::int64_t kTailElements = std::int64_t{1} << 26;  // of one tensor that it makes

// `make_head` makes the engine of the head, with f32 outputs; `product` multiplies matrices (FoldOptions::product).
// Throws Error(kModel) where the tail does not run, and what make_head() throws.
[[nodiscard]] std::unique_ptr<Engine> make_tail_engine(
    const OnnxFile& file, SplitModel split, device::Device& device,
    const std::function<std::unique_ptr<Engine>(const OnnxFile& head)>& make_head,
    void (*product)(const Product&) = nullptr);

// For messages: what of the model the tail makes, and why.
[[nodiscard]] std::string describe_tail(const SplitModel& split);

}  // namespace camd::infer
