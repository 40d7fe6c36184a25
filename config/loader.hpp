// Reads a configuration: YAML file and --set overrides in, a checked Config out, or every problem at once.
//
// Threads: functions of their arguments, [any]; they [block] on file input.
// Nothing is clipped or ignored: what is not understood is an error with its place.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/key_table.hpp"

namespace camd::config {

// "key.path=value", as after --set: "cameras.0.source.path=a.mp4", "cameras.door.source.loop=true". The value is YAML.
using Overrides = std::span<const std::string>;

struct LoadOptions {
  bool check_files = true;  // files that the configuration names must exist; off for tests and `camd config`
  // Every key that a model card may have: model_card_keys() and those of the plug-in that reads the rest of the card.
  // Must outlive the call.
  Table card_keys = model_card_keys();
};

// A configuration, and what is wrong with it.
struct Reading {
  // Without problems it is whole. With some it holds what is right: the cameras and postprocessors among those that are
  // written, and the model or an empty model.path. `key` of each says which one it is.
  Config config;
  std::vector<Problem> problems;  // sorted by place
  // Where the keys of the plug-ins' own maps stand, by their names as in Config::places: an unknown one is told there.
  std::map<std::string, SourcePlace, std::less<>> key_places;
};
// For who has more to find out about what is right, and tells all of it at once. A model's file (.onnx) stands for a
// configuration that runs it on the test source, with the plug-in `detections`.
[[nodiscard]] Reading read(const std::filesystem::path& path, Overrides overrides = {},
                           const LoadOptions& options = {});

// Throws ConfigErrors with every problem found, sorted by place.
// Relative paths count from the configuration file's folder; those given by --set from the working directory.
[[nodiscard]] Config load(const std::filesystem::path& path, Overrides overrides = {}, const LoadOptions& options = {});
// The same for a text; `name` stands for the file in messages and its folder resolves relative paths.
[[nodiscard]] Config load_text(const std::string& name, std::string_view text, Overrides overrides = {},
                               const LoadOptions& options = {});

}  // namespace camd::config
