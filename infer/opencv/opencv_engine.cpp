// Loading, running and asking OpenCV's DNN, and its errors in words of our own.
#include "infer/opencv/opencv_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/dnn.hpp>

#include "base/error.hpp"
#include "infer/frame_memory.hpp"
#include "infer/host_execution.hpp"
#include "infer/onnx/input.hpp"

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;

// OpenCV prints its importer's troubles to stderr before it throws them; our one line says it all.
class QuietOpenCv {
 public:
  QuietOpenCv() : before_(cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT)) {}
  ~QuietOpenCv() { cv::utils::logging::setLogLevel(before_); }
  QuietOpenCv(const QuietOpenCv&) = delete;
  QuietOpenCv& operator=(const QuietOpenCv&) = delete;

 private:
  cv::utils::logging::LogLevel before_;
};

// The importer says "Node [Op@domain]:(onnx_node!name) parse error: ..."; the node's own text is found by that name.
std::string failing_node(const OnnxFile& file, const std::string& message) {
  const std::size_t open = message.find(":(onnx_node");
  const std::size_t mark = open == std::string::npos ? open : message.find('!', open);
  const std::size_t close = mark == std::string::npos ? mark : message.find(')', mark);
  if (close == std::string::npos) return {};
  const std::string name = message.substr(mark + 1, close - mark - 1);
  for (const auto& node : file.proto.graph().node()) {
    if (node.name() == name || (node.name().empty() && node.output_size() > 0 && node.output(0) == name)) {
      return node_text(node);
    }
  }
  return {};
}

// Takes `text` out of `from` between `begin` and the next `end`, both included; as often as it is there.
void cut_out(std::string& from, std::string_view begin, std::string_view end) {
  for (std::size_t at = from.find(begin); at != std::string::npos; at = from.find(begin, at)) {
    const std::size_t close = from.find(end, at + begin.size());
    from.erase(at, close == std::string::npos ? std::string::npos : close + end.size() - at);
  }
}

std::string trimmed(const std::string& text) {
  constexpr std::string_view kIdle = " >:.";
  const std::size_t first = text.find_first_not_of(kIdle);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kIdle) + 1 - first);
}

std::string opencv_reason(const cv::Exception& error) {
  return plain_opencv_reason(
      error.code == cv::Error::StsAssert ? fmt::format("error: (-215:Assertion failed) {}", error.err) : error.err);
}

class OpenCvEngine;

class OpenCvExecution final : public HostExecution {
 public:
  OpenCvExecution(const OpenCvEngine& engine, device::Device& device, cv::dnn::Net net);

 private:
  void run_network() override;

  const OpenCvEngine& engine_;
  cv::dnn::Net net_;
  cv::Mat blob_;  // a view of the input's memory
  std::vector<cv::Mat> results_;
  std::vector<cv::String> names_;
};

class OpenCvEngine final : public Engine {
 public:
  OpenCvEngine(OnnxFile file, const EngineOptions& options, device::Device& device)
      : device_(device), model_(describe_model(file)), options_(options.input) {
    cv::setNumThreads(options.threads > 0 ? options.threads : -1);
    input_ = resolve_input(model_, options_);
    const TensorSpec& declared = model_.inputs[0];
    if (declared.type != DataType::kF32 || takes_pixels_last(declared.shape)) {
      throw Error(
          ErrorKind::kModel,
          fmt::format("{}: engine opencv cannot feed its input '{}' of {} {}, only f32 [1,3,height,width]", model_.path,
                      printable(declared.name), to_string(declared.type), to_string(declared.shape)));
    }
    fix_input_shape(file, input_);
    std::string text;
    file.proto.SerializeToString(&text);
    bytes_.assign(text.begin(), text.end());
    for (const TensorSpec& output : model_.outputs) names_.push_back(output.name);
    spare_ = load(file);
    check_memory();
    learn_outputs();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "opencv"; }
  [[nodiscard]] const ModelDescription& model() const noexcept override { return model_; }
  [[nodiscard]] const InputOptions& input_options() const noexcept override { return options_; }
  [[nodiscard]] const TensorSpec& input() const noexcept override { return input_; }
  [[nodiscard]] const std::vector<TensorSpec>& outputs() const noexcept override { return outputs_; }
  [[nodiscard]] const std::vector<cv::String>& names() const noexcept { return names_; }

