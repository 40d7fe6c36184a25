// Families of LibreYOLO (1.6, libreyolo/validation/preprocessors.py and the families' utils.py), YOLOs of Ultralytics,
// and networks of PaddleDetection (configs/*/_base_/*_reader.yml).
#include "pipeline/run/fed_as.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace camd::pipeline {
namespace {

constexpr std::string_view kPlain = "color: rgb, scale: 0.00392157";
constexpr std::string_view kStretched = "color: rgb, scale: 0.00392157, resize: stretch";
constexpr std::string_view kPlainTopLeft = "color: rgb, scale: 0.00392157, position: top_left";
constexpr std::string_view kBytesTopLeft = "color: bgr, scale: 1, position: top_left";
constexpr std::string_view kDarknet = "color: rgb, scale: 0.00392157, position: top_left, pad: 128";
constexpr std::string_view kImagenetStretched =
    "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch";
constexpr std::string_view kImagenetTopLeft =
    "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], position: top_left";
constexpr std::string_view kRtmdet =
    "color: bgr, mean: [103.53, 116.28, 123.675], scale: [0.0174292, 0.0175070, 0.0171248], position: top_left";
constexpr std::string_view kCenternet =
    "color: bgr, mean: [104.04, 113.985, 119.85], scale: [0.0135696, 0.0143123, 0.0141064]";
constexpr std::string_view kSsd = "color: rgb, mean: [123, 117, 104], scale: 1, resize: stretch";
constexpr std::string_view kFomo = "color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.00784314, resize: stretch";

const std::map<std::string_view, std::string_view>& families() {
  static const std::map<std::string_view, std::string_view> kFamilies = {
      {"centernet", kCenternet},
      {"deformable_detr", kImagenetStretched},
      {"deim", kStretched},
      {"detr", kImagenetStretched},
      {"deimv2", kStretched},
      {"dfine", kStretched},
      {"dinodetr", kImagenetStretched},
      {"domedetr", kStretched},
      {"ec", kImagenetStretched},
      {"efficientdet", kImagenetTopLeft},
      {"fcos", kImagenetTopLeft},
      {"fomo", kFomo},
      {"gtr", kImagenetStretched},
      {"lwdetr", kImagenetStretched},
      {"picodet", kImagenetStretched},
      {"ppyoloe", kImagenetStretched},
      {"retinanet", kImagenetTopLeft},
      {"rfdetr", kImagenetStretched},
      {"rtdetr", kStretched},
      {"rtdetrv2", kStretched},
      {"rtdetrv4", kStretched},
      {"rtmdet", kRtmdet},
      {"ssd", kSsd},
      {"tinyformer", kImagenetStretched},
      {"yolo1", kStretched},
      {"yolo2", kDarknet},
      {"yolo3", kDarknet},
      {"yolo4", kDarknet},
      {"yolo7", kPlainTopLeft},
      {"yolo9", kPlain},
      {"yolo9_e2e", kPlain},
      {"yolo9_p2", kPlain},
      {"yolonas", kPlain},
      {"yolox", kBytesTopLeft},
  };
  return kFamilies;
}

bool takes(const std::vector<infer::TensorSpec>& inputs, std::string_view name) {
  return std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.name == name; });
}

std::string stretched(const std::string& keys) {
  return keys.find("resize") == std::string::npos ? keys + ", resize: stretch" : keys;
}

}  // namespace

std::string fed_as(const std::map<std::string, std::string>& metadata) {
  const auto description = metadata.find("description");
  if (description != metadata.end() && description->second.starts_with("Ultralytics YOLO")) return std::string(kPlain);
  if (description != metadata.end() && description->second.starts_with("Ultralytics RTDETR"))
    return std::string(kStretched);
  const auto family = metadata.find("model_family");
  if (family == metadata.end()) return {};
  const auto known = families().find(family->second);
  if (known == families().end()) return {};
  // The larger DEIMv2s have DINOv3 as their backbone, which takes pictures scaled as ImageNet's.
  const auto size = metadata.find("model_size");
  if (family->second == "deimv2" && size != metadata.end()) {
    constexpr std::array<std::string_view, 4> kWithDinov3 = {"s", "m", "l", "x"};
    if (std::find(kWithDinov3.begin(), kWithDinov3.end(), size->second) != kWithDinov3.end())
      return std::string(kImagenetStretched);
  }
  std::string keys(known->second);
  const auto pad = metadata.find("letterbox_pad");
  if (pad != metadata.end() && pad->second == "topleft" && known->second == kPlain) keys += ", position: top_left";
  return keys;
}

std::string fed_beside(const std::vector<infer::TensorSpec>& size_inputs, const std::string& usual) {
  if (takes(size_inputs, "pixel_mask")) return std::string(kImagenetStretched);
  return takes(size_inputs, "orig_target_sizes") ? stretched(usual) : usual;
}

std::string fed_by_format(const std::map<std::string, std::string>& metadata, const std::string& usual) {
  const auto value = [&](const char* key) {
    const auto found = metadata.find(key);
    std::string text = found == metadata.end() ? std::string() : found->second;
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  const std::string format = value("Image.BitmapPixelFormat"), range = value("Image.NominalPixelRange");
  const std::string color = format.starts_with("bgr") ? "color: bgr" : format.starts_with("rgb") ? "color: rgb" : "";
  const std::string scale = range == "nominalrange_0_255" ? "scale: 1"
                            : range == "normalized_0_1"   ? "scale: 0.00392157"
                            : range == "normalized_1_1"   ? "mean: [127.5, 127.5, 127.5], scale: 0.00784314"
                                                          : "";
  std::string keys;
  const auto add = [&](const std::string& key) {
    if (!key.empty()) keys += (keys.empty() ? "" : ", ") + key;
  };
  for (std::size_t from = 0; from < usual.size();) {
    // Up to the next key: a list has commas of its own.
    std::size_t to = from;
    for (int depth = 0; to < usual.size() && (depth > 0 || usual[to] != ','); ++to)
      depth += usual[to] == '[' ? 1 : usual[to] == ']' ? -1 : 0;
    const std::string key = usual.substr(from, to - from);
    from = usual.find_first_not_of(", ", to);
    if (key.starts_with("color:")) {
      add(color.empty() ? key : color);
    } else if (key.starts_with("mean:")) {
      add(scale.empty() ? key : "");
    } else {
      add(!scale.empty() && key.starts_with("scale:") ? scale : key);
    }
  }
  return keys;
}

bool is_of_paddle(const std::string& graph, const std::vector<infer::TensorSpec>& size_inputs) {
  return graph.find("PaddlePaddle") != std::string::npos || takes(size_inputs, "scale_factor");
}

std::int64_t cells_up_to(std::int64_t last_stride, const infer::Shape& picture) {
  std::int64_t cells = 0;
  for (std::int64_t stride = 8; stride <= last_stride; stride *= 2)
    cells += ((picture[2] + stride - 1) / stride) * ((picture[3] + stride - 1) / stride);
  return cells;
}

std::string fed_by_paddle(std::int64_t boxes, const infer::Shape& picture, const std::string& usual) {
  return boxes == cells_up_to(64, picture) ? std::string(kImagenetStretched) : stretched(usual);
}

}  // namespace camd::pipeline
