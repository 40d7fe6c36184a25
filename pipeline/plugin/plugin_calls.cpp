// Checks of a plug-in's table, and what it says in words.
#include "pipeline/plugin/plugin_calls.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace camd::pipeline {

using base::Error;
using base::ErrorKind;

namespace detail {
std::atomic<int> threads_left_behind = 0;
}

bool plugin_threads_left_behind() noexcept { return detail::threads_left_behind > 0; }

void check_table(const camd_plugin& table, const std::string& label) {
  if (table.abi_version != CAMD_PLUGIN_ABI_VERSION) {
    throw Error(ErrorKind::kPlugin,
                fmt::format("plug-in {}: has ABI version {}, this camd speaks version {}: build it against this camd's "
                            "camd_plugin.h",
                            label, table.abi_version, CAMD_PLUGIN_ABI_VERSION));
  }
  if (table.struct_size < sizeof(camd_plugin)) {
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: its table has {} bytes, at least {} are needed", label,
                                                table.struct_size, sizeof(camd_plugin)));
  }
  const auto need = [&label](bool present, const char* what) {
    if (!present) throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: its table has no {}", label, what));
  };
  need(table.name != nullptr && table.name[0] != '\0', "name");
  need(table.version != nullptr, "version");
  need(table.description != nullptr, "description");
  need(table.create != nullptr, "create()");
  need(table.outputs != nullptr, "outputs()");
  need(table.process != nullptr, "process()");
  need(table.destroy != nullptr, "destroy()");
}

camd_error no_error() noexcept {
  camd_error error;
  error.struct_size = sizeof(error);
  error.message[0] = '\0';
  return error;
}

std::string message_of(camd_error& error) {
  error.message[CAMD_ERROR_BYTES - 1] = '\0';
  std::string text = error.message[0] == '\0' ? "gave no message" : error.message;
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

const void* extension_of(const camd_plugin& table, const char* id, const std::string& prefix) {
  if (table.get_extension == nullptr) return nullptr;
  const void* found = nullptr;
  camd_error error = no_error();
  const auto ask = [&] {
    found = table.get_extension(id);
    return std::int32_t{CAMD_OK};
  };
  if (guarded(error, ask) != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: get_extension(): {}", prefix, message_of(error)));
  }
  return found;
}

void refuse_extension(const char* id, const std::string& prefix) {
  throw Error(ErrorKind::kPlugin, fmt::format("{}: its extension {} lacks a function", prefix, id));
}

}  // namespace camd::pipeline