  [[nodiscard]] std::unique_ptr<Execution> make_execution() override {
    cv::dnn::Net net;
    std::swap(net, spare_);
    try {
      if (net.empty()) {
        net = cv::dnn::readNetFromONNX(bytes_);
        forward_zeros(net);
      }
    } catch (const cv::Exception& error) {
      throw Error(ErrorKind::kModel,
                  fmt::format("{}: engine opencv cannot run this model: {}", model_.path, opencv_reason(error)));
    }
    return std::make_unique<OpenCvExecution>(*this, device_, std::move(net));
  }

 private:
  [[nodiscard]] cv::dnn::Net load(const OnnxFile& file) const {
    const QuietOpenCv quiet;
    try {
      cv::dnn::Net net = cv::dnn::readNetFromONNX(bytes_);
      if (net.empty()) throw Error(ErrorKind::kModel, fmt::format("{}: OpenCV finds no network", model_.path));
      net.setPreferableBackend(cv::dnn::DNN_BACKEND_OPENCV);
      net.setPreferableTarget(cv::dnn::DNN_TARGET_CPU);
      return net;
    } catch (const cv::Exception& error) {
      const std::string node = failing_node(file, error.what());
      throw Error(ErrorKind::kModel, node.empty() ? fmt::format("{}: engine opencv cannot run this model: {}",
                                                                model_.path, opencv_reason(error))
                                                  : fmt::format("{}: engine opencv cannot run operator {}: {}",
                                                                model_.path, node, opencv_reason(error)));
    }
  }

  // Of tensors of floats. OpenCV's own sum of a tensor's elements is an int, which a model can make run over.
  static std::uint64_t bytes_of(const std::vector<cv::dnn::MatShape>& shapes) {
    constexpr double kMost = 1e15;  // a petabyte is as good as more
    double bytes = 0;
    for (const cv::dnn::MatShape& shape : shapes) {
      double elements = 1;
      for (const int extent : shape) elements *= extent;
      bytes += sizeof(float) * elements;
    }
    return static_cast<std::uint64_t>(std::clamp(bytes, 0.0, kMost));
  }

  // Before anything is allocated for frames. OpenCV reuses memory between layers in its own way: what the largest one
  // makes is needed for certain, beside the input and the outputs that somebody holds.
  void check_memory() {
    const QuietOpenCv quiet;
    const cv::dnn::MatShape shape(input_.shape.begin(), input_.shape.end());
    std::vector<int> layers;
    std::vector<std::vector<cv::dnn::MatShape>> taken, made;
    try {
      spare_.getLayersShapes(shape, layers, taken, made);
    } catch (const cv::Exception&) {
      return;  // a run says why in better words
    }
    const std::vector<int> last = spare_.getUnconnectedOutLayers();
    std::uint64_t outputs = 0, between = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const bool is_output = std::find(last.begin(), last.end(), layers[i]) != last.end();
      const std::uint64_t bytes = bytes_of(made[i]);
      if (is_output) outputs += bytes;
      if (!is_output) between = std::max(between, bytes);
    }
    check_frame_memory(model_.path, input_.size_bytes() + outputs, between);
  }

  std::vector<cv::Mat> forward_zeros(cv::dnn::Net& net) const {
    const int sizes[4] = {1, 3, static_cast<int>(input_.shape[2]), static_cast<int>(input_.shape[3])};
    net.setInput(cv::Mat(4, sizes, CV_32F, cv::Scalar(0)));
    std::vector<cv::Mat> results;
    net.forward(results, names_);
    return results;
  }

  // Declared shapes are not trusted: what a real run gives is what the outputs are.
  void learn_outputs() {
    const QuietOpenCv quiet;
    std::vector<cv::Mat> results;
    try {
      results = forward_zeros(spare_);
    } catch (const cv::Exception& error) {
      throw Error(ErrorKind::kModel, fmt::format("{}: engine opencv cannot run this model with input {}: {}",
                                                 model_.path, to_string(input_.shape), opencv_reason(error)));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].depth() != CV_32F || !results[i].isContinuous()) {
        throw Error(ErrorKind::kModel, fmt::format("{}: engine opencv gives output '{}' in a form camd cannot read",
                                                   model_.path, printable(names_[i])));
      }
      TensorSpec spec;
      spec.name = names_[i];
      for (int d = 0; d < results[i].dims; ++d) spec.shape.push_back(results[i].size[d]);
      outputs_.push_back(std::move(spec));
    }
  }

  device::Device& device_;
  ModelDescription model_;
  InputOptions options_;
  TensorSpec input_;
  std::vector<TensorSpec> outputs_;
  std::vector<cv::String> names_;
  std::vector<uchar> bytes_;  // the model with its input's shape fixed
  cv::dnn::Net spare_;        // warmed up, for the first execution
};

