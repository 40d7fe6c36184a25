#include "pipeline/run/proposal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "config/model_card_text.hpp"
#include "device/host_device.hpp"
#include "infer/engine.hpp"
#include "infer/metadata.hpp"
#include "infer/model.hpp"
#include "pipeline/run/card_keys.hpp"
#include "pipeline/run/cut_advice.hpp"
#include "pipeline/run/fed_as.hpp"
#include "pipeline/run/layout_check.hpp"
#include "pipeline/run/plain_model.hpp"
#include "pipeline/run/session.hpp"
#include "plugins/builtin.hpp"

namespace camd::pipeline {
namespace {

constexpr int kUsualSide = 640;  // px, of an input that the model leaves open
constexpr std::size_t kMostClasses = 1000;

// The texts of a list or the values of a dict, as exporters write class names: {0: 'person', 1: "a b"} in Python's way
// (Ultralytics), {"0": "person"} in JSON's. Empty when it is neither, or holds more than detectors have.
std::vector<std::string> quoted_texts(const std::string& text) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char quote = text[i];
    if (quote != '\'' && quote != '"') continue;
    std::string one;
    for (++i; i < text.size() && text[i] != quote; ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      one += text[i];
    }
    const std::size_t next = text.find_first_not_of(' ', i + 1);
    if (next != std::string::npos && text[next] == ':') continue;  // a key
    if (i >= text.size() || texts.size() == kMostClasses) return {};
    texts.push_back(std::move(one));
  }
  return texts;
}

// One name a line, as RapidAI writes class names. Empty when there are more than detectors have.
std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (lines.size() == kMostClasses) return {};
    lines.push_back(std::move(line));
  }
  return lines;
}

// The whole numbers in a text: "[17, 3]".
std::vector<int> numbers_in(const std::string& text) {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < text.size() && numbers.size() < 8;) {
    if (text[i] < '0' || text[i] > '9') {
      ++i;
      continue;
    }
    int value = 0;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
      value = std::min(value * 10 + (text[i] - '0'), 65536);
    numbers.push_back(value);
  }
  return numbers;
}

bool are_class_names(const std::vector<std::string>& names) {
  const std::set<std::string> unique(names.begin(), names.end());
  return !names.empty() && unique.size() == names.size() &&
         std::all_of(names.begin(), names.end(), [](const std::string& name) {
           const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) { return c >= ' '; });
           return !name.empty() && name.size() < CAMD_CLASS_NAME_BYTES && plain;
         });
}

// What the exporter says.
struct Metadata {
  std::vector<std::string> classes;
  std::string task;
  std::optional<int> keypoints;
  bool poses = false;     // names tell that there are key points, and not how many
  std::vector<int> size;  // height, width
  std::string input;      // how a picture is fed; empty: nobody says
  std::string layout;     // of the project whose network it is, where the names in it tell
  std::map<std::string, std::string> written;
  std::string graph;  // its name
  std::string boxes;  // the tensor that the graph chooses boxes from; empty: it chooses none
  infer::PictureSteps steps;
};

Metadata metadata_of(const std::string& path) {
  const auto [written, names, graph, boxes, steps] = infer::read_metadata(path);
  const auto value = [&entries = written](const char* key) {
    const auto found = entries.find(key);
    return found == entries.end() ? std::string() : found->second;
  };
  Metadata metadata;
  metadata.classes = quoted_texts(value("names"));
  if (metadata.classes.empty()) metadata.classes = lines_in(value("character"));
  if (!are_class_names(metadata.classes)) metadata.classes.clear();
  metadata.task = value("task");
  metadata.input = fed_as(written);
  if (metadata.input.empty()) metadata.input = plugins::input_of_project(names);
  metadata.layout = plugins::layout_of_project(names);
  metadata.poses = plugins::has_key_point_head(names);
  metadata.written = written;
  metadata.graph = graph;
  metadata.boxes = boxes;
  metadata.steps = steps;
  metadata.size = numbers_in(value("imgsz"));
  if (metadata.size.size() == 1) metadata.size.push_back(metadata.size[0]);
  if (const auto shape = numbers_in(value("kpt_shape")); shape.size() == 2) {
    metadata.keypoints = std::min(shape[0], CAMD_MAX_KEYPOINTS);
  }
  return metadata;
}

