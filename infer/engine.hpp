// Engine: runs one model on one device. Execution: what one frame in flight needs to run it.
//
// Threads: Engine::make_* and make_execution() [setup]. One frame at a time uses an Execution: enqueue_*() [dispatch];
// the outputs, after their events, by the job that has the frame; result() after the last event.
// Invariants: enqueue_*() do not synchronise and do not allocate; make_execution() allocates all memory. Executions are
// destroyed before their Engine, and the Engine before its Device.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/picture.hpp"
#include "device/device.hpp"
#include "infer/filter.hpp"
#include "infer/half.hpp"
#include "infer/model.hpp"
#include "infer/tensor.hpp"

namespace camd::infer {

enum class ColorOrder : std::uint8_t { kBgr, kRgb };
enum class ResizeMode : std::uint8_t {
  kLetterbox,         // keeps the aspect ratio; the picture is centred, the rest is `pad`
  kLetterboxTopLeft,  // keeps the aspect ratio; the picture is at the top left, the rest is `pad`
  kStretch,           // fills the network's input
};

// How a picture becomes the network's input: for each channel, in the order of `color`, x = (channel - mean) * scale.
struct InputOptions {
  int width = 0;  // pixels of the network's input; 0: from the model
  int height = 0;
  ColorOrder color = ColorOrder::kBgr;
  std::array<float, 3> mean{0.0F, 0.0F, 0.0F};  // in 0..255, in the order of `color`
  std::array<float, 3> scale{1.0F / 255, 1.0F / 255, 1.0F / 255};
  // Nobody has written mean or scale: an input of bytes takes pixels as they are.
  bool scale_by_type = false;
  ResizeMode resize = ResizeMode::kLetterbox;
  float pad = 114.0F;  // 0..255, before normalisation
};

// Network pixel = source pixel * scale + offset. Pixel centres are at .5.
struct PictureTransform {
  float scale_x = 1.0F, scale_y = 1.0F;
  float offset_x = 0.0F, offset_y = 0.0F;
};
[[nodiscard]] PictureTransform picture_transform(int source_width, int source_height, int network_width,
                                                 int network_height, ResizeMode mode) noexcept;

// A picture. The device can read its memory.
struct PictureView {
  const std::byte* data = nullptr;
  base::PictureLayout layout;
  // The stream awaits a signal (Device::await()) that is raised when the picture has arrived, and nothing was enqueued
  // after that. So the kernel that reads the picture may start early.
  bool awaited = false;
  // In place of `data`: where its address, a multiple of 16, stands in the device's memory when the work runs. So a
  // captured graph serves pictures wherever they lie.
  const std::byte* const* at = nullptr;

