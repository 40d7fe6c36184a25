#include "config/place.hpp"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "config/place_order.hpp"

namespace camd::config {
namespace {

std::string all_lines(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += problem.line();
  }
  return text;
}

}  // namespace

std::string to_string(const SourcePlace& place) {
  return place.line > 0 ? fmt::format("{}:{}:{}", place.file, place.line, place.column) : place.file;
}

std::string located(const SourcePlace& place, std::string_view key, std::string_view message) {
  std::string text = to_string(place);
  const bool named = place.line == 0 && place.file.ends_with(fmt::format(" {}", key));
  if (!key.empty() && !named) text += fmt::format("{}{}", text.empty() ? "" : ": ", key);
  return fmt::format("{}{}{}", text, text.empty() ? "" : ": ", message);
}

bool comes_before(const std::string& file, const SourcePlace& a, const SourcePlace& b) {
  const auto rank = [&file](const SourcePlace& place) {
    if (place.file == file) return 0;
    return place.line > 0 || !place.file.starts_with("--set") ? 1 : 2;
  };
  return std::tuple(rank(a), a.line, a.column) < std::tuple(rank(b), b.line, b.column);
}

ConfigErrors::ConfigErrors(std::vector<Problem> problems)
    : Error(base::ErrorKind::kConfig, all_lines(problems)), problems_(std::move(problems)) {}

}  // namespace camd::config
