// The checks of `camd doctor`, one function for each subject.
#include "pipeline/diagnose/doctor.hpp"

#include <fmt/format.h>
#include <glob.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.hpp"
#include "base/cpus.hpp"
#include "base/error.hpp"
#include "capture/gst_elements.hpp"
#include "device/host_device.hpp"
#include "device/make_device.hpp"
#include "pipeline/diagnose/board.hpp"
#include "pipeline/diagnose/model_findings.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "plugins/builtin.hpp"

namespace camd::pipeline {
namespace {

using base::Error;

constexpr double kMebibyte = 1024.0 * 1024.0;

void examine_machine(std::vector<Finding>& findings) {
  const int usable = base::usable_cpus(), all = static_cast<int>(std::thread::hardware_concurrency());
  findings.push_back(
      {"machine", "processor", Health::kOk,
       usable < all ? fmt::format("{} of {} cores may be used", usable, all) : fmt::format("{} cores", all), ""});
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
    // The NVIDIA driver locks pages by itself; the limit matters for memory that is registered on some kernels.
    findings.push_back({"machine", "page-lock limit", Health::kOk,
                        unlimited ? std::string("unlimited")
                                  : fmt::format("{:.0f} MiB (the NVIDIA driver is not bound by it)",
                                                static_cast<double>(limit.rlim_cur) / kMebibyte),
                        ""});
  }
  for (Finding& finding : examine_board("/")) findings.push_back(std::move(finding));
}

Finding decoders_of(device::Device& gpu, const std::string& name) {
  std::string why;
  const std::vector<device::VideoSupport> support = gpu.video_support(&why);
  if (!support.empty()) return {"GPU", name, Health::kOk, decoders_text(support), ""};
  if (why.empty()) why = "it decodes no video";
  return {"GPU", name, Health::kAbsent, why + "; the CPU decodes", ""};
}

void examine_gpus(std::vector<Finding>& findings) {
  const device::GpuCount gpus = device::count_gpus();
  if (gpus.count == 0) {
    findings.push_back({"GPU", "CUDA", Health::kAbsent, gpus.reason + "; the host device is used",
                        "for a GPU: install the NVIDIA driver (nvidia-driver), build with nvcc 12 or later on PATH"});
    return;
  }
  for (int i = 0; i < gpus.count; ++i) {
    const std::string name = fmt::format("cuda:{}", i);
    try {
      const auto gpu = device::make_device(name);
      const device::DeviceInfo& info = gpu->info();
      findings.push_back(
          {"GPU", name, Health::kOk,
           fmt::format("{}, compute capability {}.{}, {} copy engines, {:.0f} MiB, {}{}", info.name, info.compute_major,
                       info.compute_minor, info.copy_engines, static_cast<double>(info.memory_bytes) / kMebibyte,
                       info.driver, device::shared_memory_words(info)),
           ""});
      findings.push_back(decoders_of(*gpu, name + " decoders"));
      findings.push_back(examine_more_decoders(*gpu, name + " more decoders"));
    } catch (const Error& error) {
      findings.push_back({"GPU", name, Health::kBroken, error.what(), "nvidia-smi; sudo dmesg | grep -i nvrm"});
    }
  }
}

// Two streams for each engine of the device: one alone waits for its own pictures.
DecodeTrial trial_of(device::Device& device, config::DecodeMode mode) {
  DecodeTrial trial;
  trial.mode = mode;
  trial.frames = std::uint64_t{1} << 40U;  // as many as there are in that time
  trial.streams = base::usable_cpus();
  if (mode == config::DecodeMode::kGpu) {
    const std::vector<device::VideoSupport> support = device.video_support(nullptr);
    trial.streams = support.empty() ? 1 : 2 * support.front().engines;
  }
  return trial;
}

void examine_clips(const std::vector<std::filesystem::path>& clips, std::vector<Finding>& findings) {
  const auto host = device::make_host_device(base::system_clock());
  for (const std::filesystem::path& clip : clips) {
    for (int i = 0; i < device::count_gpus().count; ++i) {
      const std::string name = fmt::format("cuda:{}", i);
      try {
        const auto gpu = device::make_device(name);
        findings.push_back(examine_decoding(*gpu, name, clip, trial_of(*gpu, config::DecodeMode::kGpu)));
      } catch (const Error& error) {
        findings.push_back({"decoding", name, Health::kBroken, error.what(), ""});
      }
    }
    findings.push_back(examine_decoding(*host, "cpu", clip, trial_of(*host, config::DecodeMode::kCpu)));
  }
}

void examine_gstreamer(std::vector<Finding>& findings) {
  findings.push_back({"GStreamer", "version", Health::kOk, capture::gstreamer_version(), ""});
  const auto add = [&findings](const auto& elements) {
    for (const auto& element : elements) {
      findings.push_back({"GStreamer", element.element, element.present ? Health::kOk : Health::kAbsent,
                          element.present ? element.purpose : "missing: no " + element.purpose,
                          element.present ? "" : "sudo apt-get install " + element.package});
    }
  };
  add(capture::find_elements());
  add(plugins::builtin_elements());
}

void examine_cameras(std::vector<Finding>& findings) {
  glob_t found{};
  const int result = glob("/dev/video*", 0, nullptr, &found);
  if (result != 0 || found.gl_pathc == 0) {
    findings.push_back({"cameras", "/dev/video*", Health::kAbsent, "no camera is plugged in", ""});
  }
  for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    const char* path = found.gl_pathv[i];
    const bool usable = access(path, R_OK | W_OK) == 0;
    findings.push_back({"cameras", path, usable ? Health::kOk : Health::kBroken,
                        usable ? "can be opened" : "may not be opened by this user",
                        usable ? "" : "sudo usermod -aG video $USER, then log in again"});
  }
  globfree(&found);
}