// What is not UTF-8 is replaced.
std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// "a: 1, b: [2, 3]" as lines.
std::string as_lines(const std::string& keys) {
  std::string text;
  int depth = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    depth += keys[i] == '[' ? 1 : keys[i] == ']' ? -1 : 0;
    if (depth == 0 && keys.compare(i, 2, ", ") == 0) {
      text += '\n';
      ++i;
    } else {
      text += keys[i];
    }
  }
  return text + "\n";
}

// One number a box: [N], [1,N] or [1,N,1].
bool is_list(const infer::TensorSpec& output) {
  const infer::Shape& shape = output.shape;
  return shape.size() == 1 || (shape.size() == 2 && shape[0] == 1) || (shape.size() == 3 && shape[2] == 1);
}
bool has_corners(const infer::TensorSpec& output) { return output.shape.size() > 1 && output.shape.back() == 4; }

// Beside boxes with one score each a list of whole numbers holds classes and the other one scores, as torchvision
// exports them, whose names tell nothing; masks and key points may stand beside them. Null for other outputs.
nlohmann::json lists_by_type(const std::vector<infer::TensorSpec>& outputs) {
  nlohmann::json roles;
  std::size_t lists = 0, boxes = 0;
  std::int64_t rows = 0;  // of the boxes, where the file says it
  for (const infer::TensorSpec& output : outputs) {
    if (!has_corners(output)) continue;
    ++boxes;
    rows = output.shape[output.shape.size() - 2];
  }
  // How many boxes there are, or the picture's size, as detectron2 puts it out.
  constexpr std::int64_t kFew = 2;
  for (const infer::TensorSpec& output : outputs) {
    const bool whole = output.type == infer::DataType::kI64 || output.type == infer::DataType::kI32 ||
                       output.type == infer::DataType::kU8;
    if (!is_list(output)) continue;
    const std::int64_t length = output.shape.size() == 3 ? output.shape[1] : output.shape.back();
    if (outputs.size() > 3 && length > 0 && (rows > 0 ? length != rows : length <= kFew)) continue;
    roles[whole ? "cls" : "obj"] = output.name;
    ++lists;
  }
  const bool fits = lists == 2 && roles.size() == 2 && (outputs.size() == 3 || boxes == 1);
  return fits ? roles : nlohmann::json();
}

// Of a model whose outputs lists_by_type() tells apart: boxes, scores and classes. Empty where it puts out no more.
std::vector<std::string> boxes_alone(const std::vector<infer::TensorSpec>& outputs) {
  std::vector<std::string> names;
  if (outputs.size() == 3) return names;  // also where the file does not say the boxes' shape
  for (const infer::TensorSpec& output : outputs) {
    if (is_list(output) || has_corners(output)) names.push_back(output.name);
  }
  if (names.size() == outputs.size()) names.clear();
  return names;
}

// As above by the values of a picture of noise, where the file calls all of them numbers: those of one list are scores,
// and those of the other are whole. How many boxes there are may stand beside them.
nlohmann::json lists_by_values(const std::vector<infer::TensorSpec>& outputs, const plugins::OutputValues& values) {
  std::size_t rows = 0, boxes = 0;
  for (const infer::TensorSpec& output : outputs) {
    if (!has_corners(output)) continue;
    ++boxes;
    rows = static_cast<std::size_t>(output.shape[output.shape.size() - 2]);
  }
  nlohmann::json roles;
  std::size_t lists = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_list(outputs[i]) || values[i].size() != rows) continue;
    const auto all = [&](auto&& is) { return std::all_of(values[i].begin(), values[i].end(), is); };
    const bool whole = all([](float value) { return value == std::floor(value); });
    if (!whole && !all([](float value) { return value >= -1.0F && value <= 1.0F; })) return {};
    roles[whole ? "cls" : "obj"] = outputs[i].name;
    ++lists;
  }
  return boxes == 1 && lists == 2 && roles.size() == 2 ? roles : nlohmann::json();
}

// How a detector of that kind is fed, where the graph scales pixels itself, which are numbers from 0 to 255 or to 1, or
// turns round their channels. A mean in the graph tells their order. `type`: of the input.
std::string beside_steps(const std::string& keys, const infer::PictureSteps& steps, infer::DataType type) {
  const bool bytes = type != infer::DataType::kF32 && type != infer::DataType::kF16;
  std::string kept;
  std::istringstream lines(as_lines(keys));
  for (std::string line; std::getline(lines, line);) {
    if (steps.red_first && line.starts_with("color:")) {
      line = *steps.red_first ? "color: rgb" : "color: bgr";
    } else if (steps.reversed && line.starts_with("color:")) {
      line = line == "color: rgb" ? "color: bgr" : "color: rgb";
    }
    const bool scale = line.starts_with("mean:") || line.starts_with("scale:");
    if (!(scale && (bytes || steps.scaled))) kept += (kept.empty() ? "" : ", ") + line;
  }
  if (type == infer::DataType::kI8) return kept + ", mean: [128, 128, 128], scale: 1";
  if (bytes || steps.of_bytes) return kept + ", scale: 1";
  return steps.scaled ? kept + ", scale: 0.00392157" : kept;
}

