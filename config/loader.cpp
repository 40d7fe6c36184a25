#include "config/loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "base/model_format.hpp"
#include "base/secrets.hpp"
#include "config/check.hpp"
#include "config/json.hpp"
#include "config/model_card_reader.hpp"
#include "config/overrides.hpp"
#include "config/place_order.hpp"
#include "config/reader.hpp"
#include "config/secrets.hpp"

namespace camd::config {
namespace {

template <typename T, std::size_t N>
using Words = std::array<std::pair<std::string_view, T>, N>;

constexpr Words<EngineChoice, 4> kEngines = {{{"auto", EngineChoice::kAuto},
                                              {"cuda", EngineChoice::kCuda},
                                              {"cpu", EngineChoice::kCpu},
                                              {"opencv", EngineChoice::kOpencv}}};
constexpr Words<Precision, 5> kPrecisions = {{{"auto", Precision::kAuto},
                                              {"f16", Precision::kF16},
                                              {"bf16", Precision::kBf16},
                                              {"tf32", Precision::kTf32},
                                              {"f32", Precision::kF32}}};
constexpr Words<TransferMode, 5> kTransfers = {{{"auto", TransferMode::kAuto},
                                                {"pinned", TransferMode::kPinned},
                                                {"direct", TransferMode::kDirect},
                                                {"mapped", TransferMode::kMapped},
                                                {"pageable", TransferMode::kPageable}}};
constexpr Words<StreamMode, 3> kStreams = {
    {{"split", StreamMode::kSplit}, {"per_frame", StreamMode::kPerFrame}, {"single", StreamMode::kSingle}}};
constexpr Words<RtspTransport, 2> kTransports = {{{"tcp", RtspTransport::kTcp}, {"udp", RtspTransport::kUdp}}};
constexpr Words<DamagedMode, 2> kDamagedModes = {{{"keep", DamagedMode::kKeep}, {"drop", DamagedMode::kDrop}}};
constexpr Words<DecodeMode, 3> kDecodeModes = {
    {{"auto", DecodeMode::kAuto}, {"gpu", DecodeMode::kGpu}, {"cpu", DecodeMode::kCpu}}};
constexpr Words<Isolation, 2> kIsolations = {{{"process", Isolation::kProcess}, {"none", Isolation::kNone}}};
constexpr Words<Instances, 2> kInstances = {{{"shared", Instances::kShared}, {"camera", Instances::kCamera}}};
constexpr Words<OnFailure, 3> kOnFailures = {
    {{"drop_frames", OnFailure::kDropFrames}, {"pass_through", OnFailure::kPassThrough}, {"stop", OnFailure::kStop}}};
constexpr Words<base::PixelFormat, 6> kFormats = {{{"bgr", base::PixelFormat::kBgr},
                                                   {"rgb", base::PixelFormat::kRgb},
                                                   {"nv12", base::PixelFormat::kNv12},
                                                   {"i420", base::PixelFormat::kI420},
                                                   {"yuy2", base::PixelFormat::kYuy2},
                                                   {"gray8", base::PixelFormat::kGray8}}};

// NOLINTNEXTLINE(misc-no-recursion): a tree is at most kMaxDepth deep
void collect_places(const TreeNode& node, const std::string& key, Reading& reading) {
  if (!key.empty()) reading.config.places.emplace(key, node.place);
  const auto child = [&key](const std::string& name) { return key.empty() ? name : key + "." + name; };
  for (std::size_t i = 0; i < node.items.size(); ++i) collect_places(node.items[i], child(std::to_string(i)), reading);
  for (const Entry& entry : node.entries) {
    if (key.starts_with("postprocess.")) reading.key_places.emplace(child(entry.key), entry.place);
    collect_places(entry.value, child(entry.key), reading);
  }
}

// Whether a problem concerns what stands at `key`, or something that it is a part of.
bool concerns(const Problem& problem, std::string_view key) {
  const auto below = [](std::string_view inner, std::string_view outer) {
    return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '.');
  };
  return problem.key.empty() || below(problem.key, key) || below(key, problem.key);
}

Recovery read_recovery(const Reader& source) {
  Recovery recovery;
  recovery.timeout = source.duration("timeout");
  recovery.reconnect_initial = source.map("reconnect").duration("initial");
  recovery.reconnect_max = source.map("reconnect").duration("max");
  return recovery;
}

Source read_source(const TreeNode& node, const FileRules& files) {
  const std::string type = node.find("type")->text;
  const Reader source(config_keys(), &node, "cameras[].source", type);
  if (type == "file") {
    return FileSource{resolve(*source.node("path"), files), source.boolean("loop"), source.boolean("realtime")};
  }
  if (type == "v4l2") {
    return V4l2Source{source.text("device"), static_cast<int>(source.integer("width")),
                      static_cast<int>(source.integer("height")), source.number("fps"), read_recovery(source)};
  }
  if (type == "rtsp") {
    return RtspSource{source.text("url"), source.duration("latency"), source.word("transport", kTransports),
                      read_recovery(source)};
  }
  if (type == "gstreamer") return GStreamerSource{source.text("pipeline"), read_recovery(source)};
  return TestSource{static_cast<int>(source.integer("width")),
                    static_cast<int>(source.integer("height")),
                    source.number("fps"),
                    source.word("format", kFormats),
                    source.integer("frames"),
                    source.boolean("realtime")};
}

std::optional<MotionGate> read_gate(const Reader& camera) {
  const TreeNode* const node = camera.node("gate");
  if (node == nullptr || (node->kind == NodeKind::kScalar && node->text == "none")) return std::nullopt;
  // Of the word alone, all is as the table has it.
  const Reader gate(config_keys(), node->kind == NodeKind::kMap ? node : nullptr, "cameras[].gate");
  const Reader motion = gate.map("motion");
  MotionGate result;
  result.threshold = static_cast<int>(motion.integer("threshold"));
  result.region = motion.points("region");
  result.longest = gate.duration("longest");
  return result;
}

// `files: [a, b]` and `files: a` in a list of grants are "files: a", "files: b". What is neither stays, to be told.
std::vector<TreeNode> spelled_out(const TreeNode& grant) {
  const TreeNode* const files = grant.entries.size() == 1 ? grant.find("files") : nullptr;
  if (files == nullptr) return {grant};
  std::vector<TreeNode> paths = files->kind == NodeKind::kList ? files->items : std::vector<TreeNode>{*files};
  for (TreeNode& path : paths) {
    if (path.kind != NodeKind::kScalar || path.text.empty()) return {grant};
    path.text.insert(0, "files: ");
    path.quoted = true;
  }
  return paths;
}

void spell_out_grants(TreeNode& root) {
  TreeNode* const chain = root.find("postprocess");
  if (chain == nullptr) return;
  for (TreeNode& entry : chain->items) {
    TreeNode* const allow = entry.find("allow");
    if (allow == nullptr) continue;
    std::vector<TreeNode> grants;
    for (const TreeNode& grant : allow->items) {
      for (TreeNode& one : spelled_out(grant)) grants.push_back(std::move(one));
    }
    allow->items = std::move(grants);
  }
}

// What a model stands for where a configuration is wanted.
std::string around_model(const std::filesystem::path& model) {
  using Json = nlohmann::json;
  const std::string path = Json(model.filename().string()).dump(-1, ' ', false, Json::error_handler_t::replace);
  return "model: {path: " + path +
         "}\ncameras: [{name: test, source: {type: test}}]\npostprocess: [{plugin: detections}]\n";
}

class Loader {
 public:
  Loader(const std::string& name, const LoadOptions& options)
      : name_(name),
        files_{std::filesystem::path(name).parent_path(), options.check_files},
        card_keys_(options.card_keys) {}

