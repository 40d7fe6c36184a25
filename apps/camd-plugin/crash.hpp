// What a worker leaves behind when a signal ends it: which signal, and where.
//
// Threads: install_crash_handler() once, before others; set_crash_record() by each thread for itself.
// Invariants: the process ends by the same signal as without this.
#pragma once

#include "pipeline/plugin_process/protocol.hpp"

namespace camd::worker {

void install_crash_handler();
// Where a crash of this thread is written; a thread that has none writes to the one that was set first. It must stay.
void set_crash_record(pipeline::wire::Crash* record);

}  // namespace camd::worker
