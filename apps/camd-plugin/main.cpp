// camd-plugin: the process that plug-ins run in. camd starts it; by hand it says so.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "apps/camd-plugin/confine.hpp"
#include "apps/camd-plugin/denied.hpp"
#include "apps/camd-plugin/library_worker.hpp"
#include "apps/camd-plugin/python_worker.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"
#include "pipeline/plugin_process/blob.hpp"
#include "pipeline/plugin_process/descriptor_socket.hpp"

namespace {

using namespace camd;
namespace wire = camd::pipeline::wire;

constexpr int kUsage = 2;
constexpr int kRefused = 3;

wire::WorkerOrder first_order() {
  std::uint64_t size = 0;
  std::vector<pipeline::Descriptor> fds;
  if (!pipeline::receive_descriptors(wire::kControlFd, std::as_writable_bytes(std::span(&size, 1)), fds) ||
      fds.size() != 1) {
    throw base::Error(base::ErrorKind::kPlugin, "camd sent no order");
  }
  const pipeline::MemoryFile blob(std::move(fds.front()), size, false);
  return wire::WorkerOrder::read({reinterpret_cast<const char*>(blob.data()), size});
}

int serve() {
  // The kernel ends this process with camd, also where that is killed.
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  const wire::WorkerOrder order = first_order();
  if (getppid() != order.parent) return 0;  // it has ended already
  [[maybe_unused]] const int nice =
      ::nice(order.nice);  // beyond what camd itself has; never less than 0, so that nothing refuses it
  const std::string confinement = worker::confine(order);
  if (order.confined) worker::watch_denied();
  if (!order.python.empty()) return worker::become_python(order, confinement);
  worker::serve_libraries(order, confinement);
  return 0;
}

// Becomes addr2line, confined: what it reads is a plug-in's. It answers with one message on the socket.
int tell_line(const char* file, const char* offset) {
  wire::WorkerOrder order;
  order.name = "where";
  order.python = "addr2line";  // it may become another program
  (void)worker::confine(order);
  (void)dup2(wire::kControlFd, STDOUT_FILENO);
  execlp("addr2line", "addr2line", "-f", "-C", "-p", "-e", file, offset, nullptr);
  return kRefused;  // it is not installed
}

}  // namespace

#if defined(CAMD_SANITIZED)
// Looking for leaks takes a process and ptrace(), which are not to be had here.
extern "C" int __lsan_is_turned_off();               // NOLINT(bugprone-reserved-identifier)
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT(bugprone-reserved-identifier)
#endif

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--where") == 0) return tell_line(argv[2], argv[3]);
  if (argc != 3 || std::strcmp(argv[1], "--serve") != 0) {
    std::fputs("camd-plugin: camd starts it for plug-ins that run in a process of their own (isolation: process)\n",
               stderr);
    return kUsage;
  }
  try {
    return serve();
  } catch (const std::exception& error) {
    base::log().error("plug-in process {}: {}", argv[2], error.what());
    return kRefused;
  }
}