  Reading run(std::string_view text, Overrides overrides) {
    std::optional<TreeNode> root = read_tree(text);
    if (!root) return {{}, std::move(problems_), {}};
    apply_overrides(*root, overrides, problems_);
    replace_references(*root, files_, problems_);
    spell_out_grants(*root);
    check_tree(config_keys(), *root, files_, problems_);
    check_relations(*root, files_, problems_);
    read_card(*root);
    Reading reading;
    collect_places(*root, "", reading);
    build(*root, reading.config);
    std::stable_sort(problems_.begin(), problems_.end(),
                     [this](const Problem& a, const Problem& b) { return comes_before(name_, a.place, b.place); });
    reading.problems = std::move(problems_);
    return reading;
  }

 private:
  // Problems that leave a tree (duplicate keys) wait for the others.
  std::optional<TreeNode> read_tree(std::string_view text) {
    std::optional<TreeNode> root = parse_yaml(name_, text, problems_);
    if (root && root->kind == NodeKind::kMap) return root;
    if (root && root->kind != NodeKind::kNull) {
      problems_.push_back({root->place, {}, "expected a map of keys such as model and cameras"});
    } else if (problems_.empty()) {
      problems_.push_back(
          {{name_, 0, 0}, {}, "is empty; at least model and cameras are needed (`camd config` prints an example)"});
    }
    return std::nullopt;
  }

