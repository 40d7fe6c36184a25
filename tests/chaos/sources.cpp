// RTSP sources alone, without models, plug-ins or accounting: many failed tries in a short time (tries.py).
//
//   camd_sources PATIENCE_MS WAIT_MS PORT:COUNT...
//
// COUNT sources ask rtsp://127.0.0.1:PORT/live again and again: each gives up after PATIENCE_MS without a picture and
// waits for WAIT_MS. That is the only difference to sources of camd, which give the first picture 15 s. Ends when its
// standard input is closed: prints "stopped in N ms, M hung", and what is left when the sources are gone: "left: N
// bytes, N threads, N descriptors, N names". Names are those that GLib has interned. Exit code 1 when M is not 0.
#include <fmt/format.h>
#include <glib.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "capture/gst_source.hpp"
#include "device/host_device.hpp"

namespace {

using std::chrono::milliseconds;
namespace base = camd::base;
namespace capture = camd::capture;

// Pictures come from none of these servers, and states say nothing that the servers do not know.
class Nobody final : public capture::FrameObserver, public capture::SourceListener {
 public:
  void captured(capture::CameraIndex) noexcept override {}
  void dropped(capture::CameraIndex, capture::RingDrop) noexcept override {}
  void ready(capture::CameraIndex) noexcept override {}
  void state_changed(capture::CameraIndex, capture::SourceState, const std::string&) noexcept override {}
};

bool to_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0;
}

struct Asked {
  std::unique_ptr<capture::FrameRing> ring;
  std::unique_ptr<capture::FrameSource> source;
};

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

// Once the threads that GLib keeps for later are gone, and those of the sources that end by themselves.
void tell_what_is_left() {
  constexpr milliseconds kStep(20);
  constexpr int kQuiet = 50;  // steps; a thread of GLib's pools waits half a second for more work
  std::ptrdiff_t threads = 0;
  g_thread_pool_set_max_unused_threads(0);
  for (int quiet = 0; quiet < kQuiet; ++quiet) {
    if (entries("/proc/self/task") != std::exchange(threads, entries("/proc/self/task"))) quiet = 0;
    std::this_thread::sleep_for(kStep);
  }
  std::printf("left: %zu bytes, %td threads, %td descriptors, %u names\n", mallinfo2().uordblks, threads,
              entries("/proc/self/fd") - 1, g_quark_from_string("camd_sources: the last"));
}

int wrong_usage() {
  std::fputs("usage: camd_sources PATIENCE_MS WAIT_MS PORT:COUNT...\n", stderr);
  return 2;
}

int run(int argc, char** argv) {
  int patience_ms = 0;
  int wait_ms = 0;
  if (argc < 4 || !to_number(argv[1], patience_ms) || !to_number(argv[2], wait_ms)) return wrong_usage();
  const milliseconds patience(patience_ms);
  const milliseconds wait(wait_ms);
  const auto device = camd::device::make_host_device(base::system_clock());
  Nobody nobody;
  std::vector<Asked> all;
  for (int i = 3; i < argc; ++i) {
    int port = 0;
    int count = 0;
    const std::string_view asked(argv[i]);
    const std::size_t colon = asked.find(':');
    if (colon == std::string_view::npos || !to_number(asked.substr(0, colon), port) ||
        !to_number(asked.substr(colon + 1), count)) {
      return wrong_usage();
    }
    for (int each = 0; each < count; ++each) {
      camd::config::Camera camera;
      camera.name = fmt::format("{}-{}", port, each);
      camd::config::RtspSource source;
      source.url = fmt::format("rtsp://127.0.0.1:{}/live", port);
      source.latency = milliseconds(20);
      source.recovery.timeout = patience;
      source.recovery.reconnect_initial = wait;
      source.recovery.reconnect_max = wait;
      camera.source = source;
      const auto index = static_cast<capture::CameraIndex>(all.size());
      Asked& one = all.emplace_back();
      one.ring = std::make_unique<capture::FrameRing>(
          *device, nobody,
          capture::FrameRing::Options{index, 3, capture::RingPolicy::kNewestWins, camd::device::HostMemory::kPageable});
      one.source = capture::make_gst_source(camera, index, *one.ring, nobody, base::system_clock(), patience);
    }
  }
  for (const Asked& asked : all) asked.source->start();
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  const base::TimePoint begin = base::system_clock().now();
  for (const Asked& asked : all) asked.source->request_stop();
  int hung = 0;
  for (const Asked& asked : all) {
    const base::Duration left = capture::kStopPatience - (base::system_clock().now() - begin);
    if (!asked.source->join(std::max(left, base::Duration::zero()))) ++hung;
  }
  const auto took = std::chrono::duration_cast<milliseconds>(base::system_clock().now() - begin);
  std::printf("stopped in %lld ms, %d hung\n", static_cast<long long>(took.count()), hung);
  std::fflush(stdout);
  // What hangs may go on while the process ends.
  if (hung > 0) std::_Exit(1);
  all.clear();
  tell_what_is_left();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "camd_sources: %s\n", error.what());
    return 1;
  }
}
