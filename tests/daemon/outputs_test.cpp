// camd run with readers of one network's outputs in its own process, in others, on the host and on the GPU: all have
// to see the outputs of the same frame, bit for bit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "device/make_device.hpp"
#include "tests/daemon/run_camd.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/python.hpp"
#include "tests/support/sanitized.hpp"

namespace camd::test {
namespace CAMD_TEST_FILE {

using nlohmann::json;
using testing::HasSubstr;

class Outputs : public testing::Test {
 protected:
  static constexpr int kFrames = 60;  // of each camera

  void SetUp() override {
    readers_ = entry("here", "host", "isolation: none") + entry("worker", "host", "worker: w");
    names_ = {"here", "worker"};
  }
  static std::string entry(const std::string& as, const std::string& where, const std::string& more) {
    return fmt::format("  - {{plugin: {}/lib/bad/sums.so, config: {{where: {}, as: {}}}, {}}}\n", binary_dir(), where,
                       as, more);
  }
  void add_script(const std::string& as, const std::string& where, const std::string& more) {
    readers_ +=
        fmt::format("  - {{plugin: {}, python: {}, memory: 32GiB, deadline: 60s, config: {{where: {}, as: {}}}{}}}\n",
                    source_path("tests/plugins/python/sums.py"), python(), where, as, more);
    names_.insert(as);
  }
  void add_device_reader() {
    readers_ += entry("ipc", "device", "allow: [gpu]");
    names_.insert("ipc");
  }
  void need_gpu() {
    const device::GpuCount gpus = device::count_gpus();
    if (gpus.count == 0) GTEST_SKIP() << gpus.reason;
  }
  void need_script() {
    if (kSanitized) GTEST_SKIP() << "an interpreter without the sanitizer cannot load a library with it";
    if (!python_has("numpy")) GTEST_SKIP() << python() << " has no NumPy (python3-numpy)";
  }

  void need_torch() {
    need_script();
    if (IsSkipped() || python_has("torch")) return;
    GTEST_SKIP() << python() << " has no PyTorch (python3-torch); CAMD_TEST_PYTHON names another interpreter";
  }

  // Runs two cameras with all readers, as fast as frames go, and compares what they saw.
  void run_and_compare(const std::string& device, const std::string& transfer) {
    SCOPED_TRACE(transfer);
    const std::string lines = folder_ / (transfer + ".jsonl");
    const auto camera = [](const char* name, int width, int height) {
      return fmt::format(
          "  - {{name: {}, source: {{type: test, width: {}, height: {}, frames: {}, realtime: false}}}}\n", name, width,
          height, kFrames);
    };
    const std::string path =
        folder_.write(transfer + ".yaml", fmt::format("device: {}\nmodel: {{path: {}}}\npipeline: {{transfer: "
                                                      "{}}}\ncameras:\n{}{}postprocess:\n{}  - {{plugin: jsonl, "
                                                      "config: {{path: {}}}}}\n",
                                                      device, source_path("models/marker-640x360.onnx"), transfer,
                                                      camera("a", 640, 360), camera("b", 320, 180), readers_, lines));
    const Finished done = run_camd({"run", path, "--metrics", "json"});
    ASSERT_EQ(done.code, 0) << done.err;
    compare(lines);
    for (const json& one : told(done.out, "plugin")) {
      EXPECT_EQ(one.value("bytes_copied", 0), 0) << one;
    }
  }

  static std::vector<json> told(const std::string& text, const std::string& event) {
    std::vector<json> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      json one = json::parse(line);
      if (event.empty() || one.at("event") == event) found.push_back(std::move(one));
    }
    return found;
  }

  // Each frame by its camera and number; each reader's sum by the frame that it was told of.
  void compare(const std::string& lines) {
    using Frame = std::pair<std::string, std::uint64_t>;
    const std::vector<std::string> cameras = {"a", "b"};
    std::map<Frame, std::map<std::string, std::int64_t>> sums;
    for (const json& line : told(read_file(lines), "")) {
      const Frame frame{line.at("camera"), line.at("seq")};
      ASSERT_EQ(sums.count(frame), 0U) << line;
      for (const json& event : line.at("events")) {
        const json& numbers = event.at("numbers");
        ASSERT_EQ(cameras.at(numbers.at("camera")), frame.first) << line;
        ASSERT_EQ(numbers.at("sequence"), frame.second) << line;
        sums[frame][event.at("zone")] = numbers.at("sums");
      }
    }
    EXPECT_EQ(sums.size(), 2U * kFrames);
    std::set<std::int64_t> different;
    for (const auto& [frame, by_reader] : sums) {
      std::set<std::string> readers;
      for (const auto& [reader, sum] : by_reader) {
        readers.insert(reader);
        EXPECT_EQ(sum, by_reader.at("here")) << frame.first << " " << frame.second << ", read by " << reader;
      }
      EXPECT_EQ(readers, names_);
      different.insert(by_reader.at("here"));
    }
    // Otherwise one frame's outputs in another's place would not be seen.
    EXPECT_EQ(different.size(), sums.size());
  }

  TemporaryFolder folder_;
  std::string readers_;
  std::set<std::string> names_;
};

TEST_F(Outputs, AreTheSameInEveryProcess) { run_and_compare("host", "auto"); }

TEST_F(Outputs, AreTheSameInPython) {
  need_script();
  if (IsSkipped()) return;
  add_script("numpy", "host", "");
  run_and_compare("host", "auto");
}

TEST_F(Outputs, AreTheSameInPyTorchWhichReadsThemWhereTheyLie) {
  need_torch();
  if (IsSkipped()) return;
  add_script("torch", "torch", ", allow: [files: /tmp/]");
  run_and_compare("host", "auto");
}

TEST_F(Outputs, AreTheSameOnTheGpuInAProcessThatOpensThem) {
  need_gpu();
  if (IsSkipped()) return;
  add_device_reader();
  for (const char* transfer : {"pinned", "direct", "mapped", "pageable"}) run_and_compare("cuda", transfer);
}

TEST_F(Outputs, AreTheSameOnTheGpuInPyTorch) {
  need_gpu();
  if (!IsSkipped()) need_torch();
  if (IsSkipped()) return;
  add_device_reader();
  add_script("numpy", "host", "");
  add_script("torch", "device", ", allow: [gpu, files: /tmp/]");
  for (const char* transfer : {"pinned", "direct"}) run_and_compare("cuda", transfer);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::test
