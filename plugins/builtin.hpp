// The postprocessors that come with camd, by name. Each is also built as lib/camd_plugin_NAME.so from the same source,
// so that what users' plug-ins can do is what the built-ins do.
//
// Threads: [any]; the tables are constants. builtin_elements() [blocks] while GStreamer reads its registry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

// nullptr when there is none of that name.
[[nodiscard]] const camd_plugin* find_builtin(std::string_view name) noexcept;

// In alphabetical order, for messages ("did you mean") and `camd doctor`.
[[nodiscard]] std::vector<std::string_view> builtin_names();

enum class CardKeyType : std::uint8_t { kAny, kText, kWord, kInteger, kNumber, kBool, kList };

// One key that the built-in `detections` reads, from the model card as from its configuration.
struct CardKey {
  std::string_view path{};  // "strides"; the row "strides[]" declares its elements
  CardKeyType type = CardKeyType::kAny;
  std::string_view example{};  // as YAML
  std::string_view min{};      // as written in a file; of the count for lists; empty: unbounded
  std::string_view max{};
  std::string_view unit{};
  std::string_view words{};           // of kWord: "a|b"; of kAny: what the value is, in words
  std::string_view same_length_as{};  // a list with as many elements as the list of this key
  std::string_view help{};
};

// All keys of the built-in `detections`, in the manual's order: the checks of model cards and the manual come from
// them. Constant data.
[[nodiscard]] std::span<const CardKey> detections_keys() noexcept;

// Of each of a model's outputs, all its elements as f32, row-major, as one frame gave them. Owned by the caller.
using OutputValues = std::vector<std::vector<float>>;

struct LayoutSuggestion {
  std::string config;        // keys of `detections`: "layout: ssd, boxes: centre, relative: false"
  std::string of;            // whose outputs look so: "YOLOv8 to 26"
  std::string input;         // how such detectors are fed, as keys of `model.input`: "color: rgb, scale: 0.00392157"
  std::vector<int> outputs;  // that it reads, by the model's index
};

// Configurations of the built-in `detections` that read a model's outputs, most likely first; empty when none does.
// `config_json` is what is configured, with or without a layout; `values` may be null, then shapes alone decide.
// [setup] Throws std::invalid_argument when the keys themselves are wrong.
[[nodiscard]] std::vector<LayoutSuggestion> suggest_layouts(const camd_model& model, std::string_view config_json,
                                                            const OutputValues* values);

// The layout of the project that calls parts of its networks so, as keys above name it; empty where none or several do.
// `names`: of weights and nodes. [any]
[[nodiscard]] std::string_view layout_of_project(std::span<const std::string> names);

// Whether such names are of a YOLO's head with key points. [any]
[[nodiscard]] bool has_key_point_head(std::span<const std::string> names);

// How that project feeds a picture to such a network, as keys of `model.input`; empty where nothing is known. [any]
[[nodiscard]] std::string_view input_of_project(std::span<const std::string> names);

// suggest_layouts() as a sentence without a stop; with no suggestion, what is known of such outputs. `values` as there.
[[nodiscard]] std::string suggestion_text(const camd_model& model, const std::vector<LayoutSuggestion>& suggestions,
                                          const OutputValues* values);

// What one frame's values say against the layout that is configured, in the card or in `config_json`, and what to set
// instead; one line, empty when nothing does. [setup] Throws std::invalid_argument when the layout does not fit.
[[nodiscard]] std::string doubt_layout(const camd_model& model, std::string_view config_json,
                                       const OutputValues& values);

// The line that `jsonl` would write of a frame, without its end. `now_ns`, on the clock of frame.captured_mono_ns, ends
// the latency.
[[nodiscard]] std::string frame_line(const camd_frame& frame, const camd_results& results,
                                     std::span<const camd_event> events, std::int64_t now_ns);

// A GStreamer element that a built-in leans on.
struct ElementFinding {
  std::string element;
  std::string purpose;  // "H.264 encoding (annotate)"
  std::string package;  // Debian's
  bool present = false;
};

// What the built-ins need of GStreamer, and what of it is installed, for `camd doctor`. Throws std::invalid_argument
// when GStreamer cannot start.
[[nodiscard]] std::vector<ElementFinding> builtin_elements();

}  // namespace camd::plugins
