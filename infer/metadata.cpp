#include "infer/metadata.hpp"

#include "infer/onnx/file.hpp"

namespace camd::infer {

Metadata read_metadata(const std::string& path) {
  constexpr std::size_t kMostEntries = 64, kMostBytes = std::size_t{1} << 16;
  const OnnxFile file = read_onnx_file(path);
  Metadata metadata;
  for (const auto& entry : file.proto.metadata_props()) {
    if (metadata.entries.size() >= kMostEntries) break;
    if (entry.key().size() + entry.value().size() <= kMostBytes) metadata.entries.emplace(entry.key(), entry.value());
  }
  for (const auto& weight : file.proto.graph().initializer()) metadata.names.push_back(weight.name());
  metadata.graph = file.proto.graph().name();
  for (const auto& node : file.proto.graph().node()) {
    metadata.names.push_back(node.name());
    const bool chooses = node.op_type() == "NonMaxSuppression" && node.input_size() > 0;
    if (chooses && metadata.boxes.empty()) metadata.boxes = node.input(0);
  }
  metadata.steps = picture_steps(file);
  return metadata;
}

}  // namespace camd::infer
