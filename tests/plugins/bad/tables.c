/* Tables that a host must refuse before it calls anything. BAD_TABLE picks one:
 *   1 another ABI version   2 a table that is too short   3 no table   4 a function missing   5 no name
 *   6 no symbol at all */
#include <stdlib.h>

#include "plugins/camd_plugin.h"

#if BAD_TABLE == 6

CAMD_PLUGIN_EXPORT int not_a_plugin(void);
CAMD_PLUGIN_EXPORT int not_a_plugin(void) { return 0; }

#else

/* Nothing of this table may be called. */
static int32_t create(const camd_host* host, const char* config_json, void** instance, camd_error* error) {
  (void)host, (void)config_json, (void)instance, (void)error;
  abort();
}
static int32_t outputs(void* instance, const camd_model* model, camd_needs* needs, camd_error* error) {
  (void)instance, (void)model, (void)needs, (void)error;
  abort();
}
static int32_t process(void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                       camd_error* error) {
  (void)instance, (void)frame, (void)tensors, (void)results, (void)error;
  abort();
}
static int32_t destroy(void* instance, camd_error* error) {
  (void)instance, (void)error;
  abort();
}

CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void);
CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) {
  static const camd_plugin table = {
      BAD_TABLE == 1 ? CAMD_PLUGIN_ABI_VERSION + 98u : CAMD_PLUGIN_ABI_VERSION,
      BAD_TABLE == 2 ? 16u : (uint32_t)sizeof(camd_plugin),
      BAD_TABLE == 5 ? NULL : "bad",
      "1.0.0",
      "must be refused",
      create,
      BAD_TABLE == 4 ? NULL : outputs,
      process,
      destroy,
      NULL,
  };
  (void)create, (void)outputs, (void)process, (void)destroy;
  return BAD_TABLE == 3 ? NULL : &table;
}

#endif
