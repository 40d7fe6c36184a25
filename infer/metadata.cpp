#include "infer/metadata.hpp"

#include "infer/onnx/file.hpp"

namespace camd::infer {

std::map<std::string, std::string> read_metadata(const std::string& path) {
  constexpr std::size_t kMostEntries = 64, kMostBytes = std::size_t{1} << 16;
  const OnnxFile file = read_onnx_file(path);
  std::map<std::string, std::string> metadata;
  for (const auto& entry : file.proto.metadata_props()) {
    if (metadata.size() >= kMostEntries) break;
    if (entry.key().size() + entry.value().size() <= kMostBytes) metadata.emplace(entry.key(), entry.value());
  }
  return metadata;
}

}  // namespace camd::infer
