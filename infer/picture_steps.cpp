#include "infer/picture_steps.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "infer/onnx/file.hpp"

namespace camd::infer {
namespace {

// The elements of a tensor of at most so many, as the steps here have them; empty for others.
std::vector<double> numbers_of(const onnx::TensorProto& tensor) {
  constexpr std::int64_t kMost = 4;
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.dims()) count *= std::clamp<std::int64_t>(size, 0, kMost + 1);
  if (count < 1 || count > kMost) return {};
  std::vector<double> numbers;
  const auto raw = [&](auto zero) {
    if (tensor.raw_data().size() != static_cast<std::size_t>(count) * sizeof(zero)) return;
    for (std::int64_t i = 0; i < count; ++i) {
      auto value = zero;
      std::memcpy(&value, tensor.raw_data().data() + static_cast<std::size_t>(i) * sizeof(zero), sizeof(zero));
      numbers.push_back(static_cast<double>(value));
    }
  };
  switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT:
      numbers.assign(tensor.float_data().begin(), tensor.float_data().end());
      if (numbers.empty()) raw(float{});
      break;
    case onnx::TensorProto::DOUBLE:
      numbers.assign(tensor.double_data().begin(), tensor.double_data().end());
      if (numbers.empty()) raw(double{});
      break;
    case onnx::TensorProto::INT64:
      numbers.assign(tensor.int64_data().begin(), tensor.int64_data().end());
      if (numbers.empty()) raw(std::int64_t{});
      break;
    case onnx::TensorProto::INT32:
      numbers.assign(tensor.int32_data().begin(), tensor.int32_data().end());
      if (numbers.empty()) raw(std::int32_t{});
      break;
    default: break;
  }
  if (numbers.size() != static_cast<std::size_t>(count)) numbers.clear();
  return numbers;
}

class Walk {
 public:
  explicit Walk(const onnx::GraphProto& graph) {
    for (const auto& weight : graph.initializer()) constants_[weight.name()] = numbers_of(weight);
    for (const auto& node : graph.node()) {
      if (node.op_type() == "Constant" && node.output_size() == 1) {
        constants_[node.output(0)] = value_of(node);
        continue;
      }
      // Who asks for the size alone reads no pixel.
      if (node.op_type() == "Shape") continue;
      for (const std::string& input : node.input()) readers_[input].push_back(&node);
      for (const std::string& output : node.output()) makers_[output] = &node;
    }
  }

  PictureSteps follow(const std::string& input, bool bytes) {
    std::string at = input;
    // A node reads only what was made before it, so that this ends.
    for (const onnx::NodeProto* node = only_reader(at); node != nullptr && take(*node, at); node = only_reader(at)) {
      at = node->output(0);
    }
    PictureSteps steps;
    steps.scaled = factor_ != 1.0 || offset_ != 0.0;
    steps.reversed = reversed_;
    steps.red_first = red_first_;
    steps.height = height_;
    steps.width = width_;
    // A mean tells the range that it lies in; without one the factor does, which brings bytes down.
    constexpr double kLeastOfBytes = 2.0, kMostForBytes = 0.1;
    const double mean = -offset_ / factor_;
    steps.of_bytes = steps.scaled && (bytes || (offset_ != 0.0 ? mean > kLeastOfBytes : factor_ < kMostForBytes));
    return steps;
  }

