#include "apps/http/feed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace camd::http {

// Its members are guarded by the feed's mutex_.
class Feed::Viewer final : public Stream {
 public:
  Viewer(Feed& feed, FeedFilter filter) : feed_(feed), filter_(std::move(filter)), sent_(feed.clock_.now()) {}
  ~Viewer() override { feed_.leave(this); }
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  [[nodiscard]] std::optional<std::string> next() override {
    const base::MutexLock lock(feed_.mutex_);
    if (ends_) return std::nullopt;
    feed_.hand_out();
    std::string text = std::exchange(waiting_, {});
    if (missed_ != 0) text += fmt::format("event: missed\ndata: {{\"events\":{}}}\n\n", std::exchange(missed_, 0));
    const base::TimePoint now = feed_.clock_.now();
    // Without it nobody would notice that a viewer is gone.
    if (text.empty() && now - sent_ >= kHeartbeat) text = ": still here\n\n";
    if (!text.empty()) sent_ = now;
    return text;
  }

  void end() noexcept { ends_ = true; }
  [[nodiscard]] bool wants_frame(std::string_view camera, bool has_picture, base::TimePoint now) {
    if (!filter_.camera.empty() && filter_.camera != camera) return false;
    if (has_picture || filter_.every.count() == 0) return true;
    const auto last = last_.find(camera);
    if (last == last_.end()) {
      last_.emplace(camera, now);
      return true;
    }
    if (now - last->second < filter_.every) return false;
    last->second = now;
    return true;
  }
  [[nodiscard]] bool wants_metrics() const noexcept { return filter_.metrics; }
  void give(const std::string& event) {
    if (waiting_.size() + event.size() > kMostWaitingBytes) {
      ++missed_;
    } else {
      waiting_ += event;
    }
  }
  void miss(std::uint64_t events) noexcept { missed_ += events; }

 private:
  Feed& feed_;
  const FeedFilter filter_;
  std::map<std::string, base::TimePoint, std::less<>> last_;  // by camera, where `every` is set
  std::string waiting_;
  std::uint64_t missed_ = 0;
  base::TimePoint sent_;
  bool ends_ = false;
};

std::unique_ptr<Stream> Feed::open(const FeedFilter& filter) {
  const base::MutexLock lock(mutex_);
  if (viewers_.size() >= kMostViewers) return nullptr;
  viewers_.reserve(kMostViewers);
  auto viewer = std::make_unique<Viewer>(*this, filter);
  if (viewers_.empty()) tap_.watch(true);
  viewers_.push_back(viewer.get());
  watched_ = true;
  return viewer;
}

void Feed::end_all() {
  const base::MutexLock lock(mutex_);
  for (Viewer* viewer : viewers_) viewer->end();
}

void Feed::leave(Viewer* viewer) {
  const base::MutexLock lock(mutex_);
  if (std::erase(viewers_, viewer) == 0 || !viewers_.empty()) return;
  watched_ = false;
  tap_.watch(false);
  frames_ = {};
  const base::MutexLock lines_lock(lines_mutex_);
  lines_ = {};
  missed_lines_ = 0;
}

void Feed::line(std::string_view line) {
  if (!watched_.load(std::memory_order_relaxed)) return;
  const base::MutexLock lock(lines_mutex_);
  if (lines_.size() == kMostWaitingLines) {
    ++missed_lines_;
  } else {
    lines_.emplace_back(line);
  }
}

// What has come since the last look goes to each viewer who wants it. An event is written once, and only for somebody.
void Feed::hand_out() {
  tap_.take_frames(frames_);
  const base::TimePoint now = clock_.now();
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    std::string event;
    for (Viewer* viewer : viewers_) {
      if (!viewer->wants_frame(frames_.camera(i), frames_.has_picture(i), now)) continue;
      if (event.empty()) event = fmt::format("event: detections\ndata: {}\n\n", frames_.json(i));
      viewer->give(event);
    }
  }
  std::vector<std::string> lines;
  std::uint64_t missed_lines = 0;
  {
    const base::MutexLock lock(lines_mutex_);
    lines.swap(lines_);
    missed_lines = std::exchange(missed_lines_, 0);
  }
  for (const std::string& line : lines) {
    const std::string event = fmt::format("event: metrics\ndata: {}\n\n", line);
    for (Viewer* viewer : viewers_) {
      if (viewer->wants_metrics()) viewer->give(event);
    }
  }
  for (Viewer* viewer : viewers_) viewer->miss(frames_.missed() + (viewer->wants_metrics() ? missed_lines : 0));
}

}  // namespace camd::http