OpenCvExecution::OpenCvExecution(const OpenCvEngine& engine, device::Device& device, cv::dnn::Net net)
    : HostExecution(engine, device), engine_(engine), net_(std::move(net)), names_(engine.names()) {
  const Shape& shape = engine.input().shape;
  const int sizes[4] = {1, 3, static_cast<int>(shape[2]), static_cast<int>(shape[3])};
  blob_ = cv::Mat(4, sizes, CV_32F, input_data());
}

void OpenCvExecution::run_network() {
  try {
    net_.setInput(blob_);
    net_.forward(results_, names_);
  } catch (const cv::Exception& error) {
    throw Error(ErrorKind::kModel, opencv_reason(error));
  }
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const std::size_t size = engine_.outputs()[i].size_bytes();
    if (results_[i].total() * results_[i].elemSize() != size || !results_[i].isContinuous()) {
      throw Error(ErrorKind::kModel, fmt::format("output '{}' changed its shape", printable(names_[i])));
    }
    std::memcpy(output_data(i), results_[i].data, size);
  }
}

}  // namespace

// "... parse error: OpenCV(4.6.0) FILE:LINE: error: (-215:Assertion failed) a == b in function 'f' > more": the last of
// nested errors is the cause.
std::string plain_opencv_reason(std::string_view said) {
  std::string text = base::one_line(said);
  constexpr std::string_view kParse = "parse error: ", kError = "error: (-", kAssert = "215:Assertion failed";
  if (const std::size_t parse = text.rfind(kParse); parse != std::string::npos) text.erase(0, parse + kParse.size());
  std::string label;
  if (const std::size_t code = text.rfind(kError); code != std::string::npos) {
    text.erase(0, code + kError.size());
    const std::size_t close = text.find(')');
    label = text.substr(0, close);
    text.erase(0, close == std::string::npos ? close : close + 1);
  }
  cut_out(text, "in function '", "'");
  cut_out(text, "OpenCV(", ")");
  std::string reason;
  for (std::size_t at = 0; at < text.size();) {  // word by word, without places in OpenCV's sources
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool place = word.find(".cpp:") != std::string::npos || word.find(".hpp:") != std::string::npos;
    if (!word.empty() && !place) reason += (reason.empty() ? "" : " ") + word;
    at = end + 1;
  }
  reason = trimmed(reason);
  if (label == kAssert) return reason.empty() ? "an assertion of OpenCV's failed" : "OpenCV needs " + reason;
  if (!reason.empty()) return "OpenCV says: " + reason;
  const std::size_t colon = label.find(':');
  return colon == std::string::npos ? "OpenCV says no more" : "OpenCV says: " + label.substr(colon + 1);
}

std::unique_ptr<Engine> make_opencv_engine(OnnxFile file, const EngineOptions& options, device::Device& device) {
  return std::make_unique<OpenCvEngine>(std::move(file), options, device);
}

}  // namespace camd::infer
