// Engine: runs one model on one device. Execution: everything one frame in flight needs of it.
//
// Threads: Engine::make_* and make_execution() [setup]. An Execution is used by one frame at a time: enqueue_*()
// [dispatch], the outputs after their events by whoever the frame is handed to, result() after the last event.
// Invariants: enqueue_*() do not synchronise and do not allocate; all memory is had in make_execution().
// The Engine outlives its Executions; both go before their Device.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/picture.hpp"
#include "device/device.hpp"
#include "infer/model.hpp"
#include "infer/tensor.hpp"

namespace camd::infer {

enum class ColorOrder : std::uint8_t { kBgr, kRgb };
enum class ResizeMode : std::uint8_t {
  kLetterbox,         // keeps the aspect ratio, centred, the rest is `pad`
  kLetterboxTopLeft,  // keeps the aspect ratio, picture at the top left
  kStretch,
};

// How a picture becomes the network's input: x = (channel - mean) * scale, per channel, in `color` order.
struct InputOptions {
  int width = 0;  // network pixels; 0: from the model
  int height = 0;
  ColorOrder color = ColorOrder::kBgr;
  std::array<float, 3> mean{0.0F, 0.0F, 0.0F};  // in 0..255, in the order of `color`
  std::array<float, 3> scale{1.0F / 255, 1.0F / 255, 1.0F / 255};
  ResizeMode resize = ResizeMode::kLetterbox;
  float pad = 114.0F;  // 0..255, before normalisation
};

// Network pixel = source pixel * scale + offset (pixel centres at .5).
struct PictureTransform {
  float scale_x = 1.0F, scale_y = 1.0F;
  float offset_x = 0.0F, offset_y = 0.0F;
};
[[nodiscard]] PictureTransform picture_transform(int source_width, int source_height, int network_width,
                                                 int network_height, ResizeMode mode) noexcept;

// A picture in memory that the device can read.
struct PictureView {
  const std::byte* data = nullptr;
  base::PictureLayout layout;
  // The picture is there when a signal is raised that the stream awaits, and has done nothing since: a kernel that
  // reads it may start early behind that.
  bool awaited = false;
};

class Execution {
 public:
  virtual ~Execution() = default;
  // Enqueues colour conversion, resize and normalisation of `picture` into the network's input.
  // The picture's memory must stay valid until the stream has passed this point.
  virtual base::Status enqueue_preprocess(const PictureView& picture, device::StreamRef stream) = 0;
  // [setup] From now on preprocessing fills input() and the network starts from it, so that input() may be read, or
  // written in preprocessing's place. Without it an engine is free to compute its first layer from the picture itself
  // and leave input() untouched. (Engines of the host always fill it.)
  virtual void keep_input() {}
  // [setup] Makes the network write output i to `address`, which the device can reach (mapped host memory, an arena of
  // the caller's), aligned to 16 bytes; output(i) then is that address. False: this engine cannot.
  virtual bool bind_output(std::size_t i, void* address) {
    (void)i;
    (void)address;
    return false;
  }
  // [setup] Makes ready for pictures that come in two parts, the lower one first, which the first layers then follow;
  // the outputs stay the same bit by bit. False: this engine cannot.
  virtual bool divide_first_layers() { return false; }
  // [dispatch], after divide_first_layers(): where the lower part begins in pictures of `layout`, which holds all that
  // lies behind as well; bytes. 0: such a picture must come whole. Enqueues nothing.
  [[nodiscard]] virtual std::size_t lower_part(const base::PictureLayout& layout) {
    (void)layout;
    return 0;
  }
  // Enqueues the first layers for the lower part of `picture`, which is there (PictureView::awaited means that part).
  // Only while `stream` is being captured, where lower_part() is not 0, and before enqueue_preprocess() and
  // enqueue_network() of the same capture, on another stream: those await this part where they need it, which joins
  // `stream`.
  virtual base::Status enqueue_lower_part(const PictureView& picture, device::StreamRef stream) {
    (void)picture;
    (void)stream;
    return {base::ErrorKind::kInternal, "this engine takes pictures whole"};
  }
  // Enqueues the network. output_ready(i) is recorded as soon as output i is final. While `stream` is being captured,
  // enqueue_preprocess() must be what was last enqueued on it (Events may be recorded in between): the network's first
  // kernel starts early behind it.
  virtual base::Status enqueue_network(device::StreamRef stream) = 0;
  // Device memory of the network's input [1,3,H,W] (for `tensors` and tests; see keep_input()), in Engine::input()'s
  // type.
  [[nodiscard]] virtual TensorView input() const noexcept = 0;
  // Device memory of output i, of Engine::outputs()[i]. On the host device the CPU reads it in place.
  [[nodiscard]] virtual TensorView output(std::size_t i) const noexcept = 0;
  [[nodiscard]] virtual const device::Event& output_ready(std::size_t i) const noexcept = 0;
  // After everything enqueued has been reached: whether it worked (an engine on the host can fail while running).
  [[nodiscard]] virtual base::Status result() const noexcept = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  // "cpu", "opencv", "cuda"
  [[nodiscard]] virtual const ModelDescription& model() const noexcept = 0;
  [[nodiscard]] virtual const InputOptions& input_options() const noexcept = 0;       // width and height resolved
  [[nodiscard]] virtual const TensorSpec& input() const noexcept = 0;                 // all dimensions known
  [[nodiscard]] virtual const std::vector<TensorSpec>& outputs() const noexcept = 0;  // all dimensions known
  // [setup] [blocks] Allocates for one frame in flight and warms it up. Throws Error(kModel | kDevice).
  [[nodiscard]] virtual std::unique_ptr<Execution> make_execution() = 0;
};

enum class EngineKind : std::uint8_t { kAuto, kOpenCv, kCuda, kCpu };

struct EngineOptions {
  EngineKind kind = EngineKind::kAuto;
  // Tensors of the graph that become its outputs, in this order; what only the model's own outputs need is left out.
  // Empty: the model's own outputs.
  std::vector<std::string> cut_at;
  InputOptions input;
  int threads = 0;                         // host engines: CPU threads for the network, 0 = all cores
  DataType compute_type = DataType::kF16;  // cuda: of activations and weights; kF32 is for comparison
  DataType output_type = DataType::kF32;   // cuda: of the outputs; kF16 halves what crosses the bus
};

// [setup] [blocks] Reads the model, chooses an engine (kAuto: the device's best that can run the model) and prepares
// it. Throws Error(kModel) in one line: file, cause, the operator and node that no engine of this device can run.
[[nodiscard]] std::unique_ptr<Engine> make_engine(const std::string& model_path, const EngineOptions& options,
                                                  device::Device& device);

}  // namespace camd::infer
