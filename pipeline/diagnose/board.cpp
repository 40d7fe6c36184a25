#include "pipeline/diagnose/board.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace camd::pipeline {
namespace {

namespace fs = std::filesystem;

// The first line of a file, without what does not print (names in the device tree end in a NUL); empty where there is
// none.
std::string line_of(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  std::erase_if(line, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  return line;
}

std::optional<std::uint64_t> number_of(std::string_view text, int base = 10) {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return number;
}

// Folders in `folder` whose name begins so, in the order of their names.
std::vector<fs::path> those_in(const fs::path& folder, std::string_view beginning) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with(beginning)) found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// A value of /proc/meminfo in MiB.
std::optional<std::uint64_t> memory_mib(const fs::path& root, std::string_view key) {
  std::ifstream stream(root / "proc/meminfo");
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    const std::size_t digits = line.find_first_of("0123456789");
    const auto kib = digits == std::string::npos ? std::nullopt : number_of(std::string_view(line).substr(digits));
    if (kib) return *kib / 1024;
  }
  return std::nullopt;
}

// `cpu_capacity` is how fast a core is beside the fastest one, which has 1024 (the kernel's
// Documentation/ABI/testing/sysfs-devices-system-cpu).
void examine_cores(const fs::path& root, std::vector<Finding>& findings) {
  std::map<std::uint64_t, int> by_capacity;
  int all = 0;
  for (const fs::path& cpu : those_in(root / "sys/devices/system/cpu", "cpu")) {
    const auto capacity = number_of(line_of(cpu / "cpu_capacity"));
    if (!capacity) continue;
    ++by_capacity[*capacity];
    ++all;
  }
  if (by_capacity.size() < 2) return;
  std::vector<std::string> kinds;
  kinds.reserve(by_capacity.size());
  for (const auto& [capacity, count] : by_capacity) kinds.push_back(fmt::format("{} of capacity {}", count, capacity));
  findings.push_back(
      {"machine", "cores", Health::kOk, fmt::format("{} of different speed: {}", all, fmt::join(kinds, ", ")), ""});
}

void examine_memory(const fs::path& root, std::vector<Finding>& findings) {
  const auto total = memory_mib(root, "MemTotal");
  if (!total) return;
  constexpr std::uint64_t kEnough = 256;  // for one camera with the reference detector on the CPU, and the system
  std::string detail = fmt::format("{} MiB", *total);
  // The kernel gives this part to others while no camera, decoder or GPU wants it, but cannot give it away for long.
  if (const auto apart = memory_mib(root, "CmaTotal"); apart && *apart > 0) {
    detail += fmt::format(", of which {} MiB are set aside for cameras, decoders and the GPU (CMA)", *apart);
  }
  if (*total >= kEnough) {
    findings.push_back({"machine", "memory", Health::kOk, detail, ""});
    return;
  }
  findings.push_back({"machine", "memory", Health::kAbsent, detail + ": too little for a camera on the CPU",
                      "give the GPU less (on a Raspberry Pi gpu_mem= and cma= in config.txt), or use a smaller model"});
}

// The clock of processors that are not told to run at full speed rises some milliseconds after the work has come: a
// frame now and then does not get it.
void examine_governors(const fs::path& root, std::vector<Finding>& findings) {
  std::set<std::string> governors;
  for (const fs::path& cpu : those_in(root / "sys/devices/system/cpu", "cpu")) {
    const std::string governor = line_of(cpu / "cpufreq/scaling_governor");
    if (!governor.empty()) governors.insert(governor);
  }
  if (governors.empty()) return;
  if (governors == std::set<std::string>{"performance"}) {
    findings.push_back({"machine", "clock", Health::kOk, "governor performance", ""});
    return;
  }
  findings.push_back({"machine", "clock", Health::kAbsent,
                      fmt::format("governor {}: the clock rises only after work has come, so single frames take longer",
                                  fmt::join(governors, ", ")),
                      "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"});
}

// Bits as the Raspberry Pi's documentation of `vcgencmd get_throttled` has them.
std::string raspberry_text(std::uint64_t bits) {
  constexpr std::uint64_t kLowVoltage = 1, kClockHeld = 2, kThrottled = 4, kWarm = 8;
  constexpr int kSinceStart = 16;
  std::vector<std::string> said;
  const auto say = [&](std::uint64_t bit, const char* what) {
    if ((bits & bit) != 0) {
      said.push_back(fmt::format("{} now", what));
    } else if ((bits >> kSinceStart & bit) != 0) {
      said.push_back(fmt::format("{} since the start", what));
    }
  };
  say(kLowVoltage, "too little voltage");
  say(kClockHeld, "clock held back");
  say(kThrottled, "throttled");
  say(kWarm, "at the limit of temperature");
  return fmt::format("{}", fmt::join(said, ", "));
}

void examine_throttling(const fs::path& root, std::vector<Finding>& findings) {
  const auto add = [&findings](const std::string& detail, const char* mend) {
    findings.push_back({"machine", "throttling", Health::kAbsent, detail, mend});
  };
  const std::string pi = line_of(root / "sys/devices/platform/soc/soc:firmware/get_throttled");
  if (const auto bits = number_of(pi, 16); bits && !raspberry_text(*bits).empty()) {
    add(raspberry_text(*bits), "a stronger power supply, a shorter cable or a fan");
  }
  for (const fs::path& device : those_in(root / "sys/class/thermal", "cooling_device")) {
    const std::string type = line_of(device / "type");
    const bool clock =
        type == "Processor" || type.find("cpufreq") != std::string::npos || type.find("devfreq") != std::string::npos;
    const auto state = number_of(line_of(device / "cur_state"));
    if (!clock || !state || *state == 0) continue;
    add(fmt::format("heat holds the clock of {} back now (step {} of {})", type, *state, line_of(device / "max_state")),
        "cool the board");
  }
}

}  // namespace

std::vector<Finding> examine_board(const fs::path& root) {
  std::vector<Finding> findings;
  if (const std::string model = line_of(root / "proc/device-tree/model"); !model.empty()) {
    findings.push_back({"machine", "board", Health::kOk, model, ""});
  }
  examine_cores(root, findings);
  examine_memory(root, findings);
  examine_governors(root, findings);
  examine_throttling(root, findings);
  return findings;
}

}  // namespace camd::pipeline
