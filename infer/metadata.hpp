// What an exporter wrote into a model file beside the graph (metadata_props): names, task, imgsz, kpt_shape of
// Ultralytics.
//
// Threads: [any]; reads the file and [blocks].
#pragma once

#include <map>
#include <string>

namespace camd::infer {

// At most 64 entries; those longer than 64 KiB are left out. Throws Error(kModel) where the file is no model.
[[nodiscard]] std::map<std::string, std::string> read_metadata(const std::string& path);

}  // namespace camd::infer
