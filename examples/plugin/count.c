/* Counts detections, in the metrics lines and in the log at the end: a plug-in in plain C. */
#include <camd/camd_plugin.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct count {
  const camd_host* host;
  const camd_counters* counters; /* NULL where camd knows no counters */
  camd_counter* detections;
  long long frame_count, detection_count;
} count;

static int32_t create(const camd_host* host, const char* config_json, void** instance, camd_error* error) {
  (void)config_json;
  count* made = calloc(1, sizeof(*made));
  if (made == NULL) {
    snprintf(error->message, sizeof(error->message), "no memory");
    return CAMD_ERROR_CONFIG;
  }
  made->host = host;
  made->counters = host->get_extension(host, CAMD_EXTENSION_COUNTERS);
  if (made->counters != NULL &&
      made->counters->make(host, CAMD_COUNTER, "detections", &made->detections, error) != CAMD_OK) {
    free(made);
    return CAMD_ERROR_CONFIG;
  }
  *instance = made;
  return CAMD_OK;
}

static int32_t outputs(void* instance, const camd_model* model, camd_needs* needs, camd_error* error) {
  (void)instance;
  (void)model;
  (void)needs; /* the detections of the plug-ins before are enough */
  (void)error;
  return CAMD_OK;
}

static int32_t process(void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                       camd_error* error) {
  count* self = instance;
  (void)frame;
  (void)tensors;
  (void)error;
  self->frame_count += 1;
  self->detection_count += results->count;
  if (self->counters != NULL) self->counters->add(self->detections, (uint64_t)results->count);
  return CAMD_OK;
}

static int32_t destroy(void* instance, camd_error* error) {
  count* self = instance;
  char line[96];
  (void)error;
  snprintf(line, sizeof(line), "count: %lld detections in %lld frames", self->detection_count, self->frame_count);
  self->host->log(self->host, CAMD_LOG_INFO, line);
  free(self);
  return CAMD_OK;
}

CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) {
  static const camd_plugin table = {CAMD_PLUGIN_ABI_VERSION,
                                    (uint32_t)sizeof(camd_plugin),
                                    "count",
                                    "1.0.0",
                                    "counts detections",
                                    create,
                                    outputs,
                                    process,
                                    destroy,
                                    NULL};
  return &table;
}
