// One of two cards is lost under a whole session: its cameras deliver again on the other one, and every metrics line
// balances. On two GPUs, and with CAMD_CUDA_EMULATION on two emulated ones.
//
// An error of CUDA holds for the whole process. So a card is lost by what camd hears of it: from a moment on each CUDA
// call for it answers with the error of a card whose memory is broken, and is not made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "config/loader.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/make_device.hpp"
#include "pipeline/run/card_keys.hpp"
#include "pipeline/run/session.hpp"
#include "tests/capture/clips.hpp"
#include "tests/support/paths.hpp"
#if defined(CAMD_CUDA_EMULATION)
#include "tests/device/emulated_gpu.hpp"
#include "tests/device/fake_nvdec.hpp"
#include "tests/infer/onnx_builder.hpp"
#endif

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using capture::testing::ClipOptions;
using nlohmann::json;
using ::testing::IsEmpty;

#if defined(CAMD_CUDA_EMULATION)
constexpr int kCameras = 4;
constexpr const char* kTransfer = "pinned";  // to measure all of them takes the emulation long
constexpr int kFps = 10;
constexpr const char* kSize = "width: 64, height: 48";
constexpr const char* kChain = "";
#else
constexpr int kCameras = 16;
constexpr const char* kTransfer = "auto";
constexpr int kFps = 30;
constexpr const char* kSize = "width: 1280, height: 720";
constexpr const char* kChain = "  - {plugin: detections}\n";
#endif
constexpr base::Duration kPatience = std::chrono::seconds(30);  // for frames, before the test says which are missing

// Two cards, each of which can be lost.
class Cards {
 public:
  // Why this machine has none; empty: it has.
  [[nodiscard]] static std::string missing() {
#if defined(CAMD_CUDA_EMULATION)
    return "";
#else
    const device::GpuCount gpus = device::count_gpus();
    if (gpus.count >= 2) return "";
    return gpus.count == 0 ? gpus.reason : "this machine has one GPU, and two are needed";
#endif
  }
  [[nodiscard]] static std::size_t index_of(const std::string& word) { return word == "cuda:1" ? 1 : 0; }
#if defined(CAMD_CUDA_EMULATION)
  Cards() { test::FakeNvdec::instance().reset(); }
  std::unique_ptr<device::Device> make(const std::string& word) {
    auto made = std::make_unique<test::EmulatedGpu>(base::system_clock(), static_cast<int>(index_of(word)));
    made->decode_with(test::FakeNvdec::library());
    gpus_.at(index_of(word)) = made.get();
    return made;
  }
  void lose(const std::string& word) {
    gpus_.at(index_of(word))->lose(base::Status(base::ErrorKind::kDeviceLost, "fell off the bus"));
  }

 private:
  std::array<test::EmulatedGpu*, 2> gpus_{};
#else
  std::unique_ptr<device::Device> make(const std::string& word) {
    device::CudaDeviceOptions options;
    options.fault = [](const char*, void* lost) noexcept {
      constexpr int kEccUncorrectable = 214;  // cudaErrorECCUncorrectable
      return *static_cast<std::atomic<bool>*>(lost) ? kEccUncorrectable : 0;
    };
    options.fault_argument = &lost_.at(index_of(word));
    return device::make_cuda_device(static_cast<int>(index_of(word)), options);
  }
  void lose(const std::string& word) { lost_.at(index_of(word)) = true; }

 private:
  std::array<std::atomic<bool>, 2> lost_{};
#endif
};

