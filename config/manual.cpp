// The tables of keys in the manual (config/describe.hpp).

#include <fmt/format.h>

#include "config/describe.hpp"
#include "config/key_table.hpp"

namespace camd::config {
namespace {

// "a|b" would end a cell.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string default_cell(const KeyRow& row) {
  if (row.required) return "required";
  return row.fallback.empty() ? std::string() : fmt::format("`{}`", cell(row.fallback));
}

}  // namespace

std::string keys_markdown(Table table) {
  std::string text = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const KeyRow& row : table) {
    if (row.help.empty()) continue;  // elements of a list: their list says what they are
    std::string help(row.help);
    if (!row.types.empty()) help += fmt::format(" (type {})", fmt::join(split_words(row.types), ", "));
    text +=
        fmt::format("| `{}` | {} | {} | {} |\n", row.path, cell(allowed(table, row)), default_cell(row), cell(help));
  }
  return text;
}

}  // namespace camd::config
