// Opens a shared library and finds a plug-in's entry point in it.
#include "pipeline/plugin/plugin_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <filesystem>

#include "base/error.hpp"

namespace camd::pipeline {

using base::Error;
using base::ErrorKind;

namespace {

// dlopen() takes a library that is loaded under the same path for the one that is meant, whatever the file is by now.
// By a spelling that it has not seen it looks at the file. So each load has its own: the load's number in binary, "./"
// for 1 and "/" for 0, between folder and file.
std::string spelled_anew(const std::string& path) {
  static std::atomic<std::uint32_t> loads{0};
  const std::uint32_t number = loads++;
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return path;
  std::string spelled = path.substr(0, slash + 1);
  for (int bit = std::bit_width(number) - 1; bit >= 0; --bit) spelled += ((number >> bit) & 1U) != 0 ? "./" : "/";
  return spelled + path.substr(slash + 1);
}

}  // namespace

PluginLibrary::PluginLibrary(const std::string& path) : file_(file_at(path)) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: no such file", path));
  }
  // RTLD_LOCAL: plug-ins cannot see one another's symbols; RTLD_NOW: a missing symbol shows now, not in a frame.
  handle_ = dlopen(spelled_anew(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: cannot be loaded: {}", path, reason ? reason : "?"));
  }
}

PluginLibrary::~PluginLibrary() { dlclose(handle_); }

bool PluginLibrary::is_current(const std::string& path) const { return file_at(path) == file_; }

PluginLibrary::File PluginLibrary::file_at(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino, static_cast<std::uint64_t>(found.st_size),
          std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec};
}

const camd_plugin& PluginLibrary::table(const std::string& path) const {
  auto* entry = reinterpret_cast<camd_plugin_entry>(dlsym(handle_, CAMD_PLUGIN_SYMBOL));
  if (entry == nullptr) {
    throw Error(ErrorKind::kPlugin,
                fmt::format("plug-in {}: exports no symbol {}: it is no camd plug-in, or was built for an older camd",
                            path, CAMD_PLUGIN_SYMBOL));
  }
  const camd_plugin* table = nullptr;
  try {
    table = entry();
  } catch (...) {  // a C++ library; nothing may be thrown through a C function
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: {} threw an exception", path, CAMD_PLUGIN_SYMBOL));
  }
  if (table == nullptr) {
    throw Error(ErrorKind::kPlugin, fmt::format("plug-in {}: {} returned no table", path, CAMD_PLUGIN_SYMBOL));
  }
  return *table;
}

}  // namespace camd::pipeline