// The sizes that a YOLO's outputs have: `row` of the one list of rows, `count` of them, `maps` of the maps beside it
// that masks are made of. 0: there is none, or more than one.
struct RowSizes {
  std::int64_t row = 0, count = 0, maps = 0;
};
RowSizes row_sizes(const std::vector<infer::TensorSpec>& outputs) {
  RowSizes sizes;
  if (outputs.size() > 2) return sizes;
  for (const infer::TensorSpec& output : outputs) {
    if (output.shape.size() == 3) {
      sizes.count = std::max(output.shape[1], output.shape[2]);
      sizes.row = sizes.row == 0 ? std::min(output.shape[1], output.shape[2]) : -1;
    }
    if (output.shape.size() == 4) sizes.maps = output.shape[1];
  }
  const bool fits = sizes.row > 0 && outputs.size() == (sizes.maps > 0 ? 2U : 1U);
  return fits ? sizes : RowSizes{};
}

// Whether there are three rows for each cell of the strides 8, 16 and 32, or to 64: YOLOv5's, with an objectness.
bool are_three_a_cell(std::int64_t rows, const infer::Shape& picture) {
  return rows == 3 * cells_up_to(32, picture) || rows == 3 * cells_up_to(64, picture);
}

// How many key points a YOLO's maps have behind 64 bins and the scores of `classes`. Nothing where `outputs` are
// others.
std::optional<std::int64_t> points_of_maps(const std::vector<infer::TensorSpec>& outputs, std::int64_t classes) {
  constexpr std::int64_t kBins = 64, kPointValues = 3;
  const bool maps = std::all_of(outputs.begin(), outputs.end(), [&](const infer::TensorSpec& output) {
    return output.shape.size() == 4 && output.shape[1] == outputs.front().shape[1];
  });
  const std::int64_t rest = maps && outputs.size() > 1 ? outputs.front().shape[1] - kBins - classes : 0;
  const bool fits = rest > 0 && rest % kPointValues == 0 && rest / kPointValues <= CAMD_MAX_KEYPOINTS;
  return fits ? std::optional(rest / kPointValues) : std::nullopt;
}

// Keys of `detections` to try, those first that most speaks for. `known`: what the exporter wrote, which need not fit.
// The outputs' sizes tell what stands behind the scores of YOLO's masks, and of poses where it wrote no classes.
// `picture`: the shape of the input.
std::vector<nlohmann::json> keys_to_try(const nlohmann::json& known, const infer::Shape& picture,
                                        const std::vector<infer::TensorSpec>& outputs) {
  constexpr std::int64_t kBox = 4, kChosen = 6, kPointValues = 3;
  std::vector<nlohmann::json> all;
  const RowSizes sizes = row_sizes(outputs);
  const std::int64_t objectness = sizes.maps > 0 && are_three_a_cell(sizes.count, picture) ? 1 : 0;
  const std::int64_t classes = sizes.row - sizes.maps - kBox - objectness;
  const bool untold = !known.contains("classes");
  if (untold && sizes.maps > 0 && sizes.row == kChosen + sizes.maps) {
    all.push_back({{"keypoints", 0}});
  } else if (untold && sizes.maps > 0 && classes > 0 && classes <= std::int64_t{kMostClasses}) {
    nlohmann::json names = nlohmann::json::array();
    for (std::int64_t i = 0; i < classes; ++i) names.push_back(fmt::format("class{}", i));
    all.push_back({{"keypoints", 0}, {"classes", names}});
  }
  // YOLOv5's exporter writes the classes, but not that there are masks.
  if (!untold && sizes.maps > 0 && !known.contains("keypoints") &&
      classes == static_cast<std::int64_t>(known["classes"].size())) {
    all.push_back(known);
    all.back()["keypoints"] = 0;
  }
  all.push_back(known);
  if (!known.empty()) all.push_back(nlohmann::json::object());
  const std::int64_t points = sizes.row - kBox - 1;
  if (untold && sizes.maps == 0 && points > 0 && points % kPointValues == 0 &&
      points / kPointValues <= CAMD_MAX_KEYPOINTS) {
    all.push_back({{"keypoints", points / kPointValues}});
  }
  return all;
}

