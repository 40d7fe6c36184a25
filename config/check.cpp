#include "config/check.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <system_error>

#include "config/endpoint.hpp"
#include "config/json.hpp"
#include "config/suggest.hpp"
#include "config/value.hpp"

namespace camd::config {
namespace {

std::string child_key(const std::string& parent, std::string_view name) {
  return parent.empty() ? shortened(name) : fmt::format("{}.{}", parent, shortened(name));
}

std::string found(const TreeNode& node) {
  switch (node.kind) {
    case NodeKind::kNull: return "nothing";
    case NodeKind::kList: return "a list";
    case NodeKind::kMap: return "a map";
    case NodeKind::kScalar:
      if (node.hidden) return "what a reference stands for";
      return node.quoted ? fmt::format("the text \"{}\"", shortened(node.text)) : shortened(node.text);
  }
  return {};
}

std::string did_you_mean(std::string_view word) {
  return word.empty() ? std::string() : fmt::format(" (did you mean {}?)", word);
}

// What people write for a word that has another name here.
std::string_view synonym(std::string_view word) {
  static const std::map<std::string_view, std::string_view> kSynonyms = {
      {"cpu", "host"}, {"gpu", "cuda"},  {"yes", "true"}, {"on", "true"},
      {"no", "false"}, {"off", "false"}, {"1", "true"},   {"0", "false"},
  };
  const auto it = kSynonyms.find(word);
  return it == kSynonyms.end() ? std::string_view() : it->second;
}

template <typename T, typename Parse>
bool in_range(const KeyRow& row, T value, Parse parse) {
  return (row.min.empty() || value >= *parse(row.min)) && (row.max.empty() || value <= *parse(row.max));
}

class Checker {
 public:
  Checker(Table table, const FileRules& files, std::vector<Problem>& problems)
      : table_(table), files_(files), problems_(problems) {}

  // `pattern` is the map's path in the table, `key` its dotted key in the file.
  // NOLINTNEXTLINE(misc-no-recursion): a tree's depth is limited
  void check_map(const TreeNode& map, const std::string& pattern, const std::string& key,
                 std::string_view source_type) {
    const KeyRow* type_row = find_row(table_, pattern + ".type");
    if (type_row != nullptr) source_type = known_word(*type_row, map.find("type"));
    const auto rows = rows_under(table_, pattern, source_type);
    for (const Entry& entry : map.entries) {
      const KeyRow* row = nullptr;
      for (const KeyRow* candidate : rows) {
        if (leaf(candidate->path) == entry.key) row = candidate;
      }
      if (row == nullptr) {
        unknown_key(entry, pattern, key, source_type);
      } else {
        check_value(entry.value, *row, child_key(key, entry.key), source_type);
      }
    }
    for (const KeyRow* row : rows) {
      // Which keys a source needs is known when its type is.
      if (!row->required || (!row->types.empty() && source_type.empty())) continue;
      if (map.find(leaf(row->path)) != nullptr) continue;
      const std::string example = row->example.empty() ? "" : fmt::format(", such as {}", row->example);
      add(map.place, child_key(key, leaf(row->path)),
          fmt::format("missing; needs {}{}", allowed(table_, *row), example));
    }
  }

 private:
  void add(const SourcePlace& place, const std::string& key, std::string message) {
    problems_.push_back({place, key, std::move(message)});
  }

  // The row's word that the node says, or nothing.
  static std::string_view known_word(const KeyRow& row, const TreeNode* node) {
    if (node == nullptr || node->kind != NodeKind::kScalar) return {};
    for (const std::string_view word : split_words(row.words)) {
      if (word == node->text) return word;
    }
    return {};
  }

