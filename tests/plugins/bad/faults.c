/* A plug-in in C that does one harm: {"how": "NAME", "at": N}, and {"camera": "NAME"} where it is for one camera alone.
 * At the N-th frame (by sequence number) of its process:
 *   crash, abort, exit, kill, hang, memory, fork, threads, flood, writes_input, opens, connects, scribble, rights
 * With "outlet" each frame is a message: the first of them is acknowledged, the others wait, and that frame aborts.
 * With "heap" class_id is how often the process has allocated (count_heap.c), and each frame has an event.
 * With "device" it reads the first output where the GPU left it.
 * How "opens", "connects" and "rights" come out is in the message. Every other frame gets one detection whose class_id
 * is the process's id and whose score is the first value of the first output. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugins/camd_plugin.h"
#include "tests/plugins/bad/harm.h"

typedef struct faults {
  char how[32];
  char path[256];
  char camera[32];
  unsigned long long at;
  uint32_t reloads;
  camd_counter* frames;
  const camd_counters* counters;
  const camd_host* host;
  uint64_t sent;
} faults;

static void word_of(const char* json, const char* key, char* to, size_t size) {
  const char* found = strstr(json, key);
  size_t n = 0;
  to[0] = '\0';
  if (found == NULL) return;
  found = strchr(found + strlen(key), ':');
  while (found != NULL && (*found == ':' || *found == '"' || *found == ' ')) ++found;
  while (found != NULL && *found != '\0' && *found != '"' && *found != ',' && *found != '}' && n + 1 < size) {
    to[n++] = *found++;
  }
  to[n] = '\0';
}

static int32_t create(const camd_host* host, const char* config, void** instance, camd_error* error) {
  faults* self = calloc(1, sizeof(*self));
  char at[32];
  word_of(config, "\"how\"", self->how, sizeof(self->how));
  word_of(config, "\"path\"", self->path, sizeof(self->path));
  word_of(config, "\"camera\"", self->camera, sizeof(self->camera));
  word_of(config, "\"at\"", at, sizeof(at));
  self->at = strtoull(at, NULL, 10);
  self->reloads = host->reloads;
  self->host = host;
  self->counters = host->get_extension(host, CAMD_EXTENSION_COUNTERS);
  if (self->counters != NULL) {
    self->counters->make(host, CAMD_COUNTER, "frames", &self->frames, error);
  }
  if (strcmp(self->how, "crash_create") == 0) raise(SIGSEGV);
  if (strcmp(self->how, "refuse") == 0) {
    snprintf(error->message, sizeof(error->message), "config: no");
    free(self);
    return CAMD_ERROR_CONFIG;
  }
  *instance = self;
  return CAMD_OK;
}

static int32_t outputs(void* instance, const camd_model* model, camd_needs* needs, camd_error* error) {
  faults* self = instance;
  (void)error;
  if (model->output_count > 0) {
    needs->outputs[0] = strcmp(self->how, "device") == 0 ? CAMD_NEED_DEVICE : CAMD_NEED_HOST;
  }
  if (strcmp(self->how, "picture") == 0) needs->picture = CAMD_NEED_HOST;
  if (strcmp(self->how, "input") == 0) needs->input = CAMD_NEED_HOST;
  if (strcmp(self->how, "flood") == 0) needs->detections = CAMD_MAX_DETECTIONS;
  /* Only where it was started anew: then it crashes again and again. */
  if (strcmp(self->how, "crash_for_ever") == 0 && self->reloads > 0) crash_here();
  if (strcmp(self->how, "hang_outputs") == 0) {
    for (;;) pause();
  }
  return CAMD_OK;
}

static void send_one(faults* self) {
  const camd_outlet* outlet = self->host->get_extension(self->host, CAMD_EXTENSION_OUTLET);
  const camd_outlet_row row = {"door", ++self->sent, 1, self->sent - 1, 0, 0, 0, NULL};
  outlet->report(self->host, &row, 1, NULL);
}

static int32_t note_allocations(const faults* self) {
  const camd_events* events = self->host->get_extension(self->host, CAMD_EXTENSION_EVENTS);
  camd_event event;
  memset(&event, 0, sizeof(event));
  event.struct_size = sizeof(event);
  event.name[0] = 'x';
  events->add(self->host, &event);
  int32_t (*count)(void);
  *(void**)&count = dlsym(RTLD_DEFAULT, "camd_test_allocations");
  return count == NULL ? -1 : count();
}

static int32_t process(void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                       camd_error* error) {
  faults* self = instance;
  if (self->frames != NULL) self->counters->add(self->frames, 1);
  if (frame->sequence == self->at && (self->camera[0] == '\0' || strcmp(self->camera, frame->camera) == 0)) {
    const int32_t code = do_harm(self->how, self->path, tensors->outputs[0]->data, &results->count, error);
    if (code != CAMD_OK) return code;
  }
  if (strcmp(self->how, "outlet") == 0) send_one(self);
  if (results->count < results->capacity) {
    camd_detection* made = &results->items[results->count++];
    memset(made, 0, sizeof(*made));
    made->class_id = strcmp(self->how, "heap") == 0 ? note_allocations(self) : (int32_t)getpid();
    made->box[2] = made->box[3] = 10.0F;
    const DLTensor* const values = strcmp(self->how, "device") == 0 ? tensors->device_outputs[0] : tensors->outputs[0];
    if (values != NULL) made->score = ((const float*)values->data)[0];
    if (strcmp(self->how, "input") == 0) made->score = ((const float*)tensors->input->data)[0];
    if (frame->picture != NULL) made->keypoint_count = frame->picture->planes[0].data[5] % 8;
  }
  return CAMD_OK;
}

static int32_t destroy(void* instance, camd_error* error) {
  faults* self = instance;
  (void)error;
  if (strcmp(self->how, "hang_destroy") == 0) {
    for (;;) pause();
  }
  free(self);
  return CAMD_OK;
}

static const camd_plugin table = {CAMD_PLUGIN_ABI_VERSION,
                                  sizeof(camd_plugin),
                                  "faults",
                                  "1.0.0",
                                  "does one harm",
                                  &create,
                                  &outputs,
                                  &process,
                                  &destroy,
                                  NULL};

CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void);
CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) { return &table; }
