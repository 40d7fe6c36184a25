#include "plugins/annotate/film.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <stdexcept>
#include <utility>

#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

constexpr std::int64_t kLookEveryNs = 1'000'000'000;

// Where pictures go that are made from now on.
std::string pictures_path(const std::string& path) {
  return path.find("{sequence}") == std::string::npos ? path : first_free(path, has_sequences);
}

}  // namespace

Film::Film(camd::plugin::Host host, std::string camera, std::string path, const FilmOptions& options)
    : host_(host), camera_(std::move(camera)), path_(std::move(path)), options_(options) {
  begin();
}

void Film::begin() {
  const std::string wanted = at_time(path_, std::time(nullptr));
  std::string chosen;
  if (options_.video) {
    auto next = std::make_unique<VideoWriter>(wanted, VideoOptions{options_.crf});
    chosen = next->path();
    if (video_) {
      video_->end_stream();
      ending_.push_back(std::move(video_));
    }
    video_ = std::move(next);
    first_ns_.reset();
    pts_ns_ = -1;
  } else {
    chosen = pictures_path(wanted);
    if (images_ && chosen == images_path_ && !failed_) return;
    // Its last pictures are written here, a handful at most.
    if (images_) static_cast<void>(images_->finish());
    images_ = nullptr;
    images_ = std::make_unique<ImageWriter>(chosen);
    images_path_ = chosen;
  }
  failed_ = false;
  if (chosen == wanted) return;
  host_.log(CAMD_LOG_INFO, fmt::format("annotate: camera '{}': {} is being written, because earlier files keep their "
                                       "names",
                                       camera_, chosen));
}

void Film::reopen() {
  if (video_ && !failed_ && !video_->fed() && video_->is_there()) return;  // nothing in it yet
  begin();
}

// Once a second: whether the film still has its name, and whether those before it are whole.
void Film::follow(std::int64_t now_ns) {
  if (!options_.video || now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + kLookEveryNs;
  for (auto& one : ending_) {
    if (!one->ended()) continue;
    const std::string problem = one->finish();
    if (!problem.empty()) host_.log(CAMD_LOG_ERROR, "annotate: " + problem);
    one = nullptr;
  }
  ending_.erase(std::remove(ending_.begin(), ending_.end(), nullptr), ending_.end());
  if (failed_ || video_->is_there()) return;
  try {
    const std::string before = video_->partial_path();
    begin();
    host_.log(CAMD_LOG_WARN, fmt::format("annotate: {} was renamed or removed: the film goes on in {}", before,
                                         video_->partial_path()));
    told_ = false;
  } catch (const std::exception& problem) {
    if (std::exchange(told_, true)) return;
    host_.log(CAMD_LOG_WARN, fmt::format("annotate: {} was renamed or removed, and the film goes on in it: {}",
                                         video_->partial_path(), problem.what()));
  }
}

bool Film::wants(const camd_frame& frame, std::int64_t now_ns) {
  follow(now_ns);
  if (failed_ || seen_++ % options_.every != 0) return false;
  std::string problem = writer().problem();
  if (problem.empty() && images_) problem = images_->write_problem();
  if (!problem.empty()) {
    failed_ = true;
    host_.log(CAMD_LOG_ERROR, fmt::format("annotate: no more pictures of camera '{}': {}", camera_, problem));
    return false;
  }
  const std::int64_t pts = first_ns_ ? frame.captured_mono_ns - *first_ns_ : 0;
  const std::int64_t period = options_.period_ns;
  // A tenth of slack: cameras are not exact, and 30 fps limited to 30 must stay 30.
  if (first_ns_ && period > 0 && pts - pts_ns_ < period - period / 10) return false;
  if (!first_ns_) first_ns_ = frame.captured_mono_ns;
  // MP4 needs times that rise: two stamps within a millisecond are pulled apart.
  constexpr std::int64_t kLeastStepNs = 1'000'000;
  const std::int64_t rising = std::max(pts, pts_ns_ < 0 ? 0 : pts_ns_ + kLeastStepNs);
  if (pts_ns_ >= 0) duration_ns_ = std::min<std::int64_t>(rising - pts_ns_, 1'000'000'000);
  pts_ns_ = rising;
  return true;
}

void Film::commit(const camd_frame& frame) {
  ++written_;
  if (images_) {
    images_->commit_picture(frame.sequence);
  } else {
    video_->commit(pts_ns_, duration_ns_);
  }
}

void Film::finish() {
  std::string problems;
  const auto note = [&problems](const std::string& problem) {
    if (!problem.empty()) problems += (problems.empty() ? "" : "; ") + problem;
  };
  for (const auto& one : ending_) note(one->finish());
  ending_.clear();
  if (video_) note(video_->finish());
  if (images_) note(images_->finish());
  if (skipped_ > 0) {
    host_.log(CAMD_LOG_WARN, fmt::format("annotate: {} of {} pictures of camera '{}' were left out because the encoder "
                                         "was busy: `scale`, `fps` or `every` lighten its work",
                                         skipped_, skipped_ + written_, camera_));
  }
  if (!problems.empty()) throw std::runtime_error(problems);
}

}  // namespace camd::plugins
