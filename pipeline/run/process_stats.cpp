// Reads and parses the files of /proc.
#include "pipeline/run/process_stats.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace camd::pipeline {
namespace {

base::Duration cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace

ProcessSampler::ProcessSampler(const base::Clock& clock)
    : clock_(clock), last_time_(clock.now()), last_cpu_(cpu_time()) {}

ProcessStats ProcessSampler::sample() {
  ProcessStats stats;
  const base::TimePoint now = clock_.now();
  const base::Duration cpu = cpu_time();
  stats.cpu_time = cpu;
  if (now > last_time_) {
    stats.cpu_percent =
        100.0 * static_cast<double>((cpu - last_cpu_).count()) / static_cast<double>((now - last_time_).count());
  }
  last_time_ = now;
  last_cpu_ = cpu;

  std::uint64_t pages_total = 0;
  std::uint64_t pages_resident = 0;
  if (std::ifstream statm("/proc/self/statm"); statm >> pages_total >> pages_resident) {
    stats.rss_bytes = pages_resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }
  // The second field is the command in parentheses and may hold blanks: fields are counted from its end.
  std::ifstream stat("/proc/self/stat");
  std::string text;
  if (std::getline(stat, text)) {
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string skipped;
    constexpr int kFieldsBeforeThreads = 17;  // state is field 3, num_threads is field 20
    for (int i = 0; i < kFieldsBeforeThreads; ++i) fields >> skipped;
    fields >> stats.threads;
  }
  return stats;
}

}  // namespace camd::pipeline
