#include "pipeline/plugin/plugin_counters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace camd::pipeline {
namespace {

std::int32_t refuse(camd_error* error, std::int32_t code, std::string_view message) noexcept {
  if (error != nullptr) {
    const std::size_t bytes = std::min(message.size(), sizeof(error->message) - 1);
    std::memcpy(error->message, message.data(), bytes);
    error->message[bytes] = '\0';
  }
  return code;
}

}  // namespace

// What Prometheus takes as well, and what needs no escaping anywhere.
bool good_counter_name(std::string_view name) noexcept {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto inner = [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() < CAMD_COUNTER_NAME_BYTES && lower(name.front()) &&
         std::all_of(name.begin(), name.end(), inner);
}

std::int32_t PluginCounters::make(int kind, const char* name, camd_counter** counter, camd_error* error) noexcept {
  if (counter == nullptr) return refuse(error, CAMD_ERROR_INVALID, "a counter needs a place for its address");
  *counter = nullptr;
  if (!open_) return refuse(error, CAMD_ERROR_INVALID, "counters are made in create() or outputs(), not later");
  if (kind != CAMD_COUNTER && kind != CAMD_GAUGE) {
    return refuse(error, CAMD_ERROR_INVALID, "a number is a CAMD_COUNTER or a CAMD_GAUGE");
  }
  // Looked at no further than a name can be long.
  const std::string_view text(name != nullptr ? name : "",
                              name != nullptr ? strnlen(name, CAMD_COUNTER_NAME_BYTES) : 0);
  if (!good_counter_name(text)) {
    return refuse(error, CAMD_ERROR_INVALID,
                  "a counter's name is a lower case letter, then lower case letters, digits and '_', 47 at most");
  }
  const std::size_t count = table_.count;
  for (std::size_t i = 0; i < count; ++i) {
    if (text == table_.counters[i].name.data()) {
      return refuse(error, CAMD_ERROR_INVALID, fmt::format("there is a counter '{}' already", text));
    }
  }
  if (count == table_.counters.size()) {
    return refuse(error, CAMD_ERROR_FULL, fmt::format("a plug-in has at most {} counters", CAMD_MAX_COUNTERS));
  }
  camd_counter& made = table_.counters[count];
  made.kind = static_cast<camd_counter_kind>(kind);
  std::copy(text.begin(), text.end(), made.name.begin());
  table_.count = static_cast<std::uint32_t>(count + 1);
  *counter = &made;
  return CAMD_OK;
}

void PluginCounters::add(camd_counter* counter, std::uint64_t amount) noexcept {
  if (counter == nullptr || counter->kind != CAMD_COUNTER) return;
  counter->count.fetch_add(amount, std::memory_order_relaxed);
}

void PluginCounters::set(camd_counter* gauge, double value) noexcept {
  if (gauge == nullptr || gauge->kind != CAMD_GAUGE || !std::isfinite(value)) return;
  gauge->level.store(value, std::memory_order_relaxed);
}

std::vector<CounterValue> PluginCounters::read() const {
  const std::size_t count = table_.count;
  std::vector<CounterValue> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const camd_counter& from = table_.counters[i];
    values.push_back({from.name.data(), from.kind, from.count.load(std::memory_order_relaxed),
                      from.level.load(std::memory_order_relaxed)});
  }
  return values;
}

}  // namespace camd::pipeline