// What the metrics lines say.
class Lines {
 public:
  void take(std::string_view text) {
    const json line = json::parse(text);
    const base::MutexLock lock(mutex_);
    ++count_;
    if (line.at("event") == "camera") {
      check(line.at("totals"), text);
      cameras_[line.at("camera")] = line;
    } else if (line.at("event") == "stop") {
      check(line.at("totals"), text);
      for (const json& camera : line.at("cameras")) check(camera.at("totals"), text);
      stop_ = line;
    }
    more_.notify_all();
  }
  // Until every camera has delivered `frames` more; on that device, unless it is empty. False, with each camera's
  // newest line printed: one has not within kPatience.
  [[nodiscard]] bool wait_for_more(int frames, const std::string& device = "") {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const base::MutexLock lock(mutex_);
    const std::map<std::string, json> before = cameras_;
    const auto enough = [&](const auto& of) CAMD_REQUIRES(mutex_) {
      const auto found = before.find(of.first);
      const std::int64_t was = found == before.end() ? 0 : delivered(found->second);
      return delivered(of.second) >= was + frames && (device.empty() || of.second.at("device") == device);
    };
    while (cameras_.size() < kCameras || !std::all_of(cameras_.begin(), cameras_.end(), enough)) {
      if (more_.wait_until(mutex_, deadline)) continue;
      std::printf("not every camera has delivered %d more frames; of %zu cameras the newest of %d lines are:\n", frames,
                  cameras_.size(), count_);
      for (const auto& [name, line] : cameras_) std::printf("%s\n", line.dump().c_str());
      (void)std::fflush(stdout);
      return false;
    }
    return true;
  }
  [[nodiscard]] std::vector<std::string> cameras_on(const std::string& device) {
    const base::MutexLock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, line] : cameras_) {
      if (line.at("device") == device) names.push_back(name);
    }
    return names;
  }
  [[nodiscard]] json stop() {
    const base::MutexLock lock(mutex_);
    return stop_;
  }
  [[nodiscard]] std::vector<std::string> unbalanced() {
    const base::MutexLock lock(mutex_);
    return unbalanced_;
  }
  [[nodiscard]] int count() {
    const base::MutexLock lock(mutex_);
    return count_;
  }

 private:
  static std::int64_t delivered(const json& line) { return line.at("totals").at("delivered"); }
  void check(const json& totals, std::string_view line) CAMD_REQUIRES(mutex_) {
    std::int64_t sum = totals.at("delivered").get<std::int64_t>() + totals.at("in_flight").get<std::int64_t>();
    for (const auto& [reason, count] : totals.at("dropped").items()) sum += count.get<std::int64_t>();
    if (totals.at("captured") != sum || totals.at("in_flight") < 0) unbalanced_.emplace_back(line);
  }

  base::Mutex mutex_;
  base::CondVar more_;
  int count_ CAMD_GUARDED_BY(mutex_) = 0;
  std::map<std::string, json> cameras_ CAMD_GUARDED_BY(mutex_);  // the newest of each
  json stop_ CAMD_GUARDED_BY(mutex_);
  std::vector<std::string> unbalanced_ CAMD_GUARDED_BY(mutex_);
};

