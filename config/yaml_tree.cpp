#include "config/yaml_tree.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "config/value.hpp"

namespace camd::config {
namespace {

// Ends a parse that cannot go on.
struct Refused {
  Problem problem;
};

// Builds the tree from yaml-cpp's events and refuses while they come: the recursion in yaml-cpp's parser is as deep
// as the events that it has sent, so throwing here bounds its stack, too.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, std::string_view text, std::vector<Problem>& problems)
      : file_(file), text_(text), problems_(problems) {}

  // After the last event.
  [[nodiscard]] std::optional<TreeNode> take() {
    if (bad_key_) throw Refused{*bad_key_};
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "a second document begins here; one file holds one configuration");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    TreeNode node = make(mark, NodeKind::kNull);
    // yaml-cpp marks an absent value where the next token stands; the user looks for it beside its key or its dash.
    if (!stack_.empty() && stack_.back().has_key) {
      node.place = stack_.back().key_place;
    } else if (!stack_.empty() && stack_.back().node.kind == NodeKind::kList) {
      node.place = place_before(mark);
    }
    attach(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    refuse(mark, "aliases (*name) are not used here; write the value out");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    refuse(mark, fmt::format("anchors (&{}) are not used here; text that begins with & needs quotes", shortened(name)));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    check_tag(mark, tag);
    check_closing_quote(mark);
    TreeNode node = make(mark, NodeKind::kScalar);
    node.text = value;
    node.quoted = tag == "!";
    attach(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, NodeKind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, NodeKind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    TreeNode node;
    bool has_key = false;
    std::string key;
    SourcePlace key_place;
    std::map<std::string, int> lines;  // of the keys seen
  };

  [[nodiscard]] SourcePlace place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string message) const {
    throw Refused{Problem{place(mark), {}, std::move(message)}};
  }

  // The last character that is not white, before `mark`.
  [[nodiscard]] SourcePlace place_before(const YAML::Mark& mark) const {
    const std::string_view before = text_.substr(0, static_cast<std::size_t>(mark.pos));
    const auto last = before.find_last_not_of(" \t\r\n");
    if (last == std::string_view::npos) return place(mark);
    const auto line_start = before.rfind('\n', last);
    const auto lines = std::count(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(last), '\n');
    const std::size_t column = line_start == std::string_view::npos ? last : last - line_start - 1;
    return {file_, static_cast<int>(lines) + 1, static_cast<int>(column) + 1};
  }

  // yaml-cpp 0.7 takes the rest of the text for a quoted scalar whose end is missing.
  void check_closing_quote(const YAML::Mark& mark) const {
    const std::string_view rest = text_.substr(static_cast<std::size_t>(mark.pos));
    if (rest.empty() || (rest[0] != '"' && rest[0] != '\'')) return;
    const char quote = rest[0];
    for (std::size_t i = 1; i < rest.size(); ++i) {
      if (quote == '"' && rest[i] == '\\') {
        ++i;
      } else if (rest[i] == quote) {
        if (quote == '"' || i + 1 == rest.size() || rest[i + 1] != quote) return;
        ++i;  // '' stands for one quote
      }
    }
    refuse(mark, fmt::format("YAML syntax: the closing {} is missing", quote));
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    // "" and "?": none was written; "!": quoted.
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, fmt::format("tags ({}) are not used here; text that begins with ! needs quotes", shortened(tag)));
    }
  }

  [[nodiscard]] TreeNode make(const YAML::Mark& mark, NodeKind kind) {
    if (++nodes_ > kMaxNodes) refuse(mark, fmt::format("more than {} values", kMaxNodes));
    TreeNode node;
    node.kind = kind;
    node.place = place(mark);
    return node;
  }

  void open(const YAML::Mark& mark, const std::string& tag, NodeKind kind) {
    check_tag(mark, tag);
    if (stack_.size() >= kMaxDepth) refuse(mark, fmt::format("nested more than {} levels deep", kMaxDepth));
    Open level;
    level.node = make(mark, kind);
    stack_.push_back(std::move(level));
  }

  void close() {
    TreeNode node = std::move(stack_.back().node);
    stack_.pop_back();
    attach(std::move(node));
  }

  void attach(TreeNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = stack_.back();
    if (parent.node.kind == NodeKind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      if (node.kind != NodeKind::kScalar && !bad_key_) {
        // yaml-cpp takes an unclosed bracket for a key: what it says later is nearer to the truth.
        bad_key_ =
            Problem{node.place, {}, "a key must be text, not a list or a map; an empty one or null needs quotes"};
      }
      parent.has_key = true;
      parent.key = std::move(node.text);
      parent.key_place = node.place;
    } else {
      parent.has_key = false;
      const auto [seen, is_new] = parent.lines.emplace(parent.key, parent.key_place.line);
      if (is_new) {
        parent.node.entries.push_back(Entry{std::move(parent.key), parent.key_place, std::move(node)});
      } else {
        problems_.push_back(Problem{parent.key_place, dotted_key(),
                                    fmt::format("written twice in one map, first in line {}", seen->second)});
      }
    }
  }

  // The key that the innermost open map is at.
  [[nodiscard]] std::string dotted_key() const {
    std::string key;
    for (const Open& level : stack_) {
      if (!key.empty()) key += '.';
      key += level.node.kind == NodeKind::kList ? std::to_string(level.node.items.size()) : shortened(level.key);
    }
    return key;
  }

  const std::string& file_;
  std::string_view text_;
  std::vector<Problem>& problems_;
  std::vector<Open> stack_;
  std::optional<Problem> bad_key_;
  std::optional<TreeNode> root_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