  void read_card(const TreeNode& root) {
    const TreeNode* model = root.find("model");
    if (model == nullptr) return;
    const TreeNode* path = model->find("path");
    const TreeNode* card = model->find("card");
    if (card != nullptr) {
      std::error_code error;
      const bool is_text = card->kind == NodeKind::kScalar && !card->text.empty();
      if (is_text && std::filesystem::is_regular_file(resolve(*card, files_), error))
        card_path_ = resolve(*card, files_);
    } else if (path != nullptr && path->kind == NodeKind::kScalar && !path->text.empty()) {
      card_path_ = find_model_card(resolve(*path, files_));
      // A configuration may stand beside its model under the model's name.
      std::error_code error;
      if (card_path_ && std::filesystem::equivalent(*card_path_, name_, error)) card_path_.reset();
    }
    if (card_path_) card_tree_ = read_card_tree(*card_path_, card_keys_, problems_);
  }

  // Whether all at `key` is right.
  [[nodiscard]] bool right(const std::string& key) const {
    return std::none_of(problems_.begin(), problems_.end(),
                        [&](const Problem& p) { return !of_card(p) && concerns(p, key); });
  }
  [[nodiscard]] bool of_card(const Problem& problem) const {
    return card_path_ && problem.place.file == card_path_->string();
  }

  // What is wrong is left out.
  void build(const TreeNode& root, Config& config) {
    config.file = {name_, 0, 0};
    const Reader reader(config_keys(), &root, "");
    if (right("device")) config.device = *parse_device(reader.text("device"));
    const bool right_card =
        std::none_of(problems_.begin(), problems_.end(), [this](const Problem& p) { return of_card(p); });
    if (const TreeNode* devices = reader.node("devices"); devices != nullptr && right("devices")) {
      config.all_devices = devices->kind == NodeKind::kScalar;
      for (const std::string& device : reader.texts("devices")) config.devices.push_back(*parse_device(device));
    }
    if (right("model") && right_card) config.model = read_model(reader.map("model"), config);
    if (right("pipeline")) {
      const Reader pipeline = reader.map("pipeline");
      config.pipeline.slots = static_cast<int>(pipeline.integer("slots"));
      config.pipeline.transfer = pipeline.word("transfer", kTransfers);
      config.pipeline.streams = pipeline.word("streams", kStreams);
      config.pipeline.max_age = pipeline.duration("max_age");
    }
    each(root, "cameras", [&](const TreeNode& node, const std::string& key) {
      const TreeNode& source = *node.find("source");
      const Reader camera(config_keys(), &node, "cameras[]");
      config.cameras.push_back(Camera{node.find("name")->text, read_source(source, files_), source.place,
                                      key + ".source", static_cast<int>(camera.integer("max_megapixels")),
                                      camera.word("decode", kDecodeModes), camera.word("damaged", kDamagedModes),
                                      read_gate(camera)});
    });
    each(root, "postprocess", [&](const TreeNode& node, const std::string& key) {
      config.postprocess.push_back(read_postprocessor(node, key));
    });
    if (right("metrics")) config.metrics.period = reader.map("metrics").duration("period");
    if (right("http")) config.http = read_http(reader.map("http"));
  }

  [[nodiscard]] Http read_http(const Reader& reader) const {
    Http http;
    if (reader.node("listen") != nullptr) http.listen = reader.text("listen");
    if (reader.node("token") != nullptr) http.token = reader.text("token");
    if (files_.must_exist) base::hide_secret(http.token);  // also where it stands in the file itself
    return http;
  }

  // The elements of a list that are right.
  template <class Take>
  void each(const TreeNode& root, const std::string& name, Take&& take) const {
    const TreeNode* list = root.find(name);
    if (list == nullptr) return;
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      const std::string key = fmt::format("{}.{}", name, i);
      if (right(key)) take(list->items[i], key);
    }
  }

