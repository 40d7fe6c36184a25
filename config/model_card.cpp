#include "config/model_card.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "config/json.hpp"
#include "config/model_card_reader.hpp"
#include "config/model_card_text.hpp"

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

bool is_list(const TreeNode* node) { return node != nullptr && node->kind == NodeKind::kList; }

// Refuses lists that are not as long as the list that they go with.
void check_lengths(Table card_keys, const TreeNode& tree, std::vector<Problem>& problems) {
  for (const KeyRow& row : card_keys) {
    if (row.same_length_as.empty()) continue;
    const TreeNode* list = tree.find(row.path);
    const TreeNode* other = tree.find(row.same_length_as);
    if (!is_list(list) || !is_list(other) || list->items.size() == other->items.size()) continue;
    problems.push_back(
        {list->place, std::string(row.path),
         fmt::format("has {} elements for {} {}", list->items.size(), other->items.size(), row.same_length_as)});
  }
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

namespace {

std::optional<TreeNode> card_tree(const std::string& file, std::string_view text, Table card_keys,
                                  std::vector<Problem>& problems) {
  const std::size_t before = problems.size();
  std::optional<TreeNode> tree = parse_yaml(file, text, problems);
  if (problems.size() != before) return std::nullopt;
  if (!tree || tree->kind != NodeKind::kMap) {
    problems.push_back({{file, 0, 0}, {}, "is not a model card: expected a map of keys such as layout and classes"});
    return std::nullopt;
  }
  check_tree(card_keys, *tree, {}, problems);
  check_stretched(tree->find("input"), "input", problems);
  check_lengths(card_keys, *tree, problems);
  if (problems.size() != before) return std::nullopt;
  return tree;
}

}  // namespace

std::optional<TreeNode> read_card_tree(const std::filesystem::path& path, Table card_keys,
                                       std::vector<Problem>& problems) {
  const std::string file = path.string();
  const auto text = read_text(file, problems);
  return text ? card_tree(file, *text, card_keys, problems) : std::nullopt;
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

ModelCard to_model_card(const std::filesystem::path& path, const TreeNode& tree, Table card_keys) {
  const Reader reader(model_card_keys(), &tree, "");
  ModelCard card;
  card.path = path;
  if (reader.node("name") != nullptr) card.name = reader.text("name");
  card.input = read_input(reader.map("input"));
  card.cut_at = reader.texts("cut_at");
  std::vector<Problem> none;  // the tree was checked
  nlohmann::json rest = nlohmann::json::object();
  for (const Entry& entry : tree.entries) {
    if (find_row(model_card_keys(), entry.key) != nullptr) continue;
    nlohmann::json& value = rest[entry.key] = to_json(entry.value, entry.key, none);
    const KeyRow* element = find_row(card_keys, entry.key + "[]");
    if (element == nullptr || element->type != ValueType::kText || entry.value.kind != NodeKind::kList) continue;
    // Texts, even those that look like numbers.
    for (std::size_t i = 0; i < entry.value.items.size(); ++i) {
      const TreeNode& item = entry.value.items[i];
      if (item.kind == NodeKind::kScalar) value[i] = item.text;
    }
  }
  card.rest_json = rest.dump();
  return card;
}

ModelCard load_model_card(const std::filesystem::path& path, Table card_keys) {
  std::vector<Problem> problems;
  const auto tree = read_card_tree(path, card_keys, problems);
  if (!tree) throw ConfigErrors(std::move(problems));
  return to_model_card(path, *tree, card_keys);
}

ModelCard parse_model_card(const std::string& name, std::string_view text, Table card_keys) {
  std::vector<Problem> problems;
  const auto tree = card_tree(name, text, card_keys, problems);
  if (!tree) throw ConfigErrors(std::move(problems));
  return to_model_card(name, *tree, card_keys);
}

}  // namespace camd::config
