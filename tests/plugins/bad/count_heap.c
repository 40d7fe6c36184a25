/* Counts what a process allocates, for a test that preloads it into a worker. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

/* glibc's own functions under the names that it keeps for those who replace malloc(). */
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

static _Atomic int32_t allocations;

EXPORTED int32_t camd_test_allocations(void) { return atomic_load(&allocations); }
EXPORTED void* malloc(size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __libc_malloc(size);
}
EXPORTED void* calloc(size_t count, size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __libc_calloc(count, size);
}
EXPORTED void* realloc(void* memory, size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __libc_realloc(memory, size);
}
EXPORTED void* aligned_alloc(size_t alignment, size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __libc_memalign(alignment, size);
}
EXPORTED int posix_memalign(void** memory, size_t alignment, size_t size) {
  atomic_fetch_add(&allocations, 1);
  *memory = __libc_memalign(alignment, size);
  return *memory == NULL ? 12 : 0;
}
