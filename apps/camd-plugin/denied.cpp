#include "apps/camd-plugin/denied.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace camd::worker {
namespace {

std::atomic<bool> watching{false};
struct Denied {
  char path[1024] = {};
  bool network = false;
};
thread_local Denied denied;

void note(const char* path) noexcept {
  if (!watching || (errno != EACCES && errno != EPERM && errno != EROFS) || path == nullptr) return;
  const int kept = errno;
  std::snprintf(denied.path, sizeof(denied.path), "%s", path);
  errno = kept;
}

template <class Function>
Function next_of(const char* name) noexcept {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void watch_denied() noexcept { watching = true; }

void forget_denied() noexcept {
  denied.path[0] = '\0';
  denied.network = false;
}

std::string denied_advice() {
  if (denied.network) return " (it is confined and may not use the network: allow: [network])";
  if (denied.path[0] == '\0') return {};
  const std::string path = denied.path;
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "./" : path.substr(0, slash + 1);
  return " (it is confined and may not write " + path + ": allow: [\"files: " + folder + "\"])";
}

}  // namespace camd::worker

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,cert-dcl50-cpp)
extern "C" {

#define CAMD_EXPORTED __attribute__((visibility("default")))

#define CAMD_OPEN(name)                                                                    \
  CAMD_EXPORTED int name(const char* path, int flags, ...) {                               \
    static const auto next = camd::worker::next_of<int (*)(const char*, int, ...)>(#name); \
    mode_t mode = 0;                                                                       \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {                      \
      va_list rest;                                                                        \
      va_start(rest, flags);                                                               \
      mode = va_arg(rest, mode_t);                                                         \
      va_end(rest);                                                                        \
    }                                                                                      \
    const int fd = next(path, flags, mode);                                                \
    if (fd < 0 && (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0) camd::worker::note(path);  \
    return fd;                                                                             \
  }
CAMD_OPEN(open)
CAMD_OPEN(open64)

#define CAMD_FOPEN(name)                                                                        \
  CAMD_EXPORTED FILE* name(const char* path, const char* mode) {                                \
    static const auto next = camd::worker::next_of<FILE* (*)(const char*, const char*)>(#name); \
    FILE* file = next(path, mode);                                                              \
    if (file == nullptr && std::strpbrk(mode, "wa+") != nullptr) camd::worker::note(path);      \
    return file;                                                                                \
  }
CAMD_FOPEN(fopen)
CAMD_FOPEN(fopen64)

CAMD_EXPORTED int mkdir(const char* path, mode_t mode) noexcept {
  static const auto next = camd::worker::next_of<int (*)(const char*, mode_t)>("mkdir");
  const int result = next(path, mode);
  if (result != 0) camd::worker::note(path);
  return result;
}

CAMD_EXPORTED int socket(int domain, int type, int protocol) noexcept {
  static const auto next = camd::worker::next_of<int (*)(int, int, int)>("socket");
  const int fd = next(domain, type, protocol);
  if (fd < 0 && errno == EACCES && camd::worker::watching) camd::worker::denied.network = true;
  return fd;
}
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name,cert-dcl50-cpp)
