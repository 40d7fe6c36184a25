#include "apps/camd-plugin/python_worker.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log.hpp"
#include "pipeline/plugin_process/protocol.hpp"

namespace camd::worker {

int become_python(const pipeline::wire::WorkerOrder& order, const std::string& confinement) {
  constexpr int kCannot = 3;
  const std::string script = order.python_code + "/camd_worker.py";
  const std::string library = order.python_code + "/camd_worker.so";
  (void)fcntl(pipeline::wire::kControlFd, F_SETFD, 0);
  // NumPy's OpenBLAS makes a thread for each core when it is loaded, each with 40 MiB of address space: with many cores
  // more than `memory` has room for.
  (void)setenv("OPENBLAS_NUM_THREADS", "1", 0);  // NOLINT(concurrency-mt-unsafe): there is one thread
  // -B: no compiled files beside the author's; -u: what is printed is seen at once.
  const std::array<const char*, 9> arguments = {
      order.python.c_str(), "-B",   "-u", script.c_str(), library.c_str(), order.name.c_str(),
      confinement.c_str(),  nullptr};
  // execvp() takes pointers that are not const, though it changes nothing.
  execvp(order.python.c_str(), const_cast<char* const*>(arguments.data()));  // NOLINT(*-const-cast)
  base::log().error("plug-in process {}: python: {} cannot be started: {}", order.name, order.python,
                    std::strerror(errno));
  return kCannot;
}

}  // namespace camd::worker