 private:
  static std::vector<double> value_of(const onnx::NodeProto& node) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == "value") return numbers_of(attribute.t());
      if (attribute.name() == "value_float") return {static_cast<double>(attribute.f())};
      if (attribute.name() == "value_int") return {static_cast<double>(attribute.i())};
      if (attribute.name() == "value_ints" && attribute.ints_size() <= 4)
        return {attribute.ints().begin(), attribute.ints().end()};
    }
    return {};
  }

  [[nodiscard]] const onnx::NodeProto* only_reader(const std::string& value) const {
    const auto found = readers_.find(value);
    return found == readers_.end() || found->second.size() != 1 ? nullptr : found->second.front();
  }

  // Empty where it is not constant, or has more elements than a pixel.
  [[nodiscard]] std::vector<double> constant(const onnx::NodeProto& node, int input) const {
    if (input >= node.input_size()) return {};
    const auto found = constants_.find(node.input(input));
    return found == constants_.end() ? std::vector<double>() : found->second;
  }

  // False: the first layer, or what is not known here.
  bool take(const onnx::NodeProto& node, const std::string& at) {
    if (node.output_size() != 1 || node.input_size() < 1) return false;
    const std::string& type = node.op_type();
    if (type == "Cast" || type == "Identity" || type == "Transpose") return true;
    if (type == "Unsqueeze" && node.input(0) == at) return true;
    if (type == "Resize" && node.input(0) == at) return resize(node);
    if (type == "Gather" && node.input_size() == 2 && node.input(0) == at) return reverse(constant(node, 1));
    if (type == "Slice" && node.input(0) == at) return slice(node);
    if (node.input_size() != 2) return false;
    const bool first = node.input(0) == at;
    const std::vector<double> by = constant(node, first ? 1 : 0);
    if (by.empty()) return false;
    if (type == "Add" || (type == "Sub" && first)) look_at_mean(by);
    double sum = 0.0;
    for (const double value : by) sum += value;
    const double mean = sum / static_cast<double>(by.size());
    return calculate(type, mean, first);
  }

  // Means of ImageNet differ in their rounding and in what they are scaled by; red's is some 1.2 of blue's in all.
  void look_at_mean(const std::vector<double>& mean) {
    constexpr double kLeast = 1.1, kMost = 1.35;
    if (mean.size() != 3 || mean[0] == 0.0 || mean[2] == 0.0 || red_first_) return;
    const auto is_red = [&](double one, double other) { return one / other > kLeast && one / other < kMost; };
    const bool first = is_red(mean[0], mean[2]);
    if (first || is_red(mean[2], mean[0])) red_first_ = first != reversed_;
  }

  // One number stands for those of all channels, which are alike.
  bool calculate(const std::string& type, double by, bool first) {
    if (type == "Add") {
      offset_ += by;
      return true;
    }
    if (type == "Sub" && first) {
      offset_ -= by;
      return true;
    }
    const double factor = type == "Mul" ? by : type == "Div" && first && by != 0.0 ? 1.0 / by : 0.0;
    if (factor <= 0.0) return false;
    factor_ *= factor;
    offset_ *= factor;
    return true;
  }

  // To a constant size, which stands last or in front of the channels. PyTorch writes it behind what the picture has in
  // front of it: Concat(Slice(Shape(x)), [h, w]).
  bool resize(const onnx::NodeProto& node) {
    constexpr int kSizes = 3;  // of Resize's inputs
    if (height_ > 0 || node.input_size() <= kSizes) return false;
    const auto maker = makers_.find(node.input(kSizes));
    std::vector<double> sizes = constant(node, kSizes);
    if (maker != makers_.end() && maker->second->op_type() == "Concat" && maker->second->input_size() == 2)
      sizes = constant(*maker->second, 1);
    if (sizes.size() < 2) return false;
    const std::size_t first = sizes.size() == 4 && sizes.back() == 3.0 ? 1 : sizes.size() - 2;
    constexpr double kMostPixels = 65536.0;
    const auto is_side = [](double side) { return side >= 1.0 && side <= kMostPixels; };
    if (!is_side(sizes[first]) || !is_side(sizes[first + 1])) return false;
    height_ = static_cast<int>(sizes[first]);
    width_ = static_cast<int>(sizes[first + 1]);
    return true;
  }

  bool reverse(const std::vector<double>& order) {
    if (order != std::vector<double>{2.0, 1.0, 0.0}) return false;
    reversed_ = !reversed_;
    return true;
  }

  // x[:, [2, 1, 0]] as PyTorch writes x.flip(1), and x[..., ::-1]: from the last one back.
  bool slice(const onnx::NodeProto& node) {
    const std::vector<double> from = constant(node, 1), step = constant(node, 4);
    if (step != std::vector<double>{-1.0} || from.size() != 1 || (from[0] != -1.0 && from[0] < 2.0)) return false;
    reversed_ = !reversed_;
    return true;
  }

  std::map<std::string, std::vector<double>> constants_;
  std::map<std::string, std::vector<const onnx::NodeProto*>> readers_;
  std::map<std::string, const onnx::NodeProto*> makers_;
  double factor_ = 1.0, offset_ = 0.0;
  bool reversed_ = false;
  std::optional<bool> red_first_;
  int height_ = 0, width_ = 0;
};

}  // namespace

PictureSteps picture_steps(const OnnxFile& file) {
  const onnx::GraphProto& graph = file.proto.graph();
  Walk walk(graph);
  // IR < 4 lists weights as inputs: the picture is the first that is none.
  for (const auto& input : graph.input()) {
    const bool weight = std::any_of(graph.initializer().begin(), graph.initializer().end(),
                                    [&](const auto& initializer) { return initializer.name() == input.name(); });
    if (weight) continue;
    using T = onnx::TensorProto;
    const int type = input.type().tensor_type().elem_type();
    const bool numbers = type == T::FLOAT || type == T::FLOAT16 || type == T::BFLOAT16 || type == T::DOUBLE;
    return walk.follow(input.name(), !numbers);
  }
  return {};
}

}  // namespace camd::infer
