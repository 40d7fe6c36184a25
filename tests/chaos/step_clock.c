/* For the chaos harness, preloaded into camd: the wall clock shows what the harness wants. The first 8 bytes of the
 * file that STEP_CLOCK_FILE names are added to CLOCK_REALTIME (ns); the monotonic clock is left alone, as in a real
 * step. Debian's faketime fakes the monotonic clock and waits on condition variables as well, which is another fault.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* step;
static int (*real_clock_gettime)(clockid_t, struct timespec*);

__attribute__((constructor)) static void open_step(void) {
  real_clock_gettime = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const char* const name = getenv("STEP_CLOCK_FILE");
  const int file = name != NULL ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void* const mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) step = mapped;
}

static void add_step(struct timespec* time) {
  if (step == NULL) return;
  const int64_t ns = time->tv_nsec + *step % 1000000000;
  time->tv_sec += *step / 1000000000 + (ns < 0 ? -1 : ns / 1000000000);
  time->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  /* Others may ask before our constructor has run. */
  const int result =
      real_clock_gettime != NULL ? real_clock_gettime(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) add_step(now);
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec time;
  const int result = clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return result;
}

time_t time(time_t* result) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}
