// What a worker answers to a frame, taken as anything that comes from outside.
//
// Threads: a function of its arguments; the worker may write into `answers` meanwhile.
// Invariants: each number is read once, and what was read is checked before it is used. Nothing is read or written
// outside of the arrays. [no-alloc]
#pragma once

#include <cstdint>

#include "pipeline/plugin/frame_events.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/plugin_process/protocol.hpp"

namespace camd::pipeline {

// Copies the list of detections, at most `capacity` of them, and the events behind the first `events_before`. What is
// in the list is not checked: that is problem_of()'s, as it is for plug-ins in this process, and a count outside of
// 0..capacity is left for it to tell. kFailed: the plug-in has failed, or what it answers breaks a rule; `error` says
// so.
[[nodiscard]] CallResult take_answer(const wire::Answers& answers, std::int32_t capacity, std::int32_t events_before,
                                     camd_results& results, FrameEvents& events, camd_error& error,
                                     bool& moved) noexcept;

}  // namespace camd::pipeline