  void unknown_key(const Entry& entry, const std::string& pattern, const std::string& key,
                   std::string_view source_type) {
    const std::string full = child_key(key, entry.key);
    std::vector<std::string_view> known;
    for (const KeyRow* row : rows_under(table_, pattern, source_type)) known.push_back(leaf(row->path));
    if (const KeyRow* other =
            find_row(table_, pattern.empty() ? entry.key : fmt::format("{}.{}", pattern, entry.key))) {
      add(entry.place, full,
          fmt::format("a source of type {} has no such key (type {} has); known here: {}", source_type,
                      fmt::join(split_words(other->types), ", "), fmt::join(known, ", ")));
      return;
    }
    std::string meant(nearest(entry.key, known));
    if (meant.empty()) {
      // Right name, wrong level.
      for (const KeyRow& row : table_) {
        if (!row.path.ends_with("[]") && leaf(row.path) == entry.key) {
          meant = row.path;
          break;
        }
      }
    }
    add(entry.place, full, fmt::format("unknown key; known here: {}{}", fmt::join(known, ", "), did_you_mean(meant)));
  }

  void wrong(const TreeNode& node, const KeyRow& row, const std::string& key, std::string_view hint = {}) {
    add(node.place, key, fmt::format("expected {}, found {}{}", allowed(table_, row), found(node), hint));
  }

  // NOLINTNEXTLINE(misc-no-recursion): a tree's depth is limited
  void check_value(const TreeNode& node, const KeyRow& row, const std::string& key, std::string_view source_type) {
    switch (row.type) {
      case ValueType::kMap:
      case ValueType::kList:
      case ValueType::kFree: check_container(node, row, key, source_type); return;
      case ValueType::kAny:
        if (node.kind == NodeKind::kNull) wrong(node, row, key);
        (void)to_json(node, key, problems_);
        return;
      case ValueType::kNumberOrList:
        if (node.kind == NodeKind::kList) {
          check_container(node, row, key, source_type);
        } else if (const KeyRow* element = find_row(table_, std::string(row.path) + "[]");
                   node.kind != NodeKind::kScalar || node.quoted || !number_fits(*element, node.text)) {
          wrong(node, row, key, unquote_hint(node));
        }
        return;
      case ValueType::kWordOrList:
        if (node.kind == NodeKind::kList) {
          check_container(node, row, key, source_type);
        } else if (node.kind != NodeKind::kScalar || !has_word(row.words, node.text)) {
          wrong(node, row, key);
        }
        return;
      case ValueType::kWordOrMap:
        if (node.kind == NodeKind::kMap) {
          check_map(node, std::string(row.path), key, source_type);
        } else if (node.kind == NodeKind::kScalar) {
          check_word(node, row, key);
        } else if (node.kind == NodeKind::kList) {
          wrong(node, row, key);
        }
        return;
      default:
        if (node.kind == NodeKind::kScalar) {
          check_scalar(node, row, key);
        } else {
          wrong(node, row, key);
        }
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): a tree's depth is limited
  void check_container(const TreeNode& node, const KeyRow& row, const std::string& key, std::string_view source_type) {
    // `metrics:` with every line below it commented out says nothing, and that is allowed where nothing is needed.
    if (node.kind == NodeKind::kNull && !row.required && (row.min.empty() || row.type == ValueType::kMap)) return;
    const NodeKind needed =
        row.type == ValueType::kMap || row.type == ValueType::kFree ? NodeKind::kMap : NodeKind::kList;
    if (node.kind != needed) {
      wrong(node, row, key);
      return;
    }
    if (row.type == ValueType::kFree) {
      (void)to_json(node, key, problems_);
      return;
    }
    if (row.type == ValueType::kMap) {
      check_map(node, std::string(row.path), key, source_type);
      return;
    }
    const auto count = static_cast<std::int64_t>(node.items.size());
    if (!in_range(row, count, parse_integer)) {
      add(node.place, key, fmt::format("expected {}, found {}", allowed(table_, row), count));
    }
    const KeyRow* element = find_row(table_, std::string(row.path) + "[]");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string item_key = fmt::format("{}.{}", key, i);
      if (element->type == ValueType::kMap && node.items[i].kind != NodeKind::kMap) {
        wrong(node.items[i], *element, item_key);  // `- ` with nothing behind it is a mistake, not an empty map
      } else {
        check_value(node.items[i], *element, item_key, source_type);
      }
    }
  }

