// The tables of the built-ins: one function in each built-in's source. builtin.cpp collects them for the static
// library, module.cpp exports one of them from a shared library.
//
// Threads: [any]; the tables are constants.
#pragma once

#include "plugins/camd_plugin.h"

namespace camd::plugins {

[[nodiscard]] const camd_plugin* annotate_table() noexcept;
[[nodiscard]] const camd_plugin* coco_table() noexcept;
[[nodiscard]] const camd_plugin* codes_table() noexcept;
[[nodiscard]] const camd_plugin* detections_table() noexcept;
[[nodiscard]] const camd_plugin* jsonl_table() noexcept;
[[nodiscard]] const camd_plugin* kafka_table() noexcept;
[[nodiscard]] const camd_plugin* mot_table() noexcept;
[[nodiscard]] const camd_plugin* mqtt_table() noexcept;
[[nodiscard]] const camd_plugin* onvif_table() noexcept;
[[nodiscard]] const camd_plugin* record_table() noexcept;
[[nodiscard]] const camd_plugin* snapshot_table() noexcept;
[[nodiscard]] const camd_plugin* tensors_table() noexcept;
[[nodiscard]] const camd_plugin* track_table() noexcept;
[[nodiscard]] const camd_plugin* webhook_table() noexcept;
[[nodiscard]] const camd_plugin* zones_table() noexcept;

}  // namespace camd::plugins
