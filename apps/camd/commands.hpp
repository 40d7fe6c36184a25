// The subcommands of camd. Each returns the process's exit code and throws base::Error for what the user must mend.
//
// Threads: [main].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "config/shard.hpp"
#include "pipeline/diagnose/bench.hpp"
#include "pipeline/diagnose/plugin_replay.hpp"

namespace camd::app {

enum class MetricsMode { kAuto, kDashboard, kJson, kOff };

struct RunOptions {
  std::string config;
  base::Duration duration{0};  // 0: until it ends by itself or is told to
  std::uint64_t frames = 0;    // delivered frames, 0: no limit
  MetricsMode metrics = MetricsMode::kAuto;
  std::vector<std::string> overrides;
  std::string record;   // a file: frames are recorded there in front of the first plug-in from a path
  config::Shard shard;  // 0/1: all cameras
};
int run_command(const RunOptions& options);

int check_command(const std::string& config, const std::vector<std::string>& overrides, const config::Shard& shard);
int config_command(bool schema);
// Prints a card for a model without one, and why it is so.
int proposal_command(const std::string& model);
int plugin_command(const std::string& path, const std::string& python);
int replay_command(const pipeline::ReplayOptions& options);
int bench_command(const pipeline::BenchOptions& options, const std::string& json_path);
// Measures how fast each clip is decoded.
int doctor_command(const std::string& config, const std::vector<std::string>& clips, bool json);

// A duration above 0, written as in the configuration: "10s", "500ms", "2min". Throws Error(kUsage) naming `option`.
[[nodiscard]] base::Duration parse_duration(const std::string& option, const std::string& text);

// A configuration and all that is wrong with it, with the cameras of a shard.
[[nodiscard]] config::Reading read_shard(const std::string& path, const std::vector<std::string>& overrides,
                                         const config::Shard& shard);

// "0/3". Throws Error(kUsage) naming `option`.
[[nodiscard]] config::Shard parse_shard(const std::string& option, const std::string& text);

// "1280x720", both 1..16384. Throws Error(kUsage) naming `option`.
void parse_size(const std::string& option, const std::string& text, int& width, int& height);

}  // namespace camd::app
