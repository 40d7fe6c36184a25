#include "config/secrets.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "base/secrets.hpp"
#include "config/value.hpp"

namespace camd::config {
namespace {

constexpr std::string_view kBegin = "${";
constexpr std::string_view kEscaped = "$${";
constexpr std::string_view kFile = "file:";
constexpr std::size_t kMostBytes = 4096;
// Stands for a reference while the shape of a URL is looked at; no text of a tree holds it.
constexpr char kMark = '\1';

// What is wrong with a reference.
struct Unusable {
  std::string why;
};

bool is_name(std::string_view text) {
  return !text.empty() && text.front() != '.' && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c == '_' || c == '-' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
  });
}

// The file's text without the end of its last line.
std::string text_of(const std::filesystem::path& path) {
  // A pipe or a device would hold up whoever reads it.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw Unusable{fmt::format("{}: {}", path.string(), std::strerror(errno))};
  struct stat found {};
  std::string text(kMostBytes + 1, '\0');
  const bool regular = fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
  const ssize_t size = regular ? read(fd, text.data(), text.size()) : -1;
  close(fd);
  if (size < 0) throw Unusable{fmt::format("{}: is no file that can be read", path.string())};
  if (static_cast<std::size_t>(size) > kMostBytes) {
    throw Unusable{fmt::format("{}: is larger than {} bytes", path.string(), kMostBytes)};
  }
  text.resize(static_cast<std::size_t>(size));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

// Where the kernel keeps the environment that this process was started with, and shows it in /proc/PID/environ
// (proc(5): env_start and env_end, fields 50 and 51 of stat). Empty where that cannot be known.
std::pair<std::uintptr_t, std::uintptr_t> started_with() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t name_ends = text.rfind(')');  // the second field, which may hold anything
  if (name_ends == std::string::npos) return {};
  std::istringstream fields(text.substr(name_ends + 1));
  std::string skipped;
  for (int field = 3; field < 50; ++field) fields >> skipped;
  std::uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end)) return {};
  return {begin, end};
}

// The value of a variable. It stays in the environment, but /proc/PID/environ does not show it any more: there stand
// as many stars.
const char* taken_from_environment(const char* name) {
  char* const shown = std::getenv(name);
  if (shown == nullptr) return nullptr;
  static const std::pair<std::uintptr_t, std::uintptr_t> area = started_with();
  const auto address = reinterpret_cast<std::uintptr_t>(shown);
  const std::size_t size = std::strlen(shown);
  if (address < area.first || address + size >= area.second) return shown;
  if (setenv(name, std::string(shown, size).c_str(), 1) != 0) return shown;
  std::memset(shown, '*', size);
  return std::getenv(name);
}

std::string value_of(std::string_view reference, const SourcePlace& place, const FileRules& files) {
  if (!files.must_exist) return "secret";
  if (reference.starts_with(kFile)) {
    TreeNode path;
    path.place = place;
    path.text = reference.substr(kFile.size());
    return text_of(resolve(path, files));
  }
  const std::string name(reference);
  if (!is_name(name)) throw Unusable{"write ${NAME}, ${file:PATH}, or $${ for the text ${"};
  if (const char* const value = taken_from_environment(name.c_str())) return value;
  if (const char* const folder = std::getenv("CREDENTIALS_DIRECTORY")) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return text_of(path);
  }
  throw Unusable{
      fmt::format("{} is not set: set it in the environment, or load a credential of this name (systemd: "
                  "LoadCredential={}:FILE)",
                  name, name)};
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return encoded;
}

// A text in parts: what stands between references, and what they stand for.
struct Part {
  std::string text;
  bool from_reference = false;
};

std::vector<Part> parts_of(const TreeNode& node, const FileRules& files) {
  std::vector<Part> parts(1);
  std::string_view rest = node.text;
  while (!rest.empty()) {
    if (rest.starts_with(kEscaped)) {
      parts.back().text += kBegin;
      rest.remove_prefix(kEscaped.size());
    } else if (rest.starts_with(kBegin)) {
      const std::size_t end = rest.find('}');
      if (end == std::string_view::npos) throw Unusable{"${ without its }: write $${ for the text ${"};
      std::string value = value_of(rest.substr(kBegin.size(), end - kBegin.size()), node.place, files);
      const std::string name(rest.substr(0, end + 1));
      if (value.empty()) throw Unusable{fmt::format("{} is empty", name)};
      if (!is_plain_text(value)) throw Unusable{fmt::format("{} is no single line of UTF-8", name)};
      parts.push_back({std::move(value), true});
      parts.push_back({});
      rest.remove_prefix(end + 1);
    } else {
      parts.back().text += rest.front();
      rest.remove_prefix(1);
    }
  }
  return parts;
}

