#include "infer/engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "infer/cpu_engine.hpp"
#include "infer/engine_setup.hpp"
#include "infer/graph.hpp"
#include "infer/opencv_engine.hpp"
#if defined(CAMD_HAVE_CUDA)
#include "infer/cuda/cuda_engine.hpp"
#endif

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;

constexpr std::int64_t kMaxInputSide = 16384;

// The engine of CUDA devices: camd's own.
std::unique_ptr<Engine> make_gpu_engine(const std::string& model_path, const EngineOptions& options,
                                        device::Device& device) {
#if defined(CAMD_HAVE_CUDA)
  const OnnxFile file = read_onnx_file(model_path, options.cut_at);
  ModelDescription model = describe_onnx(file);
  EngineOptions resolved = options;
  const TensorSpec input = resolve_input(model, resolved.input);
  Graph graph;
  try {
    graph = lower_model(file, input);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}; with device: host engine opencv may run it", error.what()));
  }
  return make_cuda_engine(graph, std::move(model), input, resolved, device);
#else
  (void)options;
  (void)device;
  throw Error(ErrorKind::kModel, fmt::format("{}: this build of camd has no CUDA engine", model_path));
#endif
}

// One side of the input: what the model fixes and what the configuration asks for must agree.
std::int64_t resolve_side(const ModelDescription& model, std::int64_t fixed, int asked, std::string_view name) {
  if (fixed > 0 && asked > 0 && fixed != asked) {
    throw Error(ErrorKind::kModel, fmt::format("{}: model.input.{} is {}, but the model's input '{}' is {}: its {} is "
                                               "fixed at {}",
                                               model.path, name, asked, printable(model.inputs[0].name),
                                               to_string(model.inputs[0].shape), name, fixed));
  }
  const std::int64_t side = fixed > 0 ? fixed : asked;
  if (side <= 0) {
    throw Error(ErrorKind::kModel, fmt::format("{}: the model leaves its input's {} open ({}): set model.input.{}",
                                               model.path, name, to_string(model.inputs[0].shape), name));
  }
  if (side > kMaxInputSide) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: an input {} of {} is more than {}", model.path, name, side, kMaxInputSide));
  }
  return side;
}

// The CPU engine is the faster one; OpenCV's DNN knows some operators that it does not.
std::unique_ptr<Engine> make_host_engine(OnnxFile file, const EngineOptions& options, device::Device& device) {
  if (options.kind == EngineKind::kOpenCv) return make_opencv_engine(std::move(file), options, device);
  if (options.kind == EngineKind::kCpu) return make_cpu_engine(file, options, device);
  InputOptions input = options.input;
  (void)resolve_input(describe_onnx(file), input);  // an input that does not fit is no engine's fault
  std::string why;
  try {
    return make_cpu_engine(file, options, device);
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

bool takes_pixels_last(const Shape& declared) noexcept {
  return declared.size() == 4 && declared[3] == 3 && declared[1] != 3;
}

TensorSpec resolve_input(const ModelDescription& model, InputOptions& options) {
  if (model.inputs.size() != 1) {
    std::string names;
    for (const TensorSpec& input : model.inputs) names += (names.empty() ? "'" : ", '") + printable(input.name) + "'";
    throw Error(ErrorKind::kModel, fmt::format("{}: the model has {} inputs ({}), camd feeds exactly one picture",
                                               model.path, model.inputs.size(), names));
  }
  const TensorSpec& declared = model.inputs[0];
  const auto does_not_fit = [&](std::string_view why) {
    return Error(ErrorKind::kModel, fmt::format("{}: input '{}' is {} {}: {}", model.path, printable(declared.name),
                                                to_string(declared.type), to_string(declared.shape), why));
  };
  // Engines compute in types of their own, so these differ in their range only.
  if (declared.type != DataType::kF32 && declared.type != DataType::kF16 && declared.type != DataType::kU8) {
    throw does_not_fit("camd feeds f32, f16 or u8");
  }
  constexpr std::string_view kForms = "[1,3,height,width] or [1,height,width,3]";
  if (declared.shape.size() != 4) throw does_not_fit(fmt::format("camd feeds pictures as {}", kForms));
  if (declared.shape[0] > 1) throw does_not_fit("camd runs one picture at a time, so the batch must be 1");
  const bool last = takes_pixels_last(declared.shape);
  if (!last && declared.shape[1] > 0 && declared.shape[1] != 3) {
    throw does_not_fit(fmt::format("camd feeds three channels, as {}", kForms));
  }
  const bool bytes = std::all_of(options.scale.begin(), options.scale.end(), [](float s) { return s == 1.0F; }) &&
                     std::all_of(options.mean.begin(), options.mean.end(), [](float m) { return m == 0.0F; });
  if (declared.type == DataType::kU8 && !bytes) {
    throw does_not_fit("it takes pixels of 0 to 255: set model.input.scale to 1 and leave mean at 0");
  }
  TensorSpec input = declared;
  input.type = DataType::kF32;
  input.shape = {1, 3, resolve_side(model, declared.shape[last ? 1 : 2], options.height, "height"),
                 resolve_side(model, declared.shape[last ? 2 : 3], options.width, "width")};
  if (element_count(input.shape) > kMaxValueElements) {
    throw Error(ErrorKind::kModel, fmt::format("{}: an input of {} has more than {} elements", model.path,
                                               to_string(input.shape), kMaxValueElements));
  }
  options.height = static_cast<int>(input.shape[2]);
  options.width = static_cast<int>(input.shape[3]);
  return input;
}

void fix_input_shape(OnnxFile& file, const TensorSpec& input) {
  for (auto& value : *file.proto.mutable_graph()->mutable_input()) {
    if (value.name() != input.name) continue;
    auto* shape = value.mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    for (const std::int64_t dimension : input.shape) shape->add_dim()->set_dim_value(dimension);
  }
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c <= ' ' || c == '\x7f';
    if (!blank)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  constexpr std::size_t kLongest = 400;
  if (line.size() > kLongest) line = line.substr(0, kLongest) + "...";
  return line;
}

std::unique_ptr<Engine> make_engine(const std::string& model_path, const EngineOptions& options,
                                    device::Device& device) {
  const bool on_host = device.info().kind == device::DeviceKind::kHost;
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
  return make_host_engine(read_onnx_file(model_path, options.cut_at), options, device);
}

}  // namespace camd::infer
