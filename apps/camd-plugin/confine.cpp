#include "apps/camd-plugin/confine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "pipeline/plugin_process/shared_memory.hpp"

namespace camd::worker {
namespace {

using base::Error;
using base::ErrorKind;
using pipeline::Descriptor;

// ---- Landlock. Debian 12's headers are older than the kernels that run: numbers of linux/landlock.h.

constexpr std::uint64_t kExecute = 1ULL << 0, kWriteFile = 1ULL << 1, kReadFile = 1ULL << 2, kReadDir = 1ULL << 3,
                        kRefer = 1ULL << 13, kTruncate = 1ULL << 14;
// Remove and make: everything between reading folders and moving between them.
constexpr std::uint64_t kRemoveAndMake = ((1ULL << 13) - 1) & ~(kExecute | kWriteFile | kReadFile | kReadDir);
constexpr std::uint64_t kNetBindTcp = 1ULL << 0, kNetConnectTcp = 1ULL << 1;
constexpr std::uint64_t kScopeAbstractUnix = 1ULL << 0, kScopeSignal = 1ULL << 1;
constexpr int kRulePathBeneath = 1;

struct RulesetAttributes {
  std::uint64_t files = 0, network = 0, scoped = 0;
};
struct [[gnu::packed]] PathBeneath {
  std::uint64_t allowed = 0;
  std::int32_t parent = -1;
};

Descriptor allow_path(int ruleset, const std::string& path, std::uint64_t rights) {
  Descriptor fd(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat found {};
  if (!fd || fstat(fd.get(), &found) != 0) {
    throw Error(ErrorKind::kPlugin,
                fmt::format("allow: files: {}: {} (a folder's name ends with '/')", path, std::strerror(errno)));
  }
  if (!S_ISDIR(found.st_mode)) rights &= kWriteFile | kTruncate;
  const PathBeneath rule{rights, fd.get()};
  if (syscall(SYS_landlock_add_rule, ruleset, kRulePathBeneath, &rule, 0) != 0) {
    throw Error(ErrorKind::kPlugin, fmt::format("allow: files: {}: Landlock: {}", path, std::strerror(errno)));
  }
  return fd;
}

// What NVIDIA's driver opens for writing: its devices, and the names of this process's own threads, which are files.
void allow_gpu(int ruleset, std::uint64_t handled) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    if (!entry.path().filename().string().starts_with("nvidia")) continue;
    (void)allow_path(ruleset, entry.path().string(), kWriteFile);
  }
  // Stays open, here and in an interpreter: a folder of /proc that is forgotten comes back as one that no rule knows.
  const Descriptor threads = allow_path(ruleset, "/proc/self/task", (kWriteFile | kTruncate) & handled);
  if (fcntl(threads.get(), F_DUPFD, 0) < 0) throw Error(ErrorKind::kPlugin, "no descriptor is left");
}

// Returns the version of Landlock that is in force; 0: the kernel has none.
int confine_files(const pipeline::wire::WorkerOrder& order) {
  constexpr unsigned kAskVersion = 1;
  const auto version = static_cast<int>(syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion));
  if (version < 1) return 0;
  RulesetAttributes attributes;
  attributes.files = kWriteFile | kRemoveAndMake;
  if (version >= 2) attributes.files |= kRefer;
  if (version >= 3) attributes.files |= kTruncate;
  if (version >= 4 && !order.network) attributes.network = kNetBindTcp | kNetConnectTcp;
  if (version >= 6) attributes.scoped = kScopeSignal | (order.network ? 0 : kScopeAbstractUnix);
  const std::size_t size = version >= 6 ? sizeof(attributes) : version >= 4 ? 16 : 8;
  const Descriptor ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!ruleset) throw Error(ErrorKind::kPlugin, fmt::format("Landlock: {}", std::strerror(errno)));
  for (const std::string& path : order.files) {
    if (path.ends_with('/')) {
      std::error_code error;
      std::filesystem::create_directories(path, error);
    }
    (void)allow_path(ruleset.get(), path, attributes.files);
  }
  (void)allow_path(ruleset.get(), "/dev/null", attributes.files);
  if (order.gpu) allow_gpu(ruleset.get(), attributes.files);
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) {
    throw Error(ErrorKind::kPlugin, fmt::format("Landlock: {}", std::strerror(errno)));
  }
  return version;
}

// ---- System calls

constexpr std::array kAllowed = {
    // Files
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "open",
    "openat", "openat2", "creat", "close", "close_range", "stat", "fstat", "lstat", "newfstatat", "statx", "statfs",
    "fstatfs", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents", "getdents64", "lseek",
    "fcntl", "flock", "fallocate", "ftruncate", "truncate", "fsync", "fdatasync", "sync_file_range", "fadvise64",
    "readahead", "sendfile", "copy_file_range", "splice", "tee", "getcwd", "chdir", "fchdir", "mkdir", "mkdirat",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "link", "linkat", "symlink", "symlinkat", "chmod",
    "fchmod", "fchmodat", "utime", "utimes", "utimensat", "futimesat", "umask", "getxattr", "lgetxattr", "fgetxattr",
    "listxattr", "llistxattr", "flistxattr", "dup", "dup2", "dup3", "pipe", "pipe2", "poll", "ppoll", "select",
    "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd",
    "eventfd2", "timerfd_create", "timerfd_settime", "timerfd_gettime", "signalfd", "signalfd4", "inotify_init",
    "inotify_init1", "inotify_add_watch", "inotify_rm_watch", "memfd_create",
    // Memory
    "mmap", "munmap", "mremap", "mprotect", "pkey_mprotect", "pkey_alloc", "pkey_free", "madvise", "msync", "mincore",
    "mlock", "mlock2", "munlock", "brk", "mbind", "set_mempolicy", "get_mempolicy", "membarrier",
    // Threads and time
    "futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "exit", "exit_group", "set_tid_address",
    "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_getscheduler",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getattr", "getcpu", "getpriority", "nanosleep",
    "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "times", "alarm", "getitimer",
    "setitimer", "timer_create", "timer_settime", "timer_gettime", "timer_delete", "timer_getoverrun",
    "restart_syscall",
    // Who one is, and signals to oneself
    "getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups",
    "getpgrp", "getpgid", "getsid", "getrusage", "getrlimit", "setrlimit", "prlimit64", "sysinfo", "uname", "getrandom",
    "capget", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend",
    "sigaltstack", "pause", "arch_prctl", "prctl",
    // Sockets that exist, and pairs
    "socketpair", "sendto", "recvfrom", "sendmsg", "recvmsg", "shutdown", "getsockopt", "setsockopt", "getsockname",
    "getpeername"};
