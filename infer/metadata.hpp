// What an exporter wrote into a model file beside what is computed: metadata_props (names, task, imgsz, kpt_shape of
// Ultralytics), and what it called the parts of the network.
//
// Threads: [any]; reads the file and [blocks].
#pragma once

#include <map>
#include <string>
#include <vector>

namespace camd::infer {

struct Metadata {
  std::map<std::string, std::string> entries;  // at most 64; those longer than 64 KiB are left out
  std::vector<std::string> names;              // of weights and nodes
};

// Throws Error(kModel) where the file is no model.
[[nodiscard]] Metadata read_metadata(const std::string& path);

}  // namespace camd::infer