  void check_scalar(const TreeNode& node, const KeyRow& row, const std::string& key) {
    switch (row.type) {
      case ValueType::kInteger: check_integer(node, row, key); break;
      case ValueType::kNumber:
        if (node.quoted || !number_fits(row, node.text)) wrong(node, row, key, unquote_hint(node));
        break;
      case ValueType::kBool:
        if (node.quoted || !parse_bool(node.text)) {
          wrong(node, row, key, did_you_mean(parse_bool(node.text) ? std::string_view(node.text) : synonym(node.text)));
        }
        break;
      case ValueType::kDuration: check_duration(node, row, key); break;
      case ValueType::kSize:
        if (const auto value = parse_size(node.text); !value || !in_range(row, *value, parse_size)) {
          wrong(node, row, key, value ? "" : " (units: KiB, MiB, GiB)");
        }
        break;
      case ValueType::kGrant: check_grant(node, row, key); break;
      case ValueType::kWord: check_word(node, row, key); break;
      case ValueType::kDevice:
        if (!parse_device(node.text)) {
          constexpr std::array<std::string_view, 3> kWords = {"auto", "cuda", "host"};
          const std::string_view meant = synonym(node.text);
          wrong(node, row, key, did_you_mean(meant.empty() ? nearest(node.text, kWords) : meant));
        }
        break;
      case ValueType::kText:
        if (node.text.empty()) wrong(node, row, key);
        break;
      case ValueType::kName:
        if (!is_name(node.text)) wrong(node, row, key);
        break;
      case ValueType::kUrl: check_url(node, row, key); break;
      case ValueType::kAddress:
        if (!parse_endpoint(node.text)) wrong(node, row, key);
        break;
      case ValueType::kFile: check_file(node, row, key); break;
      case ValueType::kPlugin:
        if (node.text.empty()) {
          wrong(node, row, key);
        } else if (is_library_path(node.text)) {
          check_file(node, row, key);
        }
        break;
      default: break;
    }
  }

  static bool is_name(std::string_view text) {
    constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return !text.empty() && text.size() <= 64 && text.find_first_not_of(kAllowed) == std::string_view::npos;
  }

  static bool number_fits(const KeyRow& row, std::string_view text) {
    const auto value = parse_number(text);
    return value && in_range(row, *value, parse_number);
  }

  static std::string_view unquote_hint(const TreeNode& node) {
    return node.quoted && parse_number(node.text) ? " (write it without quotes)" : "";
  }

  void check_integer(const TreeNode& node, const KeyRow& row, const std::string& key) {
    const auto value = parse_integer(node.text);
    if (node.quoted || !value || !in_range(row, *value, parse_integer)) wrong(node, row, key, unquote_hint(node));
  }

  void check_duration(const TreeNode& node, const KeyRow& row, const std::string& key) {
    const auto value = parse_duration(node.text);
    if (value && in_range(row, *value, parse_duration)) return;
    if (!value && parse_number(node.text) && !node.text.starts_with('-')) {
      wrong(node, row, key, fmt::format(" without a unit: write {}ms, or another of ns, us, ms, s, min, h", node.text));
    } else {
      wrong(node, row, key, value ? "" : " (units: ns, us, ms, s, min, h)");
    }
  }

  void check_grant(const TreeNode& node, const KeyRow& row, const std::string& key) {
    constexpr std::array<std::string_view, 2> kWords = {"network", "gpu"};
    if (std::find(kWords.begin(), kWords.end(), node.text) != kWords.end() || !granted_path(node.text).empty()) return;
    wrong(node, row, key, did_you_mean(nearest(node.text, kWords)));
  }

  void check_word(const TreeNode& node, const KeyRow& row, const std::string& key) {
    if (!known_word(row, &node).empty()) return;
    const std::string_view meant = synonym(node.text);
    const bool known = !meant.empty() && has_word(row.words, meant);
    wrong(node, row, key, did_you_mean(known ? meant : nearest(node.text, split_words(row.words))));
  }

