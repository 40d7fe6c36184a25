// Options and suppressions of the sanitizers, linked into every executable of a sanitizer build.
//
// Suppressions are for third-party code only, each with its reason. An entry without a library's name is a bug.

#if defined(__GNUC__)
#define CAMD_SANITIZER_HOOK extern "C" __attribute__((visibility("default"), used))
#endif

CAMD_SANITIZER_HOOK const char* __asan_default_options();
CAMD_SANITIZER_HOOK const char* __lsan_default_options();
CAMD_SANITIZER_HOOK const char* __lsan_default_suppressions();
CAMD_SANITIZER_HOOK const char* __tsan_default_options();
CAMD_SANITIZER_HOOK const char* __tsan_default_suppressions();
CAMD_SANITIZER_HOOK const char* __ubsan_default_options();

// Plug-ins crash in processes of their own on purpose: who watches them sees the signal, as with any other build.
#define CAMD_LEAVE_SIGNALS "handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0"

const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:strict_init_order=1:" CAMD_LEAVE_SIGNALS;
}
const char* __lsan_default_options() { return "print_suppressions=0"; }
const char* __tsan_default_options() {
  // Debian's GLib, GStreamer and OpenCV are not instrumented: what happens inside them is not judged, what camd does
  // around them is.
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1:history_size=4:"
         "print_suppressions=0:" CAMD_LEAVE_SIGNALS;
}
const char* __ubsan_default_options() { return "print_stacktrace=1"; }

const char* __lsan_default_suppressions() {
  return
      // GLib's type system and quarks live for the whole process by design.
      "leak:libglib-2.0.so\n"
      "leak:libgobject-2.0.so\n"
      // GStreamer keeps its registry and the plug-ins it has opened until the process ends.
      "leak:libgstreamer-1.0.so\n"
      "leak:libgstbase-1.0.so\n";
}

const char* __tsan_default_suppressions() {
  return
      // Not instrumented, see above: their lock-free queues and atomics look like races.
      "race:libglib-2.0.so\n"
      "race:libgobject-2.0.so\n"
      "race:libgstreamer-1.0.so\n"
      // GLib takes its own mutexes in orders that only its documentation proves.
      "deadlock:libglib-2.0.so\n"
      "deadlock:libgobject-2.0.so\n"
      "deadlock:libgstreamer-1.0.so\n";
}
