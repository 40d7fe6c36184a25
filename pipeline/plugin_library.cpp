#include "pipeline/plugin_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"

namespace camd::pipeline {

using base::Error;
using base::ErrorKind;

PluginLibrary::PluginLibrary(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: no such file", path));
  }
  // RTLD_LOCAL: plug-ins cannot see one another's symbols; RTLD_NOW: a missing symbol shows now, not in a frame.
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: cannot be loaded: {}", path, reason ? reason : "?"));
  }
}

PluginLibrary::~PluginLibrary() { dlclose(handle_); }

const camd_plugin& PluginLibrary::table(const std::string& path) const {
  auto* entry = reinterpret_cast<camd_plugin_entry>(dlsym(handle_, CAMD_PLUGIN_SYMBOL));
  if (entry == nullptr) {
    throw Error(ErrorKind::kPlugin,
                fmt::format("plug-in {}: exports no symbol {}: it is no camd plug-in, or was built for an older camd",
                            path, CAMD_PLUGIN_SYMBOL));
  }
  const camd_plugin* table = entry();
  if (table == nullptr) {
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: {} returned no table", path, CAMD_PLUGIN_SYMBOL));
  }
  return *table;
}

}  // namespace camd::pipeline