  // The address is not repeated: it may hold a password.
  void check_url(const TreeNode& node, const KeyRow& row, const std::string& key) {
    for (const std::string_view scheme : {"rtsp://", "rtsps://"}) {
      if (node.text.starts_with(scheme) && node.text.size() > scheme.size() &&
          node.text.find(' ') == std::string::npos) {
        return;
      }
    }
    add(node.place, key, fmt::format("expected {} and a host, without spaces", allowed(table_, row)));
  }

  void check_file(const TreeNode& node, const KeyRow& row, const std::string& key) {
    if (node.text.empty()) {
      wrong(node, row, key);
      return;
    }
    if (!files_.must_exist) return;
    const std::filesystem::path path = resolve(node, files_);
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) {
      const std::string why =
          error && status.type() != std::filesystem::file_type::not_found ? error.message() : "no such file";
      add(node.place, key, fmt::format("{}: {}", why, path.string()));
    } else if (std::filesystem::is_directory(status)) {
      add(node.place, key, fmt::format("is a folder, not a file: {}", path.string()));
    } else if (::access(path.c_str(), R_OK) != 0) {
      add(node.place, key, fmt::format("cannot be read: {}: {}", std::strerror(errno), path.string()));
    }
  }

  Table table_;
  const FileRules& files_;
  std::vector<Problem>& problems_;
};

void check_reconnect(const TreeNode& source, const std::string& key, std::vector<Problem>& problems) {
  const TreeNode* reconnect = source.find("reconnect");
  const auto wait = [&](std::string_view name) -> std::optional<base::Duration> {
    const TreeNode* node = reconnect == nullptr ? nullptr : reconnect->find(name);
    if (node != nullptr) return parse_duration(node->text);
    return parse_duration(find_row(config_keys(), fmt::format("cameras[].source.reconnect.{}", name))->fallback);
  };
  const auto initial = wait("initial");
  const auto max = wait("max");
  if (reconnect == nullptr || !initial || !max || *initial <= *max) return;
  const TreeNode* written = reconnect->find("initial") != nullptr ? reconnect->find("initial") : reconnect->find("max");
  problems.push_back({written->place, key + ".reconnect.initial",
                      fmt::format("the first wait, {}, is longer than the longest, reconnect.max = {}",
                                  duration_text(*initial), duration_text(*max))});
}

// A gate looks at pictures in the CPU's memory, and drops some.
void check_gate(const TreeNode& camera, const std::string& key, std::vector<Problem>& problems) {
  const TreeNode* const gate = camera.find("gate");
  if (gate == nullptr || gate->kind == NodeKind::kNull || gate->text == "none") return;
  const TreeNode* const decode = camera.find("decode");
  if (decode != nullptr && decode->text == "gpu") {
    problems.push_back({gate->place, key + ".gate",
                        "looks at pictures in the CPU's memory, and decode: gpu keeps them out of it: write decode: "
                        "cpu, or leave out the gate"});
  }
  const TreeNode* const source = camera.find("source");
  const TreeNode* const realtime = source == nullptr ? nullptr : source->find("realtime");
  if (realtime != nullptr && realtime->text == "false") {
    problems.push_back(
        {gate->place, key + ".gate", "drops frames, and realtime: false drops none: leave out one of them"});
  }
}

// A token keeps others out only if it cannot be guessed.
constexpr std::size_t kShortestToken = 16;

void check_http(const TreeNode& http, const FileRules& files, std::vector<Problem>& problems) {
  const TreeNode* listen = http.find("listen");
  const TreeNode* token = http.find("token");
  if (token == nullptr) token = http.find("token_file");  // one that could not be read, which has been told
  if (listen == nullptr && token != nullptr) {
    problems.push_back({token->place, "http.token", "stands there without http.listen: there is no server to protect"});
  }
  const bool read = token != nullptr && http.find("token") == token &&
                    (files.must_exist || !token->hidden);  // else a word stands for it
  if (read && !token->text.empty() && token->text.size() < kShortestToken) {
    problems.push_back({token->place, "http.token",
                        fmt::format("has {} characters; it needs {} or more (`openssl rand -hex 32` makes one)",
                                    token->text.size(), kShortestToken)});
  }
  const std::optional<Endpoint> endpoint = listen == nullptr ? std::nullopt : parse_endpoint(listen->text);
  if (endpoint && !endpoint->is_loopback() && token == nullptr) {
    problems.push_back({listen->place, "http.listen",
                        fmt::format("{} can be reached by other machines: set http.token_file, or listen on 127.0.0.1",
                                    listen->text)});
  }
}

}  // namespace

