// Entry point of a built-in's shared library; CAMD_BUILTIN is its name (plugins/CMakeLists.txt).
#include "plugins/tables.hpp"

#define CAMD_JOIN_(a, b) a##b
#define CAMD_JOIN(a, b) CAMD_JOIN_(a, b)

extern "C" CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void);
extern "C" CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) {
  return camd::plugins::CAMD_JOIN(CAMD_BUILTIN, _table)();
}
