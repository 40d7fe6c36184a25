/* A plug-in in C that does one harm: {"how": "NAME", "at": N}. At the N-th frame (by sequence number) of its process:
 *   crash, abort, exit, kill, hang, memory, fork, threads, flood, writes_input, opens, connects
 * How "opens" and "connects" come out is in the message. Every other frame gets one detection whose class_id is the
 * process's id and whose score is the first value of the first output. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugins/camd_plugin.h"

typedef struct faults {
  char how[32];
  char path[256];
  unsigned long long at;
  uint32_t reloads;
  camd_counter* frames;
  const camd_counters* counters;
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

static void crash_here(void) {
  volatile int* nowhere = NULL;
  *nowhere = 1;
}

static int32_t create(const camd_host* host, const char* config, void** instance, camd_error* error) {
  faults* self = calloc(1, sizeof(*self));
  char at[32];
  word_of(config, "\"how\"", self->how, sizeof(self->how));
  word_of(config, "\"path\"", self->path, sizeof(self->path));
  word_of(config, "\"at\"", at, sizeof(at));
  self->at = strtoull(at, NULL, 10);
  self->reloads = host->reloads;
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
  if (model->output_count > 0) needs->outputs[0] = CAMD_NEED_HOST;
  if (strcmp(self->how, "picture") == 0) needs->picture = CAMD_NEED_HOST;
  if (strcmp(self->how, "flood") == 0) needs->detections = CAMD_MAX_DETECTIONS;
  /* Only where it was started anew: then it crashes again and again. */
  if (strcmp(self->how, "crash_for_ever") == 0 && self->reloads > 0) crash_here();
  if (strcmp(self->how, "hang_outputs") == 0) {
    for (;;) pause();
  }
  return CAMD_OK;
}

static void* sleep_for_ever(void* nothing) {
  for (;;) pause();
  return nothing;
}

static int32_t do_harm(const faults* self, const camd_tensors* tensors, camd_results* results, camd_error* error) {
  const char* how = self->how;
  if (strcmp(how, "crash") == 0 || strcmp(how, "crash_for_ever") == 0) crash_here();
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "exit") == 0) exit(0);
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(how, "hang") == 0) {
    for (;;) pause();
  }
  if (strcmp(how, "memory") == 0) {
    for (;;) {
      const size_t size = (size_t)8 << 20;
      char* more = malloc(size);
      if (more != NULL) memset(more, 1, size);
    }
  }
  if (strcmp(how, "fork") == 0) {
    for (int i = 0; i < 1000; ++i) {
      const pid_t child = fork();
      if (child == 0) pause();
      if (child > 0) continue;
      snprintf(error->message, sizeof(error->message), "fork: %s", strerror(errno));
      return CAMD_ERROR_FAILED;
    }
  }
  if (strcmp(how, "threads") == 0) {
    for (;;) {
      pthread_t thread;
      pthread_create(&thread, NULL, &sleep_for_ever, NULL);
    }
  }
  if (strcmp(how, "flood") == 0) results->count = 1 << 30;
  if (strcmp(how, "writes_input") == 0) ((float*)tensors->outputs[0]->data)[0] = 7.0F;
  if (strcmp(how, "opens") == 0) {
    FILE* file = fopen(self->path, "w");
    if (file == NULL) {
      snprintf(error->message, sizeof(error->message), "cannot write");
      return CAMD_ERROR_FAILED;
    }
    fclose(file);
  }
  if (strcmp(how, "connects") == 0) {
    if (socket(AF_INET, SOCK_STREAM, 0) < 0) {
      snprintf(error->message, sizeof(error->message), "no socket");
      return CAMD_ERROR_FAILED;
    }
  }
  return CAMD_OK;
}

static int32_t process(void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                       camd_error* error) {
  const faults* self = instance;
  if (self->frames != NULL) self->counters->add(self->frames, 1);
  if (frame->sequence == self->at) {
    const int32_t code = do_harm(self, tensors, results, error);
    if (code != CAMD_OK) return code;
  }
  if (results->count < results->capacity) {
    camd_detection* made = &results->items[results->count++];
    memset(made, 0, sizeof(*made));
    made->class_id = (int32_t)getpid();
    if (tensors->output_count > 0 && tensors->outputs[0] != NULL) {
      made->score = ((const float*)tensors->outputs[0]->data)[0];
    }
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

static const camd_plugin table = {CAMD_PLUGIN_ABI_VERSION, sizeof(camd_plugin), "faults",  "1.0.0",
                                  "does one harm",         &create,             &outputs, &process,
                                  &destroy,                NULL};

CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void);
CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) { return &table; }