void examine_config(const config::Config& config, std::vector<Finding>& findings) {
  for (Finding& finding : examine_model(config, infer::ReportDepth::kAllEngines)) {
    findings.push_back(std::move(finding));
  }
  for (const config::Postprocessor& entry : config.postprocess) {
    if (entry.plugin.find('/') == std::string::npos) {
      const bool known = plugins::find_builtin(entry.plugin) != nullptr;
      findings.push_back({"plug-ins", entry.plugin, known ? Health::kOk : Health::kBroken,
                          known ? "built in" : "no such built-in", known ? "" : "camd doctor lists the built-ins"});
      continue;
    }
    try {
      const PluginInfo info = inspect_plugin(entry.plugin);
      findings.push_back({"plug-ins", entry.plugin, Health::kOk, fmt::format("{} {}", info.name, info.version), ""});
    } catch (const Error& error) {
      findings.push_back({"plug-ins", entry.plugin, Health::kBroken, error.what(), ""});
    }
  }
}

std::string_view word(Health health) noexcept {
  switch (health) {
    case Health::kOk: return "ok";
    case Health::kAbsent: return "absent";
    case Health::kBroken: return "broken";
  }
  return "?";
}

}  // namespace

Finding examine_decoding(device::Device& device, const std::string& name, const std::filesystem::path& clip,
                         const DecodeTrial& trial) {
  Finding finding{"decoding", fmt::format("{} {}", name, clip.filename().string()), Health::kOk, "", ""};
  try {
    finding.detail = decode_rate_text(measure_decoding(device, clip, trial));
  } catch (const Error& error) {
    const bool cpu = trial.mode == config::DecodeMode::kCpu;
    finding.health = cpu ? Health::kBroken : Health::kAbsent;
    finding.detail = error.what() + std::string(cpu ? "" : "; the CPU decodes");
  }
  return finding;
}

std::vector<Finding> examine(const config::Config* config, const std::vector<std::filesystem::path>& clips) {
  std::vector<Finding> findings;
  examine_machine(findings);
  examine_gpus(findings);
  examine_clips(clips, findings);
  examine_gstreamer(findings);
  examine_cameras(findings);
  const std::vector<std::string_view> builtins = plugins::builtin_names();
  findings.push_back({"plug-ins", "built-ins", Health::kOk, fmt::format("{}", fmt::join(builtins, ", ")), ""});
  if (config != nullptr) examine_config(*config, findings);
  return findings;
}

Finding examine_more_decoders(device::Device& device, const std::string& name) {
  std::string why;
  if (device.decodes_beyond_driver(why)) {
    return {"GPU", name, Health::kOk, "H.264 and H.265 by Vulkan Video, for cameras beyond those", ""};
  }
  return {"GPU", name, Health::kAbsent, why + "; wanted for some 290 cameras and more", ""};
}

std::string decoders_text(const std::vector<device::VideoSupport>& support) {
  std::string text;
  for (std::size_t i = 0; i < support.size(); ++i) {
    const device::VideoSupport& one = support[i];
    if (i > 0 && support[i - 1].codec == one.codec) continue;  // told with the first of its codec
    std::string bits = std::to_string(one.bits);
    for (std::size_t j = i + 1; j < support.size() && support[j].codec == one.codec; ++j) {
      bits += fmt::format(" and {}", support[j].bits);
    }
    text += fmt::format("{}{} ({} bits, to {}x{}, {} {})", text.empty() ? "" : ", ", device::to_string(one.codec), bits,
                        one.most_width, one.most_height, one.engines, one.engines == 1 ? "engine" : "engines");
  }
  return text;
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  std::string text;
  std::string area;
  for (const Finding& finding : findings) {
    if (finding.area != area) {
      area = finding.area;
      text += area + "\n";
    }
    text += fmt::format("  {:6}  {:{}}  {}\n", word(finding.health), finding.name, width, finding.detail);
    if (!finding.mend.empty()) text += fmt::format("  {:6}  {:{}}  mend: {}\n", "", "", width, finding.mend);
  }
  return text;
}

std::string findings_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"area", finding.area},
                    {"name", finding.name},
                    {"health", word(finding.health)},
                    {"detail", finding.detail},
                    {"mend", finding.mend}});
  }
  const nlohmann::ordered_json json{{"ok", all_usable(findings)}, {"findings", std::move(list)}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

bool all_usable(const std::vector<Finding>& findings) noexcept {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.health == Health::kBroken; });
}

}  // namespace camd::pipeline
