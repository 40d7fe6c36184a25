// camd bench: measures, prints the table, writes the JSON file.

#include <cstdio>
#include <fstream>

#include "apps/camd/commands.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace camd::app {

int bench_command(const pipeline::BenchOptions& options, const std::string& json_path) {
  std::ofstream json;
  if (!json_path.empty()) {
    json.open(json_path);
    if (!json) throw base::Error(base::ErrorKind::kIo, "--json " + json_path + ": cannot be written");
  }
  base::set_log_level("warn");
  const pipeline::BenchResult result = pipeline::run_bench(options);
  std::fputs(pipeline::bench_table(result).c_str(), stdout);
  if (json.is_open()) {
    json << pipeline::bench_json(result);
    if (!json.flush()) throw base::Error(base::ErrorKind::kIo, "--json " + json_path + ": cannot be written");
  }
  return 0;
}

}  // namespace camd::app
