#include "base/troff.hpp"

namespace camd::base {

std::string troff(std::string_view text) {
  std::string result;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else {
      if (c == '-') result += '\\';
      result += c;
    }
    line_begins = c == '\n';
  }
  return result;
}

}  // namespace camd::base