constexpr std::array kNetwork = {"socket", "connect", "bind", "listen", "accept", "accept4", "sendmmsg", "recvmmsg"};

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(ENOSYS)), &seccomp_release) {
    if (context_ == nullptr) throw Error(ErrorKind::kPlugin, "libseccomp: seccomp_init() failed");
  }
  void add(std::uint32_t action, const char* name) { add(action, name, {}); }
  void add(std::uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> arguments) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR) return;  // a call that this machine has not got
    const int result = seccomp_rule_add_array(context_.get(), action, call, static_cast<unsigned>(arguments.size()),
                                              arguments.begin());
    if (result != 0 && result != -EEXIST) {
      throw Error(ErrorKind::kPlugin, fmt::format("libseccomp: {}: {}", name, std::strerror(-result)));
    }
  }
  void load() {
    const int result = seccomp_load(context_.get());
    if (result != 0) throw Error(ErrorKind::kPlugin, fmt::format("seccomp: {}", std::strerror(-result)));
  }

 private:
  std::unique_ptr<void, decltype(&seccomp_release)> context_;
};

void confine_calls(const pipeline::wire::WorkerOrder& order) {
  Filter filter;
  for (const char* name : kAllowed) filter.add(SCMP_ACT_ALLOW, name);
  const std::uint32_t denied = SCMP_ACT_ERRNO(EACCES);
  for (const char* name : kNetwork) {
    if (!order.network && order.gpu && std::strcmp(name, "socket") == 0) {
      filter.add(SCMP_ACT_ALLOW, name, {{0, SCMP_CMP_EQ, AF_UNIX, 0}});
      filter.add(denied, name, {{0, SCMP_CMP_NE, AF_UNIX, 0}});
    } else {
      // NVIDIA's driver hands memory from process to process over sockets of the machine's own.
      filter.add(order.network || order.gpu ? SCMP_ACT_ALLOW : denied, name);
    }
  }
  // A thread, but no process: clone3() hides its flags from a filter, so it is unknown and the C library takes clone().
  filter.add(SCMP_ACT_ALLOW, "clone", {{0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD}});
  filter.add(SCMP_ACT_ERRNO(EAGAIN), "clone", {{0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0}});
  filter.add(SCMP_ACT_ERRNO(EAGAIN), "fork");
  filter.add(SCMP_ACT_ERRNO(EAGAIN), "vfork");
  const auto self = static_cast<scmp_datum_t>(getpid());
  filter.add(SCMP_ACT_ALLOW, "tgkill", {{0, SCMP_CMP_EQ, self, 0}});
  filter.add(SCMP_ACT_ALLOW, "kill", {{0, SCMP_CMP_EQ, self, 0}});
  // A terminal must not be made to read what a plug-in writes.
  filter.add(SCMP_ACT_ALLOW, "ioctl", {{1, SCMP_CMP_NE, TIOCSTI, 0}});
  if (!order.python.empty()) filter.add(SCMP_ACT_ALLOW, "execve");  // the interpreter; it is as confined as this
  filter.load();
}

void limit(int what, rlim_t value) {
  rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource>(what), &now) != 0) return;
  now.rlim_max = std::min(now.rlim_max, value);
  now.rlim_cur = std::min(now.rlim_cur, now.rlim_max);
  (void)setrlimit(static_cast<__rlimit_resource>(what), &now);
}

}  // namespace

std::string confine(const pipeline::wire::WorkerOrder& order) {
  constexpr rlim_t kMostDescriptors = 4096;
  [[maybe_unused]] constexpr std::uint64_t kOnTop = std::uint64_t{256} << 20;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) throw Error(ErrorKind::kPlugin, "no_new_privs was refused");
  limit(RLIMIT_NOFILE, kMostDescriptors);
#if !defined(CAMD_SANITIZED)  // the sanitizers' own memory is beyond any limit
  // camd looks every 50 ms at what is really used; this stops what grows faster.
  if (order.memory_bytes > 0) limit(RLIMIT_DATA, order.memory_bytes * 2 + kOnTop);
#endif
  if (!order.confined) return "not confined";
  const int landlock = confine_files(order);
  confine_calls(order);
  return fmt::format("{}{}, {} ({}seccomp)", order.network ? "network" : "no network", order.gpu ? ", GPU" : "",
                     landlock == 0         ? "files as the user may: this kernel has no Landlock"
                     : order.files.empty() ? "writes no files"
                                           : fmt::format("writes {}", fmt::join(order.files, " ")),
                     landlock == 0 ? "" : fmt::format("Landlock {}, ", landlock));
}

}  // namespace camd::worker
