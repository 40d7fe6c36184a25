// PluginLibrary: a plug-in's shared library, loaded for as long as the object lives.
//
// Threads: [setup].
#pragma once

#include <cstdint>
#include <string>

#include "plugins/camd_plugin.h"

namespace camd::pipeline {

class PluginLibrary {
 public:
  // Loads the file that is there now, also while an older one of that path is loaded. (It must have replaced the older
  // one, not been written into it.) Throws Error(kPlugin) with the path and the loader's reason.
  explicit PluginLibrary(const std::string& path);
  ~PluginLibrary();
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;

  // The table that the library exports; lives as long as this. `path` is for messages. Throws Error(kPlugin) if it
  // exports none; what the table holds is not looked at.
  [[nodiscard]] const camd_plugin& table(const std::string& path) const;
  // Whether the file at `path` is still the one that was loaded.
  [[nodiscard]] bool is_current(const std::string& path) const;

 private:
  struct File {
    std::uint64_t device = 0, inode = 0, size_bytes = 0;
    std::int64_t changed_ns = 0;
    friend bool operator==(const File&, const File&) = default;
  };
  [[nodiscard]] static File file_at(const std::string& path);

  const File file_;
  void* handle_ = nullptr;
};

}  // namespace camd::pipeline
