// What the pipeline's tests put in the place of cameras, models and plug-ins.
#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "capture/frame_source.hpp"
#include "device/host_device.hpp"
#include "infer/engine.hpp"
#include "pipeline/core/pipeline.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "tests/support/spin.hpp"

namespace camd::test {

// Opens once; whoever waits for it goes on then. Instead of sleeping.
class Gate {
 public:
  void open() {
    base::MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    base::MutexLock lock(mutex_);
    while (!open_) changed_.wait(mutex_);
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool open_ CAMD_GUARDED_BY(mutex_) = false;
};

// An engine of the host device whose network is a function of the tests.
class FakeEngine final : public infer::Engine {
 public:
  // Called on the compute stream for every frame; what it returns is Execution::result().
  using Network = std::function<base::Status(const infer::PictureView& picture)>;

  FakeEngine(device::Device& device, Network network) : device_(device), network_(std::move(network)) {
    model_.path = "fake.onnx";
    input_ = {"input", {1, 3, 4, 4}, infer::DataType::kF32};
    outputs_ = {{"scores", {1, 2}, infer::DataType::kF32}, {"boxes", {1, 4}, infer::DataType::kF32}};
    options_.width = 4;
    options_.height = 4;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "fake"; }
  [[nodiscard]] const infer::ModelDescription& model() const noexcept override { return model_; }
  [[nodiscard]] const infer::InputOptions& input_options() const noexcept override { return options_; }
  [[nodiscard]] const infer::TensorSpec& input() const noexcept override { return input_; }
  [[nodiscard]] const std::vector<infer::TensorSpec>& outputs() const noexcept override { return outputs_; }
  [[nodiscard]] std::unique_ptr<infer::Execution> make_execution() override {
    return std::make_unique<FakeExecution>(*this);
  }
  // [setup] Appends how long each frame was with the device: from its first call here until its result is asked for.
  void record_time_on_device(std::vector<base::Duration>& times) { time_on_device_ = &times; }
  // [setup] Called by the dispatcher for every frame.
  void when_enqueued(std::function<void()> call) { when_enqueued_ = std::move(call); }

 private:
  class FakeExecution final : public infer::Execution {
   public:
    explicit FakeExecution(FakeEngine& engine) : engine_(engine), ready_(engine.device_.make_event()) {}
    base::Status enqueue_preprocess(const infer::PictureView& picture, device::StreamRef /*stream*/) override {
      picture_ = picture;
      if (engine_.when_enqueued_) engine_.when_enqueued_();
      if (engine_.time_on_device_ != nullptr) began_ = base::system_clock().now();
      return engine_.device_.status();
    }
    base::Status enqueue_network(device::StreamRef stream) override {
      base::Status called = engine_.device_.call(
          [](void* self) noexcept {
            auto& execution = *static_cast<FakeExecution*>(self);
            const infer::PictureView& picture = execution.picture_;
            execution.result_ = execution.engine_.network_({picture.bytes(), picture.layout, picture.awaited});
          },
          this, stream);
      if (!called.ok()) return called;
      return engine_.device_.record(ready_, stream);
    }
    [[nodiscard]] infer::TensorView input() const noexcept override { return {input_.data(), &engine_.input_}; }
    [[nodiscard]] infer::TensorView output(std::size_t i) const noexcept override {
      return {output_.data(), &engine_.outputs_[i]};
    }
    [[nodiscard]] const device::Event& output_ready(std::size_t /*i*/) const noexcept override { return ready_; }
    [[nodiscard]] base::Status result() const noexcept override {
      if (engine_.time_on_device_ != nullptr) engine_.time_on_device_->push_back(base::system_clock().now() - began_);
      return result_;
    }

   private:
    FakeEngine& engine_;
    base::TimePoint began_;
    device::Event ready_;
    infer::PictureView picture_;
    base::Status result_;
    mutable std::array<float, 48> input_{};  // a view of it may be written
    mutable std::array<float, 4> output_{};
  };

  device::Device& device_;
  Network network_;
  std::vector<base::Duration>* time_on_device_ = nullptr;
  std::function<void()> when_enqueued_;
  infer::ModelDescription model_;
  infer::InputOptions options_;
  infer::TensorSpec input_;
  std::vector<infer::TensorSpec> outputs_;
};

// Of a ring that a test looks after itself.
struct NoObserver final : capture::FrameObserver {
  void captured(capture::CameraIndex /*camera*/) noexcept override {}
  void dropped(capture::CameraIndex /*camera*/, capture::RingDrop /*reason*/) noexcept override {}
  void ready(capture::CameraIndex /*camera*/) noexcept override {}
};

// The process() of a postprocessor that does nothing.
inline int takes_it(const camd_frame& /*frame*/, const camd_tensors& /*tensors*/, camd_results& /*results*/,
                    camd_error& /*error*/) {
  return static_cast<int>(CAMD_OK);
}

// A postprocessor whose process() is a function of the tests.
struct FakePlugin {
  using Process = std::function<int(const camd_frame&, const camd_tensors&, camd_results&, camd_error&)>;
  Process process;
  // Each a camd_need, or what a plug-in should not say.
  int picture = CAMD_NEED_NONE;  // of the source picture
  int input = CAMD_NEED_NONE;    // of the network's input
  int output = CAMD_NEED_HOST;   // of so many of the network's first outputs
  int outputs = 1;
  std::optional<int> detections;      // that a frame shall have room for
  std::vector<camd_filter> filters;   // of the outputs
  const camd_host* host = nullptr;    // since create()
  std::function<void()> when_set_up;  // called by outputs()
  camd_plugin& table = fresh_table();

