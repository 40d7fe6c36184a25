// Doctor: what works on this machine, what does not, and the command that mends it.
//
// Threads: examine() [any], [blocks]: opens devices and loads models.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "device/video_decoder.hpp"
#include "pipeline/diagnose/decode_rate.hpp"

namespace camd::pipeline {

enum class Health { kOk, kAbsent, kBroken };  // kAbsent: camd works without it, but for what the finding says

struct Finding {
  std::string area;  // "GPU", "GStreamer", "cameras", ...
  std::string name;
  Health health = Health::kOk;
  std::string detail;  // one line
  std::string mend;    // a command or an action; empty when there is nothing to mend
};

// `config` may be null; with one its model, plug-ins and sources are looked at too. How fast each of `clips` is decoded
// is measured, by each GPU and by the CPU, some seconds each. Never throws for what it finds.
[[nodiscard]] std::vector<Finding> examine(const config::Config* config,
                                           const std::vector<std::filesystem::path>& clips = {});

// How fast `clip` is decoded by `device`, which `name` means, with `streams` at once. Where a GPU does not decode it
// the CPU does, so that is no fault.
[[nodiscard]] Finding examine_decoding(device::Device& device, const std::string& name,
                                       const std::filesystem::path& clip, const DecodeTrial& trial);

// [blocks] Whether the device decodes more streams than its driver makes decoders for.
[[nodiscard]] Finding examine_more_decoders(device::Device& device, const std::string& name);

// What a device decodes, in one line. `support`: as Device::video_support() gives it.
[[nodiscard]] std::string decoders_text(const std::vector<device::VideoSupport>& support);

// A table for people, or one JSON object for programs: {"ok":..., "findings":[...]}.
[[nodiscard]] std::string findings_text(const std::vector<Finding>& findings);
[[nodiscard]] std::string findings_json(const std::vector<Finding>& findings);
[[nodiscard]] bool all_usable(const std::vector<Finding>& findings) noexcept;  // nothing is kBroken

}  // namespace camd::pipeline
