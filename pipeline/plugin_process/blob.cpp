// Writing and reading what set-up tells a worker.
#include "pipeline/plugin_process/blob.hpp"

#include <utility>

namespace camd::pipeline::wire {
namespace {

void put_texts(BlobWriter& writer, const std::vector<std::string>& texts) {
  writer.put(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) writer.text(text);
}

std::vector<std::string> get_texts(BlobReader& reader) {
  std::vector<std::string> texts;
  for (auto left = reader.get<std::uint32_t>(); left > 0; --left) texts.push_back(reader.text());
  return texts;
}

void put_shape(BlobWriter& writer, const std::int64_t* shape, std::int32_t ndim) {
  writer.put(ndim);
  for (std::int32_t i = 0; i < ndim; ++i) writer.put(shape[i]);
}

std::vector<std::int64_t> get_shape(BlobReader& reader) {
  std::vector<std::int64_t> shape;
  for (auto left = reader.get<std::int32_t>(); left > 0; --left) shape.push_back(reader.get<std::int64_t>());
  return shape;
}

void put_spec(BlobWriter& writer, const camd_tensor_spec& spec) {
  writer.text(spec.name == nullptr ? "" : spec.name);
  put_shape(writer, spec.shape, spec.ndim);
  writer.put(spec.dtype);
}

}  // namespace

std::vector<char> WorkerOrder::bytes() const {
  BlobWriter writer;
  writer.put(version);
  writer.put(parent);
  writer.text(name);
  writer.text(python);
  writer.text(python_code);
  writer.put(confined);
  writer.put(network);
  writer.put(gpu);
  put_texts(writer, files);
  writer.put(memory_bytes);
  writer.put(nice);
  return writer.bytes();
}

WorkerOrder WorkerOrder::read(std::span<const char> bytes) {
  BlobReader reader(bytes);
  WorkerOrder order;
  order.version = reader.get<std::uint32_t>();
  if (order.version != kVersion) {
    throw base::Error(base::ErrorKind::kPlugin, "camd and camd-plugin are not of one build: install both anew");
  }
  order.parent = reader.get<std::int32_t>();
  order.name = reader.text();
  order.python = reader.text();
  order.python_code = reader.text();
  order.confined = reader.get<bool>();
  order.network = reader.get<bool>();
  order.gpu = reader.get<bool>();
  order.files = get_texts(reader);
  order.memory_bytes = reader.get<std::uint64_t>();
  order.nice = reader.get<std::int32_t>();
  return order;
}

std::vector<char> CreateOrder::bytes() const {
  BlobWriter writer;
  writer.text(plugin);
  writer.text(config_json);
  writer.put(reloads);
  return writer.bytes();
}

CreateOrder CreateOrder::read(std::span<const char> bytes) {
  BlobReader reader(bytes);
  CreateOrder order;
  order.plugin = reader.text();
  order.config_json = reader.text();
  order.reloads = reader.get<std::uint32_t>();
  return order;
}

std::vector<char> CheckOrder::bytes() const {
  BlobWriter writer;
  writer.text(plugin);
  writer.text(config_json);
  writer.text(card_json);
  put_texts(writer, cameras);
  return writer.bytes();
}

CheckOrder CheckOrder::read(std::span<const char> bytes) {
  BlobReader reader(bytes);
  CheckOrder order;
  order.plugin = reader.text();
  order.config_json = reader.text();
  order.card_json = reader.text();
  order.cameras = get_texts(reader);
  return order;
}

std::vector<char> ModelOrder::bytes(const camd_model& model, const std::vector<std::string>& cameras) {
  BlobWriter writer;
  writer.text(model.path == nullptr ? "" : model.path);
  writer.text(model.card_json == nullptr ? "{}" : model.card_json);
  writer.put(model.channels_last);
  put_spec(writer, model.input);
  writer.put(model.output_count);
  for (std::int32_t i = 0; i < model.output_count; ++i) put_spec(writer, model.outputs[i]);
  put_texts(writer, cameras);
  return writer.bytes();
}

ModelOrder::Spec ModelOrder::read_spec(BlobReader& reader) {
  Spec spec;
  spec.name = reader.text();
  spec.shape = get_shape(reader);
  spec.dtype = reader.get<DLDataType>();
  return spec;
}

camd_tensor_spec ModelOrder::plain(const Spec& spec) {
  return {spec.name.c_str(), static_cast<std::int32_t>(spec.shape.size()), spec.shape.data(), spec.dtype};
}

ModelOrder::ModelOrder(std::span<const char> bytes) {
  BlobReader reader(bytes);
  path_ = reader.text();
  card_json_ = reader.text();
  model_.struct_size = sizeof(model_);
  model_.channels_last = reader.get<std::int32_t>();
  input_ = read_spec(reader);
  for (auto left = reader.get<std::int32_t>(); left > 0; --left) outputs_.push_back(read_spec(reader));
  cameras_ = get_texts(reader);
  for (const Spec& spec : outputs_) plain_outputs_.push_back(plain(spec));
  for (const std::string& name : cameras_) camera_names_.push_back(name.c_str());
  model_.path = path_.c_str();
  model_.input = plain(input_);
  model_.output_count = static_cast<std::int32_t>(plain_outputs_.size());
  model_.outputs = plain_outputs_.data();
  model_.card_json = card_json_.c_str();
  model_.camera_count = static_cast<std::int32_t>(camera_names_.size());
  model_.camera_names = camera_names_.data();
}

std::vector<char> tensor_bytes(const std::vector<TensorOrder>& tensors) {
  BlobWriter writer;
  writer.put(static_cast<std::uint32_t>(tensors.size()));
  for (const TensorOrder& tensor : tensors) {
    writer.put(tensor.present);
    writer.put(tensor.device);
    writer.put(tensor.place);
    writer.put(tensor.exported.has_value());
    if (tensor.exported) writer.put(*tensor.exported);
    writer.put(tensor.where);
    writer.put(tensor.dtype);
    put_shape(writer, tensor.shape.data(), static_cast<std::int32_t>(tensor.shape.size()));
  }
  return writer.bytes();
}

std::vector<TensorOrder> read_tensors(std::span<const char> bytes) {
  BlobReader reader(bytes);
  std::vector<TensorOrder> tensors;
  for (auto left = reader.get<std::uint32_t>(); left > 0; --left) {
    TensorOrder tensor;
    tensor.present = reader.get<bool>();
    tensor.device = reader.get<bool>();
    tensor.place = reader.get<Place>();
    if (reader.get<bool>()) tensor.exported = reader.get<device::ExportHandle>();
    tensor.where = reader.get<DLDevice>();
    tensor.dtype = reader.get<DLDataType>();
    tensor.shape = get_shape(reader);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace camd::pipeline::wire