  explicit FakePlugin(Process function, bool wants_picture = false)
      : process(std::move(function)), picture(wants_picture ? CAMD_NEED_HOST : CAMD_NEED_NONE) {
    table.abi_version = CAMD_PLUGIN_ABI_VERSION;
    table.struct_size = sizeof(camd_plugin);
    table.name = "fake";
    table.version = "1";
    table.description = "a test's postprocessor";
    table.create = [](const camd_host* camd, const char* config, void** instance, camd_error* /*error*/) {
      const std::uintptr_t address = std::strtoull(config, nullptr, 10);
      *instance = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
      static_cast<FakePlugin*>(*instance)->host = camd;
      return static_cast<std::int32_t>(CAMD_OK);
    };
    table.outputs = [](void* instance, const camd_model* /*model*/, camd_needs* needs, camd_error* /*error*/) {
      const auto& self = *static_cast<FakePlugin*>(instance);
      const auto ask = [](camd_need& to, const int& need) { std::memcpy(&to, &need, sizeof(to)); };
      ask(needs->picture, self.picture);
      ask(needs->input, self.input);
      for (int i = 0; i < self.outputs; ++i) ask(needs->outputs[i], self.output);
      if (self.detections) needs->detections = *self.detections;
      needs->filter_count = static_cast<std::int32_t>(self.filters.size());
      needs->filters = self.filters.data();
      if (self.when_set_up) self.when_set_up();
      return static_cast<std::int32_t>(CAMD_OK);
    };
    table.process = [](void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                       camd_error* error) {
      return static_cast<std::int32_t>(static_cast<FakePlugin*>(instance)->process(*frame, *tensors, *results, *error));
    };
    table.destroy = [](void* /*instance*/, camd_error* /*error*/) { return static_cast<std::int32_t>(CAMD_OK); };
  }
  // The table is found through the instance, whose address travels as the configuration.
  void add_to(pipeline::PluginHost& chain) { chain.add(table, std::to_string(reinterpret_cast<std::uintptr_t>(this))); }

 private:
  // A host may outlive the instance, as a library outlives what it has made, and calls destroy() then. So the table is
  // never freed.
  static camd_plugin& fresh_table() {
    static std::deque<camd_plugin> tables;
    return tables.emplace_back();
  }
};

// An extension of the host, by its name.
template <class T>
const T& extension(const camd_host* host, const char* id) {
  return *static_cast<const T*>(host->get_extension(host, id));
}

// A source whose thread runs a function of the tests until that returns or stop().
class FakeSource final : public capture::FrameSource {
 public:
  using Body = std::function<void(capture::FrameRing& ring, const std::atomic<bool>& stopping)>;
  FakeSource(capture::CameraIndex camera, capture::FrameRing& ring, capture::SourceListener& listener, Body body)
      : camera_(camera), ring_(ring), listener_(listener), body_(std::move(body)) {}
  ~FakeSource() override { stop(); }
  void start() override {
    listener_.state_changed(camera_, capture::SourceState::kRunning, "");
    thread_ = std::thread([this] {
      body_(ring_, stopping_);
      if (!stopping_) listener_.state_changed(camera_, capture::SourceState::kEnded, "body returned");
    });
  }
  void request_stop() noexcept override {
    stopping_ = true;
    ring_.close(true);
  }
  bool join(base::Duration /*patience*/) noexcept override {
    if (thread_.joinable()) thread_.join();
    return true;
  }

 private:
  const capture::CameraIndex camera_;
  capture::FrameRing& ring_;
  capture::SourceListener& listener_;
  Body body_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

inline pipeline::CameraSpec fake_camera(const std::string& name, FakeSource::Body body, bool lossless = false) {
  return {name, lossless,
          [body = std::move(body)](capture::CameraIndex index, capture::FrameRing& ring,
                                   capture::SourceListener& listener) {
            return std::make_unique<FakeSource>(index, ring, listener, body);
          }};
}

// Publishes one small picture whose first bytes are its number. False when the ring had no place for it.
inline bool publish_frame(capture::FrameRing& ring, base::TimePoint now, const capture::CaptureTime& time) {
  static const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kGray8, 8, 1);
  std::optional<capture::FillLease> lease = ring.begin();
  if (!lease) return false;
  const std::uint64_t sequence = lease->sequence();
  std::memcpy(lease->data(layout), &sequence, sizeof(sequence));
  lease->publish(time.captured, now, time.uncertainty);
  return true;
}
inline bool publish_frame(capture::FrameRing& ring, base::TimePoint now) { return publish_frame(ring, now, {now, {}}); }

// The model as Session describes it to plug-ins.
inline void declare(pipeline::PluginHost& plugins, const infer::Engine& engine) {
  std::vector<camd_tensor_spec> outputs;
  for (const infer::TensorSpec& spec : engine.outputs()) {
    outputs.push_back({spec.name.c_str(), static_cast<std::int32_t>(spec.shape.size()), spec.shape.data(),
                       pipeline::dl_type(spec.type)});
  }
  camd_model model{};
  model.struct_size = sizeof(model);
  model.path = "fake.onnx";
  model.output_count = static_cast<std::int32_t>(outputs.size());
  model.outputs = outputs.data();
  model.card_json = "{}";
  plugins.declare(model);
}

// What a plug-in is refused with that asks for this.
inline std::string refusal(const std::function<void(FakePlugin&)>& ask) {
  const auto device = device::make_host_device(base::system_clock());
  FakeEngine engine(*device, [](const infer::PictureView&) { return base::Status(); });
  FakePlugin plugin(takes_it);
  ask(plugin);
  pipeline::PluginHost plugins({}, base::system_clock());
  try {
    plugin.add_to(plugins);
    declare(plugins, engine);
  } catch (const base::Error& error) {
    return error.kind() == base::ErrorKind::kPlugin ? error.what() : std::string("another error: ") + error.what();
  }
  return "";
}

}  // namespace camd::test
