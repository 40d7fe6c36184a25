// Feed: detections and metrics lines for those who look on, as server-sent events
// (html.spec.whatwg.org/multipage/server-sent-events.html).
//
//   event: detections   one delivered frame of one camera, as the plug-in `jsonl` writes it
//   event: metrics      one metrics line
//   event: missed       {"events":N}: so many were left out here, because this viewer or the server was too slow
//
// Threads: line() [metrics], it copies and returns; the rest [any], and streams [server].
// Invariants: viewers are bounded, and so is what waits for each of them. Nothing is copied while there is no viewer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/http/server.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/core/frame_tap.hpp"

namespace camd::http {

inline constexpr std::size_t kMostViewers = 32;
inline constexpr std::size_t kMostWaitingBytes = std::size_t{2} * 1024 * 1024;  // for one viewer
inline constexpr std::size_t kMostWaitingLines = 4096;                          // of metrics, between two looks
inline constexpr base::Duration kHeartbeat = std::chrono::seconds(5);           // of silence, then a sign of life

// What a viewer asked for.
struct FeedFilter {
  std::string camera{};     // empty: all
  base::Duration every{0};  // at most one frame of each camera in so long, and those whose picture was copied; 0: all
  bool metrics = false;
};

class Feed {
 public:
  // Both outlive this, and this outlives its streams.
  Feed(const base::Clock& clock, pipeline::FrameTap& tap) : clock_(clock), tap_(tap) {}
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // Null: there are kMostViewers already. The viewer is gone with the stream. Throws std::bad_alloc.
  [[nodiscard]] std::unique_ptr<Stream> open(const FeedFilter& filter);
  // All streams end.
  void end_all();
  void line(std::string_view line);

 private:
  class Viewer;
  void leave(Viewer* viewer);
  void hand_out() CAMD_REQUIRES(mutex_);

  const base::Clock& clock_;
  pipeline::FrameTap& tap_;
  std::atomic<bool> watched_{false};
  base::Mutex mutex_;  // before lines_mutex_
  std::vector<Viewer*> viewers_ CAMD_GUARDED_BY(mutex_);
  pipeline::TappedFrames frames_ CAMD_GUARDED_BY(mutex_);
  base::Mutex lines_mutex_;
  std::vector<std::string> lines_ CAMD_GUARDED_BY(lines_mutex_);
  std::uint64_t missed_lines_ CAMD_GUARDED_BY(lines_mutex_) = 0;
};

}  // namespace camd::http
