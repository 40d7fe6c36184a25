// InterruptedCpus: keeps camd's threads off the CPUs that serve the GPUs' interrupts.
//
// A GPU that decodes hundreds of streams sends thousands of interrupts a second, mostly to one CPU. A thread that runs
// there stands still for up to 60 ms, and with it whoever waits for a lock of the driver that it holds
// (docs/adr/0041-off-the-cpus-that-serve-interrupts.md). The kernel counts interrupts by CPU, for each of a device's
// lines: /sys/bus/pci/devices/*/msi_irqs and /sys/kernel/irq/*/per_cpu_count (Linux, Documentation/ABI/testing).
//
// What a user or a service manager allowed the process is never widened. At most a quarter of it is given up, so
// nothing of fewer than four CPUs.
//
// Threads: one thread at a time per object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace camd::pipeline {

using Cpus = std::set<int>;  // by the kernel's numbers

// CPUs that the calling thread may run on. Empty: the kernel does not say.
[[nodiscard]] Cpus allowed_cpus();
// Allows `to` to each of this process's threads that is allowed exactly `from`; threads bound to something else stay
// as they are. A thread that starts meanwhile is found as well.
void move_threads(const Cpus& from, const Cpus& to);

class InterruptedCpus {
 public:
  using Move = std::function<void(const Cpus& from, const Cpus& to)>;
  // `allowed`: to this process when it started. `root`: what stands for "/".
  InterruptedCpus(const base::Clock& clock, Cpus allowed, Move move, std::filesystem::path root = "/");

  // Reads how often these GPUs ("0000:3b:00.0", DeviceInfo::bus_address) have interrupted which CPU since the last
  // call, and moves the threads if that says so. Each change is logged. GPUs that the kernel does not know count
  // nothing.
  void look(const std::vector<std::string>& gpus);

  [[nodiscard]] const Cpus& avoided() const noexcept { return avoided_; }

 private:
  using Counts = std::map<int, std::uint64_t>;  // by CPU
  [[nodiscard]] Counts counts(const std::vector<std::string>& gpus) const;
  [[nodiscard]] Cpus worth_avoiding(const std::map<int, double>& a_second) const;

  const base::Clock& clock_;
  const Cpus allowed_;
  const Move move_;
  const std::filesystem::path root_;
  std::vector<std::string> gpus_;  // of the last call
  Counts last_;
  base::TimePoint last_time_;
  Cpus avoided_;
};

}  // namespace camd::pipeline