  Model read_model(const Reader& reader, Config& config) {
    Model model;
    model.path = resolve(*reader.node("path"), files_);
    model.engine = reader.word("engine", kEngines);
    model.precision = reader.word("precision", kPrecisions);
    model.cut_at = reader.texts("cut_at");
    const Reader input = reader.map("input");
    model.input = read_input(input);
    if (input.node("width") != nullptr) model.input.width = static_cast<int>(input.integer("width"));
    if (input.node("height") != nullptr) model.input.height = static_cast<int>(input.integer("height"));
    model.card = card_path_;
    if (!card_tree_) return model;
    const ModelCard card = to_model_card(*card_path_, *card_tree_, card_keys_);
    model.card_json = card.rest_json;
    const TreeNode* card_input = card_tree_->find("input");
    const auto complete = [&](std::string_view name, auto& value, const auto& from_card) {
      if (value || !from_card) return;
      value = from_card;
      config.places.emplace(fmt::format("model.input.{}", name), card_input->find(name)->place);
    };
    if (model.cut_at.empty() && !card.cut_at.empty()) {
      model.cut_at = card.cut_at;
      config.places.emplace("model.cut_at", card_tree_->find("cut_at")->place);
    }
    complete("color", model.input.color, card.input.color);
    complete("mean", model.input.mean, card.input.mean);
    complete("scale", model.input.scale, card.input.scale);
    complete("resize", model.input.resize, card.input.resize);
    complete("position", model.input.position, card.input.position);
    complete("pad", model.input.pad, card.input.pad);
    return model;
  }

  Postprocessor read_postprocessor(const TreeNode& entry, const std::string& key) {
    const TreeNode& plugin = *entry.find("plugin");
    Postprocessor result;
    result.place = entry.place;
    result.key = key;
    result.plugin = plugin.text;
    if (is_library_path(plugin.text)) {
      result.plugin = resolve(plugin, files_).string();
      // dlopen() searches the system's folders for a name without a '/'.
      if (result.plugin.find('/') == std::string::npos) result.plugin = "./" + result.plugin;
    }
    const TreeNode* written = entry.find("config");
    if (written != nullptr && written->kind == NodeKind::kMap) {
      result.config_json = to_json(*written, key + ".config", problems_).dump();
    }
    const Reader reader(config_keys(), &entry, "postprocess[]");
    if (reader.node("isolation") != nullptr) {
      result.isolation = reader.word("isolation", kIsolations);
    } else {
      result.isolation = is_library_path(plugin.text) ? Isolation::kProcess : Isolation::kNone;
    }
    result.instances = reader.word("instances", kInstances);
    result.nice = reader.integer("nice");
    if (reader.node("worker") != nullptr) result.worker = reader.text("worker");
    result.deadline = reader.duration("deadline");
    result.memory_bytes = *parse_size(reader.text("memory"));
    result.on_failure = reader.word("on_failure", kOnFailures);
    result.allow = reader.texts("allow");
    if (reader.node("python") != nullptr) result.python = reader.text("python");
    const bool python = result.plugin.ends_with(".py");
    if (python && result.isolation == Isolation::kNone) {
      problems_.push_back({reader.node("isolation")->place, key + ".isolation",
                           "a plug-in in Python runs in a process of its own: isolation: process"});
    }
    if (!python && !result.python.empty()) {
      problems_.push_back({reader.node("python")->place, key + ".python", "is for a plug-in in Python, a .py"});
    }
    return result;
  }

  const std::string& name_;
  FileRules files_;
  Table card_keys_;
  std::vector<Problem> problems_;
  std::optional<std::filesystem::path> card_path_;
  std::optional<TreeNode> card_tree_;
};

Config whole(Reading reading) {
  if (!reading.problems.empty()) throw ConfigErrors(std::move(reading.problems));
  return std::move(reading.config);
}

}  // namespace

Reading read(const std::filesystem::path& path, Overrides overrides, const LoadOptions& options) {
  std::error_code unknown;
  // One of another format is refused where its file is read, which says how to mend it.
  const bool is_model = path.extension() == ".onnx" || !base::foreign_model_format(path.extension().string()).empty();
  if (is_model && std::filesystem::is_regular_file(path, unknown)) {
    return Loader(path.string(), options).run(around_model(path), overrides);
  }
  std::vector<Problem> problems;
  const auto text = read_text(path.string(), problems);
  if (!text) return {{}, std::move(problems), {}};
  return Loader(path.string(), options).run(*text, overrides);
}

Config load(const std::filesystem::path& path, Overrides overrides, const LoadOptions& options) {
  return whole(read(path, overrides, options));
}

Config load_text(const std::string& name, std::string_view text, Overrides overrides, const LoadOptions& options) {
  return whole(Loader(name, options).run(text, overrides));
}

}  // namespace camd::config
