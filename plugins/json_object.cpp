#include "plugins/json_object.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace camd::plugins {
namespace {

using nlohmann::json;

// Levenshtein distance; words are short (keys, names).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string plain(double value) {
  std::string text = json(value).dump();
  if (text.size() > 2 && text.substr(text.size() - 2) == ".0") text.resize(text.size() - 2);
  return text;
}

std::string range_text(double low, double high) { return plain(low) + ".." + plain(high); }

// What stands there, short enough for one line.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 40) {
    text.resize(37);
    text += "...";
  }
  return text;
}

// Whether `value` is a whole number in low..high; 8.0 is written as a fraction and is none.
bool is_whole(const json& value, std::int64_t low, std::int64_t high) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) return false;
  return value.get<std::int64_t>() >= low && value.get<std::int64_t>() <= high;
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  std::optional<std::string> best;
  std::size_t best_distance = word.size() / 3 + 2;
  for (const std::string& candidate : known) {
    const std::size_t d = distance(word, candidate);
    if (d < best_distance && d < candidate.size()) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

JsonObject::JsonObject(std::string where, std::string_view text) : where_(std::move(where)) {
  object_ = json::parse(text, nullptr, false);
  if (object_.is_discarded()) throw std::invalid_argument(where_ + ": not JSON");
  if (!object_.is_object()) throw std::invalid_argument(where_ + ": not a mapping of keys to values");
}

JsonObject::JsonObject(std::string where, json object) : where_(std::move(where)), object_(std::move(object)) {
  if (!object_.is_object()) throw std::invalid_argument(where_ + ": not a mapping of keys to values");
}

const json* JsonObject::raw(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> JsonObject::number(std::string_view key, double low, double high) {
  const json* value = raw(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto got = value->get<double>();
    if (std::isfinite(got) && got >= low && got <= high) return got;
  }
  fail(key, "must be a number in " + range_text(low, high) + ", not " + shown(*value));
  return std::nullopt;
}

std::optional<std::int64_t> JsonObject::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  const json* value = raw(key);
  if (value == nullptr) return std::nullopt;
  if (is_whole(*value, low, high)) return value->get<std::int64_t>();
  fail(key,
       "must be a whole number in " + std::to_string(low) + ".." + std::to_string(high) + ", not " + shown(*value));
  return std::nullopt;
}

std::optional<bool> JsonObject::boolean(std::string_view key) {
  const json* value = raw(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  fail(key, "must be true or false, not " + shown(*value));
  return std::nullopt;
}

std::optional<std::string> JsonObject::text(std::string_view key) {
  const json* value = raw(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  fail(key, "must be a text, not " + shown(*value));
  return std::nullopt;
}

std::optional<std::string> JsonObject::one_of(std::string_view key, const std::vector<std::string>& allowed) {
  const std::optional<std::string> got = text(key);
  if (!got) return std::nullopt;
  if (std::find(allowed.begin(), allowed.end(), *got) != allowed.end()) return got;
  const auto near = nearest(*got, allowed);
  fail(key, "'" + *got + "' is none of " + joined(allowed) + (near ? " (did you mean '" + *near + "'?)" : ""));
  return std::nullopt;
}

std::optional<std::vector<std::string>> JsonObject::texts(std::string_view key) {
  const json* value = raw(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  if (value->is_array() && std::all_of(value->begin(), value->end(), [](const json& v) { return v.is_string(); })) {
    return value->get<std::vector<std::string>>();
  }
  fail(key, "must be a list of texts, not " + shown(*value));
  return std::nullopt;
}

std::optional<std::vector<double>> JsonObject::numbers(std::string_view key, double low, double high) {
  const json* value = raw(key);
  if (value == nullptr) return std::nullopt;
  const auto fits = [&](const json& v) { return v.is_number() && v.get<double>() >= low && v.get<double>() <= high; };
  if (value->is_array() && !value->empty() && std::all_of(value->begin(), value->end(), fits)) {
    return value->get<std::vector<double>>();
  }
  fail(key, "must be a list of numbers in " + range_text(low, high) + ", not " + shown(*value));
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> JsonObject::integers(std::string_view key, std::int64_t low,
                                                              std::int64_t high) {
  const json* value = raw(key);
  if (value == nullptr) return std::nullopt;
  const auto fits = [&](const json& v) { return is_whole(v, low, high); };
  if (value->is_array() && !value->empty() && std::all_of(value->begin(), value->end(), fits)) {
    return value->get<std::vector<std::int64_t>>();
  }
  fail(key, "must be a list of whole numbers in " + std::to_string(low) + ".." + std::to_string(high) + ", not " +
                shown(*value));
  return std::nullopt;
}

std::optional<std::chrono::milliseconds> JsonObject::duration(std::string_view key, std::chrono::milliseconds low,
                                                              std::chrono::milliseconds high) {
  static constexpr std::array<Unit, 4> kUnits{{{"ms", 1}, {"s", 1000}, {"min", 60'000}, {"h", 3'600'000}}};
  const std::optional<std::int64_t> ms =
      measured(key, kUnits, low.count(), high.count(), "a time such as 500ms or 30s");
  return ms ? std::optional(std::chrono::milliseconds(*ms)) : std::nullopt;
}

std::optional<std::int64_t> JsonObject::bytes(std::string_view key, std::int64_t low, std::int64_t high) {
  static constexpr std::array<Unit, 4> kUnits{
      {{"B", 1}, {"KiB", std::int64_t{1} << 10}, {"MiB", std::int64_t{1} << 20}, {"GiB", std::int64_t{1} << 30}}};
  return measured(key, kUnits, low, high, "a size such as 64KiB or 16MiB");
}

// A whole number with one of the units, as a multiple of the smallest.
std::optional<std::int64_t> JsonObject::measured(std::string_view key, std::span<const Unit> units, std::int64_t low,
                                                 std::int64_t high, std::string_view what) {
  const json* value = raw(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view name(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const Unit& unit : units) {
      if (error != std::errc() || unit.name != name || number < 0 || number > high / unit.factor) continue;
      if (number * unit.factor >= low) return number * unit.factor;
    }
  }
  const auto limit = [units](std::int64_t count) {
    const Unit* best = &units.front();
    for (const Unit& unit : units) {
      if (count % unit.factor == 0 && count > 0) best = &unit;
    }
    return std::to_string(count / best->factor) + std::string(best->name);
  };
  fail(key, "must be " + std::string(what) + ", in " + limit(low) + ".." + limit(high) + ", not " + shown(*value));
  return std::nullopt;
}

JsonObject JsonObject::object(std::string_view key) {
  const json* value = raw(key);
  const std::string where = where_ + "." + std::string(key);
  if (value == nullptr) return {where, json::object()};
  if (value->is_object()) return {where, *value};
  fail(key, "must be a mapping of keys to values, not " + shown(*value));
  return {where, json::object()};
}

void JsonObject::absorb(const JsonObject& child) { fail(child.where_.substr(where_.size() + 1), child); }

void JsonObject::fail(std::string_view key, const std::string& why) {
  problems_.push_back({std::string(key), why, {}});
}

void JsonObject::fail(std::string_view key, const JsonObject& map, bool strict) {
  for (Problem& problem : map.problems(strict)) {
    problem.key = std::string(key) + "." + problem.key;
    problems_.push_back(std::move(problem));
  }
}

std::vector<JsonObject::Problem> JsonObject::problems(bool strict) const {
  std::vector<Problem> all = problems_;
  if (!strict) return all;
  for (const auto& item : object_.items()) {
    if (std::find(known_.begin(), known_.end(), item.key()) == known_.end()) all.push_back({item.key(), "", known_});
  }
  return all;
}

void JsonObject::finish(bool strict) {
  std::string message;
  for (const Problem& problem : problems(strict)) {
    if (!message.empty()) message += "; ";
    message += where_ + "." + problem.key + ": ";
    if (problem.known.empty()) {
      message += problem.why;
      continue;
    }
    const auto near = nearest(problem.key.substr(problem.key.rfind('.') + 1), problem.known);
    message += near ? "unknown key (did you mean '" + *near + "'?)" : "unknown key, known are " + joined(problem.known);
  }
  if (!message.empty()) throw std::invalid_argument(message);
}

void JsonObject::report(const camd::plugin::Check& check) const {
  for (Problem& problem : problems(true)) {
    // "zones[0]" is "zones.0" there.
    std::replace(problem.key.begin(), problem.key.end(), '[', '.');
    problem.key.erase(std::remove(problem.key.begin(), problem.key.end(), ']'), problem.key.end());
    if (problem.known.empty()) {
      check.mistake(problem.key, problem.why);
    } else {
      check.unknown_key(problem.key, problem.known);
    }
  }
}

}  // namespace camd::plugins
