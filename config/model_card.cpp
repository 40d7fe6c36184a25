#include "config/model_card.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "config/json.hpp"
#include "config/model_card_reader.hpp"

namespace camd::config {
namespace {

constexpr std::array<std::pair<std::string_view, ColorOrder>, 2> kColors = {
    {{"bgr", ColorOrder::kBgr}, {"rgb", ColorOrder::kRgb}}};
constexpr std::array<std::pair<std::string_view, ResizeMode>, 2> kResizes = {
    {{"letterbox", ResizeMode::kLetterbox}, {"stretch", ResizeMode::kStretch}}};
constexpr std::array<std::pair<std::string_view, LetterboxPosition>, 2> kPositions = {
    {{"centre", LetterboxPosition::kCentre}, {"top_left", LetterboxPosition::kTopLeft}}};

// "marker-640x360" without its size: "marker". Empty when it ends otherwise.
std::string without_size(std::string_view stem) {
  constexpr std::string_view kDigits = "0123456789";
  const auto dash = stem.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return {};
  const std::string_view size = stem.substr(dash + 1);
  const auto x = size.find('x');
  if (x == std::string_view::npos || x == 0 || x + 1 == size.size()) return {};
  if (size.substr(0, x).find_first_not_of(kDigits) != std::string_view::npos) return {};
  if (size.substr(x + 1).find_first_not_of(kDigits) != std::string_view::npos) return {};
  return std::string(stem.substr(0, dash));
}

}  // namespace

std::string_view to_string(ColorOrder color) noexcept { return color == ColorOrder::kBgr ? "bgr" : "rgb"; }
std::string_view to_string(ResizeMode mode) noexcept {
  return mode == ResizeMode::kLetterbox ? "letterbox" : "stretch";
}
std::string_view to_string(LetterboxPosition position) noexcept {
  return position == LetterboxPosition::kCentre ? "centre" : "top_left";
}

std::optional<std::filesystem::path> find_model_card(const std::filesystem::path& model) {
  const std::string stem = model.stem().string();
  for (const std::string& name : {stem, without_size(stem)}) {
    if (name.empty()) continue;
    std::filesystem::path card = model.parent_path() / (name + ".yaml");
    std::error_code error;
    if (std::filesystem::exists(card, error)) return card;
  }
  return std::nullopt;
}

std::optional<TreeNode> read_card_tree(const std::filesystem::path& path, std::vector<Problem>& problems) {
  const std::size_t before = problems.size();
  const std::string file = path.string();
  const auto text = read_text(file, problems);
  if (!text) return std::nullopt;
  std::optional<TreeNode> tree = parse_yaml(file, *text, problems);
  if (problems.size() != before) return std::nullopt;
  if (!tree || tree->kind != NodeKind::kMap) {
    problems.push_back({{file, 0, 0}, {}, "is not a model card: expected a map of keys such as layout and classes"});
    return std::nullopt;
  }
  check_tree(model_card_keys(), *tree, {}, problems);
  check_stretched(tree->find("input"), "input", problems);
  const TreeNode* strides = tree->find("strides");
  const TreeNode* anchors = tree->find("anchors");
  const auto is_list = [](const TreeNode* node) { return node != nullptr && node->kind == NodeKind::kList; };
  if (is_list(strides) && is_list(anchors) && strides->items.size() != anchors->items.size()) {
    problems.push_back({anchors->place, "anchors",
                        fmt::format("has {} elements for {} strides", anchors->items.size(), strides->items.size())});
  }
  if (problems.size() != before) return std::nullopt;
  return tree;
}

ModelInput read_input(const Reader& input) {
  ModelInput result;
  if (input.node("color") != nullptr) result.color = input.word("color", kColors);
  result.mean = input.triple("mean");
  result.scale = input.triple("scale");
  if (input.node("resize") != nullptr) result.resize = input.word("resize", kResizes);
  if (input.node("position") != nullptr) result.position = input.word("position", kPositions);
  if (input.node("pad") != nullptr) result.pad = static_cast<float>(input.number("pad"));
  return result;
}

ModelCard to_model_card(const std::filesystem::path& path, const TreeNode& tree) {
  const Reader reader(model_card_keys(), &tree, "");
  ModelCard card;
  card.path = path;
  if (reader.node("name") != nullptr) card.name = reader.text("name");
  card.input = read_input(reader.map("input"));
  card.cut_at = reader.texts("cut_at");
  std::vector<Problem> none;  // the tree was checked
  nlohmann::json detections = nlohmann::json::object();
  for (const Entry& entry : tree.entries) {
    if (entry.key == "name" || entry.key == "input" || entry.key == "cut_at") continue;
    detections[entry.key] = to_json(entry.value, entry.key, none);
  }
  // Class names are texts, even those that look like numbers.
  if (const TreeNode* classes = tree.find("classes"); classes != nullptr && classes->kind == NodeKind::kList) {
    for (std::size_t i = 0; i < classes->items.size(); ++i) {
      if (classes->items[i].kind == NodeKind::kScalar) detections["classes"][i] = classes->items[i].text;
    }
  }
  card.detections_json = detections.dump();
  return card;
}

ModelCard load_model_card(const std::filesystem::path& path) {
  std::vector<Problem> problems;
  const auto tree = read_card_tree(path, problems);
  if (!tree) throw ConfigErrors(std::move(problems));
  return to_model_card(path, *tree);
}

}  // namespace camd::config
