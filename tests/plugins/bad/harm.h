/* The harm that the plug-ins for tests of worker processes do, in C and in C++. */
#ifndef CAMD_TESTS_HARM_H_
#define CAMD_TESTS_HARM_H_

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugins/camd_plugin.h"

static void crash_here(void) {
  volatile int* nowhere = NULL;
  *nowhere = 1;
}

static void* sleep_for_ever(void* nothing) {
  for (;;) pause();
  return nothing;
}

/* Writes anything into what this process shares with camd for its answers, for ever, but for the number that says which
 * call is done. That this is a race is its purpose. */
__attribute__((no_sanitize("thread"))) static void* scribble(void* nothing) {
  char line[512];
  char* begin = NULL;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
    if (strstr(line, "rw-s") != NULL && strstr(line, "camd-answers") != NULL) begin = (char*)strtoull(line, NULL, 16);
  }
  if (maps != NULL) fclose(maps);
  if (begin == NULL) return nothing;
  for (unsigned long long random = 1;;) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const unsigned long long value = (random >> 20) % 3 == 0 ? random : (random >> 24) % 3;
    *(volatile unsigned*)(begin + 4 + (random >> 33) % (256 << 10) / 4 * 4) = (unsigned)value;
  }
  return nothing;
}

/* What this process has open, and what it may still become. */
static void tell_rights(char* text, size_t size) {
  int length = snprintf(text, size, "no_new_privs %d seccomp %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
                        prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
  for (int fd = 0; fd < 1024; ++fd) {
    char path[64], target[256];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const ssize_t bytes = readlink(path, target, sizeof(target) - 1);
    if (bytes < 0) continue;
    target[bytes] = '\0';
    char* end = strchr(target, ':');
    if (target[0] != '/' && end != NULL) *end = '\0'; /* socket:[NUMBER] */
    end = strchr(target, ' ');
    if (end != NULL) *end = '\0'; /* (deleted) */
    if (length < (int)size)
      length += snprintf(text + length, size - (size_t)length, " %s", fd == 1 || fd == 2 ? "stderr" : target);
  }
}

/* `values` are the first output's, `path` a file for "opens". */
static int32_t do_harm(const char* how, const char* path, void* values, int32_t* count, camd_error* error) {
  if (strcmp(how, "crash") == 0 || strcmp(how, "crash_for_ever") == 0) crash_here();
  if (strcmp(how, "abort") == 0 || strcmp(how, "outlet") == 0) abort();
  if (strcmp(how, "exit") == 0) exit(0);
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(how, "hang") == 0) {
    for (;;) pause();
  }
  if (strcmp(how, "memory") == 0) {
    for (;;) {
      const size_t size = (size_t)8 << 20;
      char* more = (char*)malloc(size);
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
  if (strcmp(how, "flood") == 0) *count = 1 << 30;
  if (strcmp(how, "scribble") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, &scribble, NULL);
  }
  if (strcmp(how, "rights") == 0) {
    tell_rights(error->message, sizeof(error->message));
    return CAMD_ERROR_FAILED;
  }
  if (strcmp(how, "writes_input") == 0) ((float*)values)[0] = 7.0F;
  if (strcmp(how, "opens") == 0) {
    FILE* file = fopen(path, "w");
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

#endif /* CAMD_TESTS_HARM_H_ */
