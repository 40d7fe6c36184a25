// The model card: a YAML file beside a model that says how its input is fed and how its outputs are read, so that
// a configuration need not repeat it.
//
// Threads: plain values and functions of their arguments, [any]; load_model_card() [blocks] on file input.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/key_table.hpp"
#include "config/place.hpp"

namespace camd::config {

enum class ColorOrder { kBgr, kRgb };
enum class ResizeMode { kLetterbox, kStretch };
enum class LetterboxPosition { kCentre, kTopLeft };

[[nodiscard]] std::string_view to_string(ColorOrder color) noexcept;
[[nodiscard]] std::string_view to_string(ResizeMode mode) noexcept;
[[nodiscard]] std::string_view to_string(LetterboxPosition position) noexcept;

// How a picture becomes the network's input: value = (pixel - mean) * scale, pixel in 0..255, mean and scale per
// channel in the order that `color` names. What is empty was not said.
struct ModelInput {
  std::optional<int> width{};   // px
  std::optional<int> height{};  // px
  std::optional<ColorOrder> color{};
  std::optional<std::array<float, 3>> mean{};
  std::optional<std::array<float, 3>> scale{};  // one number in the file stands for all three channels
  std::optional<ResizeMode> resize{};
  std::optional<LetterboxPosition> position{};  // of a letterboxed picture
  std::optional<float> pad{};                   // beside it, 0..255, before mean and scale

  friend bool operator==(const ModelInput&, const ModelInput&) = default;
};

struct ModelCard {
  std::filesystem::path path;
  std::string name;                 // empty: not said
  std::vector<std::string> cut_at;  // tensors that become the model's outputs; empty: not said
  ModelInput input;                 // width and height come from the model, never from the card
  // The keys that are not in model_card_keys(), as one JSON object: what a plug-in reads.
  std::string rest_json = "{}";
};

// The card of a model: `<stem>.yaml` beside it, else the stem without a trailing "-WxH" (marker-640x360.onnx:
// marker.yaml). Empty when there is none.
[[nodiscard]] std::optional<std::filesystem::path> find_model_card(const std::filesystem::path& model);

// Reads and checks a card. `card_keys` are all that it may have (LoadOptions::card_keys). Throws ConfigErrors with
// every problem found.
[[nodiscard]] ModelCard load_model_card(const std::filesystem::path& path, Table card_keys);

}  // namespace camd::config