// The model ready to run. Where no engine has all its operators, what is behind boxes and scores is left out: the
// choice of boxes that a plug-in of TensorRT makes, for one, is what `detections` does. `model` gets the cut.
// `known`: keys of `detections`, among them the layout where the file tells it. `is_given`: the user has cut it.
std::unique_ptr<infer::Engine> engine_for(config::Model& model, const nlohmann::json& known, bool is_given,
                                          device::Device& host) {
  const auto make = [&] {
    infer::EngineOptions options = engine_options(model);
    options.kind = infer::EngineKind::kAuto;
    return infer::make_engine(model.path.string(), options, host);
  };
  try {
    return make();
  } catch (const base::Error&) {
    if (is_given) throw;
    model.cut_at.clear();
    const auto told = known.find("layout");
    const nlohmann::json keys = told == known.end() ? nlohmann::json::object() : nlohmann::json{{"layout", *told}};
    const auto cut = find_cut(model, text_of(keys), engine_options(model));
    if (!cut || cut->at.empty()) throw;
    model.cut_at = cut->at;
  }
  return make();
}

// How many boxes there are before the graph chooses among them: those that NonMaxSuppression reads from `tensor`, or,
// where it chooses none, those that `outputs` begin with. 0: not known.
std::int64_t boxes_before_choice(const config::Model& model, const std::string& tensor,
                                 const std::vector<infer::TensorSpec>& outputs, device::Device& host) {
  const auto count = [](const infer::Shape& shape) {
    return shape.size() == 3 && shape[0] == 1 ? std::max(shape[1], shape[2]) : std::int64_t{0};
  };
  if (tensor.empty()) return count(outputs.front().shape);
  try {
    infer::EngineOptions options = engine_options(model);
    options.kind = infer::EngineKind::kAuto;
    options.cut_at = {tensor};
    return count(infer::make_engine(model.path.string(), options, host)->outputs().front().shape);
  } catch (const base::Error&) {
    return 0;
  }
}

}  // namespace

