// Reports: what a worker tells in Answers::report beside a call's result: what a plug-in says of its configuration, and
// what became of its messages.
//
// Threads: functions of their arguments, [any].
// Invariants: who reads believes nothing. Reading ends with the first thing that does not fit, and nothing outside of
// the bytes is read. Throws Error(kPlugin) there.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "pipeline/plugin/plugin_outlet.hpp"
#include "pipeline/plugin/plugin_question.hpp"
#include "pipeline/plugin_process/protocol.hpp"

namespace camd::pipeline::wire {

// Of the worker: what does not fit any more is left out.
void put_answers(const std::vector<PluginAnswer>& said, Answers& answers);
void put_outlet(const std::vector<OutletRow>& rows, Answers& answers);

// Of the host. The report is copied first, so that a worker that goes on writing changes nothing.
[[nodiscard]] std::vector<char> copy_report(const Answers& answers);
[[nodiscard]] std::vector<PluginAnswer> read_answers(std::span<const char> report);
// What PluginOutlet refuses stays out of `to`, as it does for a plug-in in this process.
void read_outlet(std::span<const char> report, PluginOutlet& to);

}  // namespace camd::pipeline::wire