class LostCard : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = Cards::missing(); !missing.empty()) GTEST_SKIP() << missing;
  }
  // Loses the card with more cameras, which is as fast as it was measured to be, and tells how long they were away.
  void lose_under(const std::string& source, const std::string& decode) {
    write_config(source, decode);
    SessionOptions options;
    options.make_device = [this](const std::string& word) { return cards_.make(word); };
    const std::string config = (folder_ / "c.yaml").string();
    Session session([&] { return config::read(config, {}, {.card_keys = card_keys()}); }, options, base::system_clock(),
                    [this](std::string_view line) { lines_.take(line); });
    session.start();
    std::thread run([&] { ended_ = session.wait(base::TimePoint::max()); });
    const bool begun = lines_.wait_for_more(10);
    const bool second = lines_.cameras_on("cuda:1").size() >= kCameras / 2U;
    const std::string lost = second ? "cuda:1" : "cuda:0", left = second ? "cuda:0" : "cuda:1";
    const std::vector<std::string> moved = lines_.cameras_on(lost);
    const std::int64_t lost_ns = base::to_ns(base::system_clock().now());
    if (begun) cards_.lose(lost);
    const bool gone_on = begun && lines_.wait_for_more(20, left);
    session.request_end();
    run.join();
    ASSERT_TRUE(begun) << "not every camera has delivered 10 frames";
    ASSERT_TRUE(gone_on) << "not every camera has delivered 20 frames on " << left << " after the loss of " << lost;
    EXPECT_EQ(ended_, EndReason::kRequested);
    EXPECT_EQ(session.stop(ended_), 0);
    EXPECT_GE(moved.size(), kCameras / 2U);
    EXPECT_THAT(lines_.unbalanced(), IsEmpty());
    std::printf("%s lost, cameras go on with %s: ", lost.c_str(), left.c_str());
    tell(moved, lost_ns);
  }

  capture::testing::TemporaryFolder folder_;

 private:
  // The reference detector; under emulation a frame of it takes seconds, so there one layer.
  std::string model() {
#if defined(CAMD_CUDA_EMULATION)
    infer::test::OnnxBuilder layer;
    layer.input("x", {1, 3, 8, 8}).weight("w", {1, 3, 1, 1}, {0.2F, 0.5F, 0.3F}).node("Conv", {"x", "w"}, {"y"});
    layer.output("y", {1, 1, 8, 8});
    std::ofstream(folder_ / "layer.onnx", std::ios::binary) << layer.bytes();
    return (folder_ / "layer.onnx").string();
#else
    return test::source_dir() + "/models/marker-640x360.onnx";
#endif
  }
  void write_config(const std::string& source, const std::string& decode) {
    std::ofstream file(folder_ / "c.yaml");
    file << "devices: [cuda:0, cuda:1]\nmodel: {path: " << model() << "}\n"
         << "metrics: {period: 50ms}\npipeline: {transfer: " << kTransfer << "}\ncameras:\n";
    for (int i = 0; i < kCameras; ++i) {
      file << "  - {name: c" << i << ", decode: " << decode << ", source: " << source << "}\n";
    }
    file << "postprocess:\n"
         << kChain << "  - {plugin: jsonl, config: {path: " << (folder_ / "d.jsonl").string() << "}}\n";
  }
  // A frame of a camera that moved which was captured after the loss can only be of the other card.
  void tell(const std::vector<std::string>& moved, std::int64_t lost_ns) {
    std::map<std::string, std::int64_t> again_ns, sequence;
    std::ifstream file(folder_ / "d.jsonl");
    for (std::string text; std::getline(file, text);) {
      const json line = json::parse(text);
      const std::string camera = line.at("camera");
      if (const auto [at, first] = sequence.emplace(camera, line.at("seq")); !first) {
        EXPECT_LT(at->second, line.at("seq").get<std::int64_t>()) << camera << " is out of order";
        at->second = line.at("seq");
      }
      const std::int64_t captured = line.at("captured_mono_ns");
      if (captured > lost_ns) {
        again_ns.emplace(camera, captured + line.at("latency_us").get<std::int64_t>() * 1000 - lost_ns);
      }
    }
    std::vector<double> away_ms;
    for (const std::string& camera : moved) away_ms.push_back(static_cast<double>(again_ns.at(camera)) / 1e6);
    std::sort(away_ms.begin(), away_ms.end());
    const json totals = lines_.stop().at("totals");
    EXPECT_EQ(totals.at("in_flight"), 0);
    std::printf(
        "%zu of %d cameras deliver again after %.1f ms (the first) to %.1f ms (the "
        "last); frames captured %lld, delivered %lld, dropped %s; %d metrics lines, all balanced\n",
        moved.size(), kCameras, away_ms.front(), away_ms.back(), totals.at("captured").get<long long>(),
        totals.at("delivered").get<long long>(), totals.at("dropped").dump().c_str(), lines_.count());
  }

  Cards cards_;
  Lines lines_;
  EndReason ended_{};
};

TEST_F(LostCard, LeavesItsCamerasToTheOtherAndEveryLineBalances) {
  lose_under(std::string("{type: test, ") + kSize + ", fps: " + std::to_string(kFps) + "}", "auto");
}

TEST_F(LostCard, CamerasThatItDecodesAreDecodedByTheOther) {
  const auto clip = folder_ / "clip.mp4";
  const ClipOptions options{.frames = 3 * kFps,
                            .width = 640,
                            .height = 360,
                            .fps = kFps,
                            .encoder = "x264enc bframes=0 key-int-max=5 speed-preset=ultrafast ! h264parse ! mp4mux"};
  CAMD_CLIP_OR_SKIP(clip, options);
  lose_under("{type: file, path: " + clip.string() + ", loop: true}", "gpu");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
