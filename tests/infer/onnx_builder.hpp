// Small ONNX models for tests, made of protobuf messages.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "infer/onnx/file.hpp"

namespace camd::infer::test {

class OnnxBuilder {
 public:
  OnnxBuilder() {
    model_.set_ir_version(8);
    model_.set_producer_name("test");
    opset(13);
  }
  OnnxBuilder& opset(int version) {
    model_.clear_opset_import();
    auto* set = model_.add_opset_import();
    set->set_domain("");
    set->set_version(version);
    return *this;
  }
  OnnxBuilder& input(const std::string& name, const Shape& shape, int type = onnx::TensorProto::FLOAT) {
    value(model_.mutable_graph()->add_input(), name, shape, type);
    return *this;
  }
  OnnxBuilder& output(const std::string& name, const Shape& shape, int type = onnx::TensorProto::FLOAT) {
    value(model_.mutable_graph()->add_output(), name, shape, type);
    return *this;
  }
  OnnxBuilder& weight(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    auto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (const auto d : shape) tensor->add_dims(d);
    for (const float v : values) tensor->add_float_data(v);
    return *this;
  }
  OnnxBuilder& integers(const std::string& name, const Shape& shape, const std::vector<std::int64_t>& values,
                        int type = onnx::TensorProto::INT64) {
    auto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (const auto d : shape) tensor->add_dims(d);
    for (const auto v : values) {
      if (type == onnx::TensorProto::INT64)
        tensor->add_int64_data(v);
      else
        tensor->add_int32_data(static_cast<std::int32_t>(v));
    }
    return *this;
  }
  OnnxBuilder& node(const std::string& type, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::string& name = "") {
    node_ = model_.mutable_graph()->add_node();
    node_->set_op_type(type);
    node_->set_name(name);
    for (const auto& n : inputs) node_->add_input(n);
    for (const auto& n : outputs) node_->add_output(n);
    return *this;
  }
  OnnxBuilder& domain(const std::string& domain) {
    node_->set_domain(domain);
    return *this;
  }
  // Attributes of the latest node.
  OnnxBuilder& ints(const std::string& name, const std::vector<std::int64_t>& values) {
    auto* a = attribute(name, onnx::AttributeProto::INTS);
    for (const auto v : values) a->add_ints(v);
    return *this;
  }
  OnnxBuilder& integer(const std::string& name, std::int64_t value) {
    attribute(name, onnx::AttributeProto::INT)->set_i(value);
    return *this;
  }
  OnnxBuilder& number(const std::string& name, float value) {
    attribute(name, onnx::AttributeProto::FLOAT)->set_f(value);
    return *this;
  }
  OnnxBuilder& text(const std::string& name, const std::string& value) {
    attribute(name, onnx::AttributeProto::STRING)->set_s(value);
    return *this;
  }
  [[nodiscard]] onnx::ModelProto& proto() { return model_; }
  [[nodiscard]] std::string bytes() const { return model_.SerializeAsString(); }
  [[nodiscard]] OnnxFile file(const std::string& path = "test.onnx") const { return parse_onnx(bytes(), path); }

 private:
  static void value(onnx::ValueInfoProto* info, const std::string& name, const Shape& shape, int type) {
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    auto* dims = tensor->mutable_shape();
    for (const auto d : shape) {
      auto* dim = dims->add_dim();
      if (d >= 0)
        dim->set_dim_value(d);
      else
        dim->set_dim_param("n");
    }
  }
  onnx::AttributeProto* attribute(const std::string& name, onnx::AttributeProto::AttributeType type) {
    auto* a = node_->add_attribute();
    a->set_name(name);
    a->set_type(type);
    return a;
  }

  onnx::ModelProto model_;
  onnx::NodeProto* node_ = nullptr;
};

// A folder of this test process, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("camd_infer_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string write(const std::string& name, const std::string& bytes) const {
    const auto path = path_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Conv 3x3 (3 -> 2 channels), Relu: the smallest network that looks like one.
inline OnnxBuilder tiny_conv(const Shape& input_shape = {1, 3, 8, 8}) {
  OnnxBuilder b;
  b.input("x", input_shape).weight("w", {2, 3, 3, 3}, std::vector<float>(54, 0.1F)).weight("b", {2}, {0.5F, -0.5F});
  b.node("Conv", {"x", "w", "b"}, {"c"}, "conv1").ints("pads", {1, 1, 1, 1}).ints("kernel_shape", {3, 3});
  b.node("Relu", {"c"}, {"y"}, "relu1").output("y", {1, 2, 8, 8});
  return b;
}

struct SharedModel {
  const char* file;
  int width, height;
  std::size_t outputs;
};

// The real detectors of ../shared/models with an input size that fits each.
inline const std::vector<SharedModel>& shared_models() {
  static const std::vector<SharedModel> kModels = {
      {"retinaface_mnet25.onnx", 640, 352, 9}, {"yunet_n_640_640.onnx", 640, 640, 12},
      {"yunet_n_320_320.onnx", 320, 320, 12},  {"version-RFB-320.onnx", 320, 240, 2},
      {"yolox_nano.onnx", 416, 416, 1},        {"nanodet_m_320.onnx", 320, 320, 6},
      {"FastestDet.onnx", 352, 352, 1},
  };
  return kModels;
}

}  // namespace camd::infer::test