Proposal propose_card(const config::Model& given) {
  config::Model model = given;
  const std::string path = model.path.string();
  const infer::ModelDescription description = infer::describe_model(path, model.cut_at);
  Metadata metadata = metadata_of(path);
  const std::string of_family = metadata.input;  // which holds whatever its classes are
  const bool paddle = is_of_paddle(metadata.graph, description.size_inputs);
  const std::string chosen_from = metadata.boxes;
  const std::map<std::string, std::string> entries = metadata.written;
  const infer::PictureSteps steps = metadata.steps;
  Proposal proposal;
  infer::Shape declared = description.inputs.front().shape;
  if (declared.size() == 3) declared.insert(declared.begin(), 1);  // a picture without a batch
  if (declared.size() == 4) {
    const bool last = infer::takes_pixels_last(declared);
    const auto side = [&](std::size_t dimension, std::optional<int>& written, std::size_t said, int& decided) {
      if (declared[dimension] > 0 || written) return;
      decided = metadata.size.size() == 2 && metadata.size[said] > 0 ? metadata.size[said] : kUsualSide;
      if (steps.height > 0) decided = said == 0 ? steps.height : steps.width;
      written = decided;
    };
    side(last ? 1 : 2, model.input.height, 0, proposal.height);
    side(last ? 2 : 3, model.input.width, 1, proposal.width);
  }
  if (proposal.width != 0 || proposal.height != 0) {
    proposal.reasons.push_back(fmt::format("the model leaves its input's size open: {}",
                                           steps.height > 0            ? "what its graph makes of a picture is taken"
                                           : metadata.size.size() == 2 ? "its exporter's is taken"
                                                                       : "640 is taken"));
  }
  nlohmann::json known = nlohmann::json::object();
  if (!metadata.classes.empty()) known["classes"] = metadata.classes;
  if (metadata.keypoints) known["keypoints"] = *metadata.keypoints;
  // A mask's coefficients stand where keypoints would.
  if (metadata.task == "segment" && !metadata.classes.empty()) known["keypoints"] = 0;
  if (metadata.task == "obb") known["oriented"] = true;
  // Objects without a size, as LibreYOLO calls what its FOMO finds.
  if (metadata.task == "point") known["layout"] = "fomo";
  if (!metadata.layout.empty()) known["layout"] = metadata.layout;
  // As multiclass_nms writes what it has chosen. Where a picture of noise holds nothing, no value tells.
  if (paddle) known["row"] = {"class", "score", "x0", "y0", "x1", "y1"};
  if (const auto roles = lists_by_type(description.outputs); !roles.is_null()) {
    known["outputs"] = roles;
    if (model.cut_at.empty()) model.cut_at = boxes_alone(description.outputs);
  }
  const bool poses = metadata.poses && !metadata.keypoints;
  const std::int64_t classes = metadata.classes.empty() ? 1 : static_cast<std::int64_t>(metadata.classes.size());
  const auto host = device::make_host_device(base::system_clock());
  std::vector<plugins::LayoutSuggestion> layouts;
  bool unsupported = false;
  infer::Shape picture;
  std::int64_t boxes = 0;  // of PaddleDetection's networks
  try {
    const std::vector<std::string> read = model.cut_at;
    const auto engine = engine_for(model, known, !given.cut_at.empty(), *host);
    unsupported = model.cut_at != read;
    if (unsupported) known.erase("outputs");
    picture = engine->input().shape;
    if (paddle) boxes = boxes_before_choice(model, chosen_from, engine->outputs(), *host);
    if (const auto points = points_of_maps(engine->outputs(), classes); poses && points) known["keypoints"] = *points;
    const plugins::OutputValues values = outputs_of_noise(*host, *engine);
    const std::vector<std::string> no_cameras;
    const std::string no_card = "{}";  // the model keeps pointers to these
    const PlainModel plain(engine->input(), engine->outputs(), path, no_card, no_cameras);
    std::vector<nlohmann::json> tries = keys_to_try(known, engine->input().shape, engine->outputs());
    if (const auto roles = lists_by_values(engine->outputs(), values); !roles.is_null() && !known.contains("outputs")) {
      tries.push_back(known);
      tries.back()["outputs"] = roles;
    }
    for (const nlohmann::json& keys : tries) {
      layouts = plugins::suggest_layouts(plain.model(), text_of(keys), &values);
      if (layouts.empty()) continue;
      if (!metadata.classes.empty() && (!keys.contains("classes") || keys["classes"] != known["classes"])) {
        // What reads all outputs and has other classes is a network whose names are wrong. What reads a part of them
        // fits by chance.
        if (layouts.front().outputs.size() < engine->outputs().size()) {
          proposal.refused = fmt::format(
              "{}: its exporter names {} classes, which no layout finds in the model's outputs; {{{}}} ({}) would read "
              "a part of them, with other classes: set `layout` and `classes`",
              path, metadata.classes.size(), layouts.front().config, layouts.front().of);
          break;
        }
        proposal.reasons.push_back(
            fmt::format("its exporter names {} classes, which do not fit its outputs", metadata.classes.size()));
        metadata = {};
      }
      known = keys;
      break;
    }
    if (layouts.empty() && proposal.refused.empty()) {
      proposal.refused = fmt::format("{}: {}", path, plugins::suggestion_text(plain.model(), layouts, &values));
    }
  } catch (const base::Error& error) {
    proposal.refused = error.what();
  } catch (const std::invalid_argument& error) {
    proposal.refused = fmt::format("{}: {}", path, error.what());
  }
  if (!proposal.refused.empty()) return proposal;
  const plugins::LayoutSuggestion& layout = layouts.front();
  proposal.reasons.push_back(fmt::format("its outputs look like {}: {}", layout.of, layout.config));
  std::string usual = fed_beside(description.size_inputs, layout.input);
  if (paddle) usual = fed_by_paddle(boxes, picture, usual);
  const std::string fed = fed_by_format(entries, of_family.empty() ? usual : of_family);
  const std::string input = beside_steps(fed, steps, description.inputs.front().type);
  if (steps.scaled) proposal.reasons.emplace_back("its graph scales the picture itself");
  if (steps.red_first) proposal.reasons.emplace_back("the mean in its graph tells the order of the picture's channels");
  if (steps.height > 0 && (picture[2] != steps.height || picture[3] != steps.width)) {
    proposal.reasons.push_back(fmt::format(
        "its graph makes {}x{} of the picture: where its boxes are pixels of that size, export it with such "
        "an input",
        steps.width, steps.height));
  }
  if (steps.reversed) proposal.reasons.emplace_back("its graph turns round the order of the picture's channels");
  proposal.reasons.push_back(fmt::format(
      "{} are fed with {}", of_family.empty() ? "such detectors" : "detectors of its exporter's family", input));
  if (paddle && input.find("mean") == std::string::npos) {
    proposal.reasons.emplace_back(
        "so are PP-YOLOE+ and RT-DETR of PaddleDetection; PP-YOLOE and others of its networks, which nothing in the "
        "file tells from these, take mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292]");
  }
  proposal.card = as_lines(layout.config);
  if (known.contains("keypoints") && layout.config.find("keypoints") == std::string::npos) {
    proposal.card += fmt::format("keypoints: {}\n", known["keypoints"].get<int>());
  }
  if (known.contains("outputs")) {
    proposal.card += "outputs: " + text_of(known["outputs"]) + "\n";
    proposal.reasons.emplace_back("of its outputs the whole numbers are the classes");
  }
  if (model.cut_at != given.cut_at) {
    proposal.card += "cut_at: " + text_of(model.cut_at) + "\n";
    proposal.reasons.emplace_back(unsupported
                                      ? "camd has not all its operators: what lies behind boxes and scores is left out"
                                      : "nothing reads its masks or key points: what makes them is left out");
  }
  if (known.contains("classes")) proposal.card += "classes: " + text_of(known["classes"]) + "\n";
  if (!metadata.classes.empty()) {
    proposal.reasons.push_back(fmt::format("its exporter names {} class{}", metadata.classes.size(),
                                           metadata.classes.size() == 1 ? "" : "es"));
  }
  proposal.card += fmt::format("input: {{{}}}\n", input);
  const std::set<std::string> read = {"", "detect", "pose", "obb", "point"};
  if (read.count(metadata.task) == 0) {
    proposal.reasons.push_back(fmt::format(
        "its exporter says that its task is '{}', of which camd reads the boxes alone", metadata.task.substr(0, 32)));
  }
  for (std::size_t i = 1; i < layouts.size() && i < 3; ++i) {
    proposal.reasons.push_back(fmt::format("{} would fit too ({})", layouts[i].config, layouts[i].of));
  }
  return proposal;
}

