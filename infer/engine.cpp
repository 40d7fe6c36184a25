#include "infer/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "infer/cpu/cpu_engine.hpp"
#include "infer/frame_memory.hpp"
#include "infer/graph/batch.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/graph/read_tensor.hpp"
#include "infer/graph/tail.hpp"
#include "infer/onnx/input.hpp"
#include "infer/opencv/opencv_engine.hpp"
#include "infer/tail/tail_engine.hpp"
#if defined(CAMD_HAVE_CUDA)
#include "infer/cuda/cuda_engine.hpp"
#endif

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;

std::optional<SplitModel> split_of(const OnnxFile& file, const EngineOptions& options) {
  InputOptions input = options.input;
  return split_model(file, resolve_input(describe_model(file), input));
}

// Engine cpu, with a tail behind it where the model has one.
std::unique_ptr<Engine> make_own_host_engine(const OnnxFile& file, const EngineOptions& options,
                                             device::Device& device) {
  try {
    return make_cpu_engine(file, options, device);
  } catch (const ModelTooLarge&) {
    throw;
  } catch (const Error&) {
    auto split = split_of(file, options);
    if (!split) throw;
    return make_tail_engine(
        file, std::move(*split), device, [&](const OnnxFile& head) { return make_cpu_engine(head, options, device); },
        cpu::multiply);
  }
}

// The engine of CUDA devices: camd's own.
std::unique_ptr<Engine> make_gpu_engine(const std::string& model_path, const EngineOptions& options,
                                        device::Device& device) {
#if defined(CAMD_HAVE_CUDA)
  OnnxFile file = read_onnx_file(model_path, options.cut_at);
  take_camera_pictures(file, options.input);
  const auto on_gpu = [&](const OnnxFile& part, DataType output_type) -> std::unique_ptr<Engine> {
    ModelDescription model = describe_model(part);
    EngineOptions resolved = options;
    resolved.output_type = output_type;
    const TensorSpec input = resolve_input(model, resolved.input);
    const Graph graph = lower_model(part, input);
    return make_cuda_engine(graph, std::move(model), input, resolved, device);
  };
  try {
    return on_gpu(file, options.output_type);
  } catch (const ModelTooLarge&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    if (auto split = split_of(file, options)) {
      return make_tail_engine(
          file, std::move(*split), device, [&](const OnnxFile& head) { return on_gpu(head, DataType::kF32); },
          cpu::multiply);
    }
    throw Error(error.kind(), fmt::format("{}; with device: host engine opencv may run it", error.what()));
  }
#else
  (void)options;
  (void)device;
  throw Error(ErrorKind::kModel, fmt::format("{}: this build of camd has no CUDA engine", model_path));
#endif
}

// The CPU engine is the faster one; OpenCV's DNN knows some operators that it does not.
std::unique_ptr<Engine> make_host_engine(OnnxFile file, const EngineOptions& options, device::Device& device) {
  if (options.kind == EngineKind::kOpenCv) return make_opencv_engine(std::move(file), options, device);
  if (options.kind == EngineKind::kCpu) return make_own_host_engine(file, options, device);
  InputOptions input = options.input;
  (void)resolve_input(describe_model(file), input);  // an input that does not fit is no engine's fault
  std::string why;
  try {
    return make_own_host_engine(file, options, device);
  } catch (const ModelTooLarge&) {
    throw;
  } catch (const WeightsMissing&) {
    throw;
  } catch (const Error& error) {
    why = error.what();
  }
  try {
    auto engine = make_opencv_engine(std::move(file), options, device);
    base::log().info("{}; running it with engine opencv, which is slower", why);
    return engine;
  } catch (const Error& error) {
    throw Error(ErrorKind::kModel, fmt::format("{}; and {}", why, error.what()));
  }
}

}  // namespace

PictureTransform picture_transform(int source_width, int source_height, int network_width, int network_height,
                                   ResizeMode mode) noexcept {
  PictureTransform transform;
  const auto source_w = static_cast<double>(source_width);
  const auto source_h = static_cast<double>(source_height);
  if (mode == ResizeMode::kStretch) {
    transform.scale_x = static_cast<float>(network_width / source_w);
    transform.scale_y = static_cast<float>(network_height / source_h);
    return transform;
  }
  const double ratio = std::min(network_width / source_w, network_height / source_h);
  // The picture covers whole network pixels, so that its edges are sharp and the scale is known exactly.
  const auto shown = [ratio](double source, int network) {
    return std::clamp(static_cast<int>(std::lround(source * ratio)), 1, network);
  };
  const int width = shown(source_w, network_width);
  const int height = shown(source_h, network_height);
  transform.scale_x = static_cast<float>(width / source_w);
  transform.scale_y = static_cast<float>(height / source_h);
  if (mode == ResizeMode::kLetterbox) {
    const int margin_x = (network_width - width) / 2;
    const int margin_y = (network_height - height) / 2;
    transform.offset_x = static_cast<float>(margin_x);
    transform.offset_y = static_cast<float>(margin_y);
  }
  return transform;
}

std::unique_ptr<Engine> make_engine(const std::string& model_path, const EngineOptions& options,
                                    device::Device& device) {
  const bool on_host = device.info().works_in_host_memory;
  const bool of_host = options.kind == EngineKind::kOpenCv || options.kind == EngineKind::kCpu;
  if (of_host && !on_host) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: engine {} runs on device host, not on {}", model_path,
                            options.kind == EngineKind::kCpu ? "cpu" : "opencv", device.info().name));
  }
  if (options.kind == EngineKind::kCuda && on_host) {
    throw Error(ErrorKind::kModel, fmt::format("{}: engine cuda needs a CUDA device, this one is host", model_path));
  }
  if (!on_host) return make_gpu_engine(model_path, options, device);
  OnnxFile file = read_onnx_file(model_path, options.cut_at);
  take_camera_pictures(file, options.input);
  return make_host_engine(std::move(file), options, device);
}

}  // namespace camd::infer
