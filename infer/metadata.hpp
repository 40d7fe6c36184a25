// What an exporter wrote into a model file beside what is computed: metadata_props (names, task, imgsz, kpt_shape of
// Ultralytics), what it called the parts of the network, and what it put in front of the first layer.
//
// Threads: [any]; reads the file and [blocks].
#pragma once

#include <map>
#include <string>
#include <vector>

#include "infer/picture_steps.hpp"

namespace camd::infer {

struct Metadata {
  std::map<std::string, std::string> entries;  // at most 64; those longer than 64 KiB are left out
  std::vector<std::string> names;              // of weights and nodes
  std::string graph;                           // its name
  std::string boxes;  // the tensor that the graph's first NonMaxSuppression chooses from; empty: it has none
  PictureSteps steps;
};

// Throws Error(kModel) where the file is no model.
[[nodiscard]] Metadata read_metadata(const std::string& path);

}  // namespace camd::infer
