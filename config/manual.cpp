// The tables of keys in the manual (config/describe.hpp).

#include <fmt/format.h>

#include "base/troff.hpp"
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

// "a duration; default 1s"
std::string value_text(Table table, const KeyRow& row) {
  std::string text = allowed(table, row);
  if (row.required) return text + "; required";
  return row.fallback.empty() ? text : fmt::format("{}; default {}", text, row.fallback);
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

std::string keys_manual_page(Table table, std::string_view version) {
  std::string text = fmt::format(
      ".TH CAMD.YAML 5 \"\" \"camd {}\" \"File Formats\"\n"
      ".SH NAME\ncamd.yaml \\- configuration of camd\n"
      ".SH DESCRIPTION\n\\fBcamd run\\fR and the service camd read it. \\fBcamd check\\fR says what is wrong with one, "
      "\\fBcamd config\\fR prints one with every key explained. [] stands for each element of a list.\n.SH KEYS\n",
      version);
  for (const KeyRow& row : table) {
    if (row.help.empty()) continue;
    text += fmt::format(".TP\n\\fB{}\\fR: \\fI{}\\fR\n{}\n", base::troff(row.path), base::troff(value_text(table, row)),
                        base::troff(row.help));
    if (!row.types.empty()) text += fmt::format("Type {}.\n", fmt::join(split_words(row.types), ", "));
  }
  return text + ".SH FILES\n.TP\n.I /etc/camd/camd.yaml\nWhat the service runs.\n.SH SEE ALSO\ncamd(1)\n";
}

}  // namespace camd::config