  // [device] When the work runs.
  [[nodiscard]] const std::byte* bytes() const noexcept { return at == nullptr ? data : *at; }
};

class Execution {
 public:
  virtual ~Execution() = default;
  // Enqueues what turns `picture` into the network's input: colour conversion, resizing, normalisation. The picture's
  // memory must stay valid until the stream has passed this point.
  virtual base::Status enqueue_preprocess(const PictureView& picture, device::StreamRef stream) = 0;
  // [setup] From now on enqueue_preprocess() fills input() and the network reads it. So input() may be read, or written
  // instead of calling enqueue_preprocess(). Without this call an engine may compute its first layer from the picture
  // and leave input() untouched. Engines of the host always fill it.
  virtual void keep_input() {}
  // [setup] Makes the network write output i to `address`, which output(i) then returns. The memory is the caller's:
  // mapped host memory or device memory, aligned to 16 bytes, valid as long as this Execution. Returns false if this
  // engine cannot.
  virtual bool bind_output(std::size_t i, void* address) {
    (void)i;
    (void)address;
    return false;
  }
  // [setup] From now on enqueue_network() ends with what `filters` say: of the outputs that they name, the values that
  // pass are written to `to`. For output i, output_ready(i) does not tell of that. Returns false if this engine cannot;
  // nothing has changed then.
  virtual bool filter(std::span<const Filter> filters, const FilteredTo& to) {
    (void)filters;
    (void)to;
    return false;
  }
  // [setup] As bind_output(), of what enqueue_preprocess() fills and the network reads: input() is at `address` then.
  virtual bool bind_input(void* address) {
    (void)address;
    return false;
  }
  // Enqueues the network. output_ready(i) is recorded as soon as output i is final. While `stream` is being captured,
  // only records of Events may stand between enqueue_preprocess() and this call: the network's first kernel starts
  // early.
  virtual base::Status enqueue_network(device::StreamRef stream) = 0;
  // The network's input in device memory, as Engine::input() describes it. Filled only after keep_input().
  [[nodiscard]] virtual TensorView input() const noexcept = 0;
  // Output i, as Engine::outputs()[i] describes it: in device memory, or where bind_output() put it. On the host device
  // the CPU reads it there.
  [[nodiscard]] virtual TensorView output(std::size_t i) const noexcept = 0;
  [[nodiscard]] virtual const device::Event& output_ready(std::size_t i) const noexcept = 0;
  // Whether the work succeeded; ask when all that was enqueued is done. An engine of the host can fail while it runs.
  [[nodiscard]] virtual base::Status result() const noexcept = 0;
};

// What an execution is made for: the least time of a frame alone, or the most frames a second where many share the
// device. Both compute the same.
enum class Goal : std::uint8_t { kLatency, kThroughput };

class Engine {
 public:
  virtual ~Engine() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  // "cpu", "opencv", "cuda"
  [[nodiscard]] virtual const ModelDescription& model() const noexcept = 0;
  [[nodiscard]] virtual const InputOptions& input_options() const noexcept = 0;       // width and height resolved
  [[nodiscard]] virtual const TensorSpec& input() const noexcept = 0;                 // all dimensions known
  [[nodiscard]] virtual const std::vector<TensorSpec>& outputs() const noexcept = 0;  // all dimensions known
  // [setup] [blocks] Allocates what one frame in flight needs and runs the network once. Throws Error(kModel |
  // kDevice).
  [[nodiscard]] virtual std::unique_ptr<Execution> make_execution() = 0;  // for Goal::kLatency
  // [any] Whether executions can be made for this goal.
  [[nodiscard]] virtual bool serves(Goal goal) const noexcept { return goal == Goal::kLatency; }
  // [setup] [blocks] The same for a goal that the engine serves.
  [[nodiscard]] virtual std::unique_ptr<Execution> make_execution_for(Goal goal) {
    (void)goal;
    return make_execution();
  }
};

enum class EngineKind : std::uint8_t { kAuto, kOpenCv, kCuda, kCpu };

struct EngineOptions {
  EngineKind kind = EngineKind::kAuto;
  // Tensors of the graph that become its outputs, in this order. Operators that only the model's own outputs need are
  // left out. Empty: the model's own outputs.
  std::vector<std::string> cut_at;
  InputOptions input;
  int threads = 0;                         // host engines: CPU threads for the network, 0 = all usable cores
  DataType compute_type = DataType::kF16;  // cuda: of activations and weights
  std::optional<HalfType> host_half{};     // cpu: for dense convolutions, where the processor computes with it
  bool tf32 = false;                       // cuda, kF32: convolutions multiply numbers of 11 digits, on tensor cores
  DataType output_type = DataType::kF32;   // cuda: of the outputs; kF16 halves what crosses the bus
  bool many_frames = false;                // cuda: the engine shall serve Goal::kThroughput, too
};

// [setup] [blocks] Reads the model, chooses an engine and prepares it. kAuto: the fastest of the device's engines that
// can run the model. `device` must outlive the engine. Throws Error(kModel) with one line: the file, the cause, and the
// operator and node that no engine of this device can run.
[[nodiscard]] std::unique_ptr<Engine> make_engine(const std::string& model_path, const EngineOptions& options,
                                                  device::Device& device);

}  // namespace camd::infer
