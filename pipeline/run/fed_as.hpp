// How a picture is fed to a model whose exporter wrote down what kind of detector it is.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <map>
#include <string>

namespace camd::pipeline {

// The keys of `input:`, as "color: rgb, scale: 0.00392157"; empty where the exporter has not said it. `metadata` is
// what stands beside the graph (infer/metadata.hpp): LibreYOLO writes the family (`model_family`) and which corner a
// picture is put into (`letterbox_pad`), Ultralytics neither.
[[nodiscard]] std::string fed_as(const std::map<std::string, std::string>& metadata);

}  // namespace camd::pipeline