std::optional<Proposal> Proposer::complete(config::Config& config) {
  if (config.model.card || config.model.path.empty()) return std::nullopt;
  const bool open = std::any_of(config.postprocess.begin(), config.postprocess.end(), [](const auto& entry) {
    return entry.plugin == "detections" && !nlohmann::json::parse(entry.config_json, nullptr, false).contains("layout");
  });
  if (!open) return std::nullopt;
  std::error_code unknown;
  const auto written = std::filesystem::last_write_time(config.model.path, unknown);
  if (unknown) return std::nullopt;  // whoever runs the model says it, with the key's place
  if (config.model != model_ || written != written_) {
    model_ = config.model;
    written_ = written;
    proposal_.reset();
    try {
      proposal_ = propose_card(config.model);
    } catch (const base::Error&) {
      return std::nullopt;  // said as above
    }
  }
  if (!proposal_) return std::nullopt;
  config::ModelInput& input = config.model.input;
  const auto complete = [](auto& value, const auto& decided) {
    if (!value) value = decided;
  };
  if (proposal_->width > 0) complete(input.width, std::optional(proposal_->width));
  if (proposal_->height > 0) complete(input.height, std::optional(proposal_->height));
  if (proposal_->card.empty()) return std::nullopt;
  const config::ModelCard card =
      config::parse_model_card(config.model.path.string() + " (proposed card)", proposal_->card, card_keys());
  complete(input.color, card.input.color);
  complete(input.mean, card.input.mean);
  complete(input.scale, card.input.scale);
  if (!input.resize) {
    input.resize = card.input.resize;
    if (input.resize != config::ResizeMode::kStretch) complete(input.position, card.input.position);
  }
  // Other plug-ins may read what `detections` does not.
  const bool alone = std::all_of(config.postprocess.begin(), config.postprocess.end(), [](const auto& entry) {
    return entry.plugin != "tensors" && plugins::find_builtin(entry.plugin) != nullptr;
  });
  if (config.model.cut_at.empty() && alone) config.model.cut_at = card.cut_at;
  config.model.card_json = card.rest_json;
  return proposal_;
}

}  // namespace camd::pipeline
