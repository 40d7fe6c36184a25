// PluginLibrary: a plug-in's shared library, loaded for as long as the object lives.
//
// Threads: [setup].
#pragma once

#include <string>

#include "plugins/camd_plugin.h"

namespace camd::pipeline {

class PluginLibrary {
 public:
  // Throws Error(kPlugin) with the path and the loader's reason.
  explicit PluginLibrary(const std::string& path);
  ~PluginLibrary();
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;

  // The table that the library exports; lives as long as this. `path` is for messages. Throws Error(kPlugin) if it
  // exports none; what the table holds is not looked at.
  [[nodiscard]] const camd_plugin& table(const std::string& path) const;

 private:
  void* handle_ = nullptr;
};

}  // namespace camd::pipeline