void check_stretched(const TreeNode* input, const std::string& key, std::vector<Problem>& problems) {
  const TreeNode* resize = input == nullptr ? nullptr : input->find("resize");
  if (resize == nullptr || resize->text != "stretch") return;
  for (const std::string name : {"position", "pad"}) {
    const TreeNode* written = input->find(name);
    if (written == nullptr) continue;
    problems.push_back({written->place, key + "." + name,
                        "says how a letterboxed picture is padded, but resize is stretch: leave it out, or write "
                        "resize: letterbox"});
  }
}

void check_tree(Table table, const TreeNode& root, const FileRules& files, std::vector<Problem>& problems) {
  Checker(table, files, problems).check_map(root, "", "", {});
}

void check_relations(const TreeNode& root, const FileRules& files, std::vector<Problem>& problems) {
  const TreeNode* model = root.find("model");
  if (model != nullptr) check_stretched(model->find("input"), "model.input", problems);
  const TreeNode* device = root.find("device");
  const TreeNode* devices = root.find("devices");
  if (device != nullptr && devices != nullptr && devices->kind != NodeKind::kNull) {
    problems.push_back({devices->place, "devices",
                        fmt::format("stands beside `device` at {}: write one of them", to_string(device->place))});
  }
  if (const TreeNode* http = root.find("http")) check_http(*http, files, problems);
  const TreeNode* cameras = root.find("cameras");
  if (cameras == nullptr) return;
  std::map<std::string, SourcePlace> names;
  for (std::size_t i = 0; i < cameras->items.size(); ++i) {
    const std::string key = fmt::format("cameras.{}", i);
    if (const TreeNode* name = cameras->items[i].find("name"); name != nullptr && !name->text.empty()) {
      const auto [seen, is_new] = names.emplace(name->text, name->place);
      if (!is_new) {
        problems.push_back({name->place, key + ".name",
                            fmt::format("two cameras are named {}, the other one at {}", shortened(name->text),
                                        to_string(seen->second))});
      }
    }
    check_gate(cameras->items[i], key, problems);
    if (const TreeNode* source = cameras->items[i].find("source")) check_reconnect(*source, key + ".source", problems);
  }
}

std::filesystem::path resolve(const TreeNode& value, const FileRules& files) {
  // Line 0: given on the command line.
  const std::filesystem::path path(value.text);
  return (value.place.line == 0 ? path : files.folder / path).lexically_normal();
}

bool is_library_path(std::string_view plugin) {
  return plugin.find('/') != std::string_view::npos || plugin.ends_with(".so") || plugin.ends_with(".py");
}

std::optional<DeviceChoice> parse_device(std::string_view text) {
  if (text == "auto") return DeviceChoice{DeviceKind::kAuto, -1};
  if (text == "cuda") return DeviceChoice{DeviceKind::kCuda, -1};
  if (text == "host") return DeviceChoice{DeviceKind::kHost, -1};
  constexpr std::string_view kPrefix = "cuda:";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  unsigned index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index > 127) return std::nullopt;
  return DeviceChoice{DeviceKind::kCuda, static_cast<int>(index)};
}

}  // namespace camd::config
