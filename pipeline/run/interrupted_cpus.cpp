// Counts of interrupts, the choice of CPUs, and the threads' affinity.
#include "pipeline/run/interrupted_cpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/log.hpp"

namespace camd::pipeline {
namespace {

namespace fs = std::filesystem;

// 288 cameras of 30 pictures a second make some 4,500. Between the two nothing changes, so that threads do not move to
// and fro.
constexpr double kMany = 200;
constexpr double kFew = 20;
constexpr std::size_t kMostGivenUp = 4;  // of so many CPUs one

constexpr int kMostTurns = 10;  // through the list of threads

constexpr std::size_t kMostCpus = 8192;  // that Linux can be built for
struct Mask {
  cpu_set_t bits[kMostCpus / CPU_SETSIZE] = {};
};

Mask mask_of(const Cpus& cpus) {
  Mask mask;
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), sizeof(mask), mask.bits);
  return mask;
}

// Empty: there is no such thread any more. 0: the calling one.
Cpus allowed_to(pid_t thread) {
  Mask mask;
  Cpus cpus;
  if (sched_getaffinity(thread, sizeof(mask), mask.bits) != 0) return cpus;
  for (std::size_t cpu = 0; cpu < kMostCpus; ++cpu) {
    if (CPU_ISSET_S(cpu, sizeof(mask), mask.bits)) cpus.insert(static_cast<int>(cpu));
  }
  return cpus;
}

// Names in a folder that are numbers; none where it cannot be read.
std::vector<int> numbered_entries(const fs::path& folder) {
  std::vector<int> numbers;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int number = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (problem == std::errc() && end == name.data() + name.size()) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

Cpus allowed_cpus() { return allowed_to(0); }

void move_threads(const Cpus& from, const Cpus& to) {
  const Mask mask = mask_of(to);
  // A thread inherits from the one that starts it. So when nobody was found in the last turn, nobody is left.
  bool found = true;
  for (int turn = 0; turn < kMostTurns && std::exchange(found, false); ++turn) {
    for (const int thread : numbered_entries("/proc/self/task")) {
      if (allowed_to(thread) != from) continue;
      found = sched_setaffinity(thread, sizeof(mask), mask.bits) == 0 || found;
    }
  }
}

InterruptedCpus::InterruptedCpus(const base::Clock& clock, Cpus allowed, Move move, fs::path root)
    : clock_(clock), allowed_(std::move(allowed)), move_(std::move(move)), root_(std::move(root)) {}

void InterruptedCpus::look(const std::vector<std::string>& gpus) {
  const base::TimePoint now = clock_.now();
  Counts counted = counts(gpus);
  const double seconds = std::chrono::duration<double>(now - last_time_).count();
  const bool comparable = gpus == gpus_ && seconds > 0;
  std::map<int, double> a_second;
  if (comparable) {
    for (const auto& [cpu, count] : counted) {
      const std::uint64_t before = last_[cpu];
      a_second[cpu] = count > before ? static_cast<double>(count - before) / seconds : 0;
    }
  }
  gpus_ = gpus;
  last_ = std::move(counted);
  last_time_ = now;
  if (!comparable) return;
  Cpus avoided = worth_avoiding(a_second);
  if (avoided == avoided_) return;
  const auto left = [this](const Cpus& without) {
    Cpus cpus = allowed_;
    for (const int cpu : without) cpus.erase(cpu);
    return cpus;
  };
  move_(left(avoided_), left(avoided));
  if (avoided.empty()) {
    base::log().info("the GPU's interrupts have become few: camd's threads use CPU {} again",
                     fmt::join(avoided_, ", "));
  } else {
    double most = 0;
    for (const int cpu : avoided) most = std::max(most, a_second[cpu]);
    base::log().info("CPU {} serves up to {:.0f} interrupts of the GPU a second: camd's threads keep off it",
                     fmt::join(avoided, ", "), most);
  }
  avoided_ = std::move(avoided);
}

InterruptedCpus::Counts InterruptedCpus::counts(const std::vector<std::string>& gpus) const {
  Counts counts;
  for (const std::string& gpu : gpus) {
    for (const int line : numbered_entries(root_ / "sys/bus/pci/devices" / gpu / "msi_irqs")) {
      std::ifstream file(root_ / "sys/kernel/irq" / std::to_string(line) / "per_cpu_count");
      std::uint64_t count = 0;
      for (int cpu = 0; file >> count; ++cpu) {
        counts[cpu] += count;
        file.ignore(1);  // the comma
      }
    }
  }
  return counts;
}

Cpus InterruptedCpus::worth_avoiding(const std::map<int, double>& a_second) const {
  std::vector<std::pair<double, int>> busiest;
  for (const auto& [cpu, rate] : a_second) {
    const bool enough = rate >= (avoided_.contains(cpu) ? kFew : kMany);
    if (enough && allowed_.contains(cpu)) busiest.emplace_back(rate, cpu);
  }
  std::sort(busiest.rbegin(), busiest.rend());
  busiest.resize(std::min(busiest.size(), allowed_.size() / kMostGivenUp));
  Cpus avoided;
  for (const auto& [rate, cpu] : busiest) avoided.insert(cpu);
  return avoided;
}

}  // namespace camd::pipeline