// A URL's login stands behind "://" and before the last '@' in front of the path: there a value may hold anything.
void encode_login(std::vector<Part>& parts) {
  std::string shape;
  for (const Part& part : parts) shape += part.from_reference ? std::string(1, kMark) : part.text;
  const std::size_t scheme = shape.find("://");
  if (scheme == std::string::npos) return;
  const std::size_t begin = scheme + 3;
  const std::size_t end = std::min(shape.find_first_of("/?# \"'", begin), shape.size());
  const std::size_t at = shape.substr(0, end).rfind('@');
  if (at == std::string::npos || at < begin) return;
  std::size_t position = 0;
  for (Part& part : parts) {
    const bool in_login = position >= begin && position < at;
    position += part.from_reference ? 1 : part.text.size();
    if (!part.from_reference) continue;
    if (in_login) part.text = percent_encoded(part.text);
  }
}

class References {
 public:
  References(const FileRules& files, std::vector<Problem>& problems) : files_(files), problems_(problems) {}

  // `allowed`: references are read here.
  // NOLINTNEXTLINE(misc-no-recursion): a tree is at most kMaxDepth deep
  void walk(TreeNode& node, const std::string& key, bool allowed) {
    if (key == "http") read_token_file(node);
    const auto child = [&key](const std::string& name) { return key.empty() ? name : key + "." + name; };
    if (node.kind == NodeKind::kScalar) replace(node, key, allowed);
    for (std::size_t i = 0; i < node.items.size(); ++i) walk(node.items[i], child(std::to_string(i)), allowed);
    for (Entry& entry : node.entries) {
      const bool begins_here = (entry.key == "source" && key.starts_with("cameras.") && !inside(key)) ||
                               (entry.key == "config" && key.starts_with("postprocess.") && !inside(key)) ||
                               (entry.key == "token" && key == "http");
      walk(entry.value, child(shortened(entry.key)), allowed || begins_here);
    }
  }

 private:
  // `token_file: PATH` becomes `token: ${file:PATH}`, so that nobody else has to know of it.
  void read_token_file(TreeNode& http) {
    const auto file = std::find_if(http.entries.begin(), http.entries.end(),
                                   [](const Entry& entry) { return entry.key == "token_file"; });
    if (file == http.entries.end() || file->value.kind != NodeKind::kScalar) return;
    if (http.find("token") != nullptr) {
      problems_.push_back({file->place, "http.token_file", "is instead of http.token: leave one of them out"});
      return;
    }
    TreeNode& value = file->value;
    try {
      std::string token = files_.must_exist ? text_of(resolve(value, files_)) : "secret";
      if (token.empty()) throw Unusable{fmt::format("{} is empty", value.text)};
      if (!is_plain_text(token)) throw Unusable{fmt::format("{} is no single line of UTF-8", value.text)};
      if (files_.must_exist) base::hide_secret(token);
      value.text = without_references(token);  // it is walked through as well
      value.hidden = value.quoted = true;
      file->key = "token";
    } catch (const Unusable& unusable) {
      problems_.push_back({value.place, "http.token_file", unusable.why});
    }
  }

  // Whether the key lies below an element of the list.
  static bool inside(const std::string& key) { return key.find('.', key.find('.') + 1) != std::string::npos; }

  void replace(TreeNode& node, const std::string& key, bool allowed) {
    if (node.text.find(kBegin) == std::string::npos) return;
    if (!allowed) {
      problems_.push_back(
          {node.place, key, "${...} is read in cameras[].source, postprocess[].config and http.token only"});
      return;
    }
    try {
      std::vector<Part> parts = parts_of(node, files_);
      for (const Part& part : parts) {
        if (!part.from_reference || !files_.must_exist) continue;
        base::hide_secret(part.text);
        base::hide_secret(percent_encoded(part.text));  // as a URL has it, here or in a message
      }
      encode_login(parts);
      node.text.clear();
      for (const Part& part : parts) {
        node.hidden = node.hidden || part.from_reference;
        node.text += part.text;
      }
      node.quoted = true;  // a password of digits is a text
    } catch (const Unusable& unusable) {
      problems_.push_back({node.place, key, unusable.why});
    }
  }

  const FileRules& files_;
  std::vector<Problem>& problems_;
};

}  // namespace

void replace_references(TreeNode& root, const FileRules& files, std::vector<Problem>& problems) {
  References(files, problems).walk(root, "", false);
}

std::string without_references(std::string_view text) {
  std::string escaped(text);
  for (std::size_t at = escaped.find(kBegin); at != std::string::npos;
       at = escaped.find(kBegin, at + kEscaped.size())) {
    escaped.replace(at, kBegin.size(), kEscaped);
  }
  return escaped;
}

}  // namespace camd::config