// The length of the UTF-8 sequence that begins `text` (RFC 3629, section 4), or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&byte](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
    return tail(1) && tail(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
    return tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

// What yaml-cpp does not refuse, or refuses with a message that helps nobody.
void check_bytes(const std::string& file, std::string_view text, std::vector<Problem>& problems) {
  SourcePlace at{file, 1, 1};
  bool indentation = true;
  bool tab = false;
  SourcePlace tab_place;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      problems.push_back({at, {}, fmt::format("byte 0x{:02X} is not valid UTF-8", byte)});
      return;
    }
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F) {
      problems.push_back({at, {}, fmt::format("control character 0x{:02X} is not allowed in YAML", byte)});
      return;
    }
    if (byte == '\n') {
      ++at.line;
      at.column = 1;
      indentation = true;
      tab = false;
    } else {
      if (indentation && byte == '\t' && !tab) {
        tab = true;
        tab_place = at;
      } else if (indentation && byte != ' ' && byte != '\t' && byte != '\r') {
        if (tab && byte != '#')
          problems.push_back({tab_place, {}, "a tab indents this line; YAML is indented by spaces"});
        indentation = false;
      }
      at.column += static_cast<int>(length);
    }
    text.remove_prefix(length);
  }
}

// yaml-cpp's words, and what to do about them.
std::string syntax_problem(const std::string& message) {
  if (message == YAML::ErrorMsg::UNKNOWN_ANCHOR) {
    return "aliases (*name) are not used here; text that begins with * needs quotes";
  }
  std::string_view hint;
  if (message == YAML::ErrorMsg::UNKNOWN_TOKEN) hint = " (text that begins with @, ` or % needs quotes)";
  if (message == YAML::ErrorMsg::MAP_VALUE) {
    hint = " (the indentation does not fit, or text that holds a colon and a space needs quotes)";
  }
  if (message == YAML::ErrorMsg::END_OF_MAP_FLOW || message == YAML::ErrorMsg::END_OF_SEQ_FLOW) {
    hint = " (a bracket is not closed)";
  }
  return fmt::format("YAML syntax: {}{}", message, hint);
}

std::string size_problem() {
  return fmt::format("larger than {} KiB, which no configuration is", kMaxTextBytes / 1024);
}

}  // namespace

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    if (length == 0 || byte < 0x20 || byte == 0x7F) return false;
    text.remove_prefix(length);
  }
  return true;
}

const TreeNode* TreeNode::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

TreeNode* TreeNode::find(std::string_view key) {
  for (Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::optional<TreeNode> parse_yaml(const std::string& file, std::string_view text, std::vector<Problem>& problems) {
  if (text.size() > kMaxTextBytes) {
    problems.push_back({{file, 0, 0}, {}, size_problem()});
    return std::nullopt;
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t before = problems.size();
  check_bytes(file, text, problems);
  if (problems.size() != before) return std::nullopt;

  TreeBuilder builder(file, text, problems);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.take();
  } catch (const Refused& refused) {
    problems.push_back(refused.problem);
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    const SourcePlace place =
        error.mark.is_null() ? SourcePlace{file, 0, 0} : SourcePlace{file, error.mark.line + 1, error.mark.column + 1};
    problems.push_back({place, {}, syntax_problem(error.msg)});
    return std::nullopt;
  }
}

std::optional<std::string> read_text(const std::string& file, std::vector<Problem>& problems) {
  const auto fail = [&](const std::string& why) {
    problems.push_back({{file, 0, 0}, {}, why});
    return std::nullopt;
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) return fail("is a folder, not a file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"), &std::fclose);
  if (stream == nullptr) {
    return fail(errno == ENOENT ? "no such file" : fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  std::string text(kMaxTextBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stream.get()));
  if (std::ferror(stream.get()) != 0) return fail(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (text.size() > kMaxTextBytes) return fail(size_problem());
  return text;
}

}  // namespace camd::config
