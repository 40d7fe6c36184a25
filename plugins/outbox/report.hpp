// Tells camd what became of an outbox's messages ("camd.outlet/1").
//
// Threads: [post] and [setup].
#pragma once

#include "plugins/camd_plugin.hpp"
#include "plugins/outbox/outbox.hpp"

namespace camd::plugins {

// Does nothing where camd does not ask. Logs what camd refuses: a mistake of the outbox.
void report_totals(const camd::plugin::Host& host, const Outbox& outbox);

}  // namespace camd::plugins
