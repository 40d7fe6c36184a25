#include "pipeline/core/frame_tap.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plugins/builtin.hpp"

namespace camd::pipeline {
namespace {

template <std::size_t kSize>
void put_name(std::array<char, kSize>& to, const char* name) noexcept {
  const std::size_t size = std::min(std::strlen(name), to.size() - 1);
  std::copy_n(name, size, to.begin());
  to[size] = '\0';
}

}  // namespace

// ---- Frames

std::string TappedFrames::json(std::size_t i) const {
  const Frame& one = frames_[i];
  camd_frame frame = one.frame;
  frame.camera = one.camera.data();
  // The list is only read.
  auto* const items = const_cast<camd_detection*>(detections_.data() + one.detections);  // NOLINT(*-const-cast)
  const auto count = static_cast<std::int32_t>(one.detection_count);
  return plugins::frame_line(frame, {sizeof(camd_results), count, count, items},
                             {events_.data() + one.events, one.event_count}, one.returned_ns);
}

void TappedFrames::reserve() {
  frames_.reserve(kMostFrames);
  detections_.reserve(kMostDetections);
  events_.reserve(kMostEvents);
}

void TappedFrames::clear() noexcept {
  frames_.clear();
  detections_.clear();
  events_.clear();
  missed_ = 0;
}

void TappedFrames::add(const camd_frame& frame, const camd_results& results, const FramePostprocessing& chain,
                       std::int64_t returned_ns, bool has_picture) noexcept {
  const auto detections = static_cast<std::size_t>(results.count);
  const auto events = static_cast<std::size_t>(chain.event_count());
  if (frames_.size() == frames_.capacity() || detections_.size() + detections > detections_.capacity() ||
      events_.size() + events > events_.capacity()) {
    ++missed_;
    return;
  }
  Frame& one = frames_.emplace_back(
      Frame{frame, {}, returned_ns, detections_.size(), detections, events_.size(), events, has_picture});
  put_name(one.camera, frame.camera);
  one.frame.camera = nullptr;
  one.frame.picture = nullptr;
  detections_.insert(detections_.end(), results.items, results.items + detections);
  for (std::size_t i = 0; i < events; ++i) events_.push_back(*chain.event(static_cast<std::int32_t>(i)));
}

void FrameTap::watch(bool begins) {
  const base::MutexLock watch_lock(watch_mutex_);
  const int watchers = watchers_.load() + (begins ? 1 : -1);
  TappedFrames memory;  // made and freed without the lock that frames take
  if (watchers == 1 && begins) memory.reserve();
  if (watchers == 0 || (watchers == 1 && begins)) {
    const base::MutexLock lock(mutex_);
    std::swap(waiting_, memory);
  }
  watchers_.store(watchers);
}

void FrameTap::take_frames(TappedFrames& into) {
  into.clear();
  if (!wants_frames()) return;
  into.reserve();
  const base::MutexLock lock(mutex_);
  std::swap(waiting_, into);
}

// ---- Pictures

void FrameTap::order_picture(capture::CameraIndex camera) {
  if (camera >= orders_.size()) return;
  give_memory();
  orders_[camera].store(true, std::memory_order_relaxed);
}

// Room for the largest picture that was ordered so far, in every place that nobody uses.
void FrameTap::give_memory() {
  for (;;) {
    Picture* place = nullptr;
    std::size_t size = 0;
    {
      const base::MutexLock lock(mutex_);
      size = largest_bytes_;
      for (Picture& one : pictures_) {
        if (one.state == State::kFree && one.capacity_bytes < size) place = &one;
      }
      if (place == nullptr) return;
      place->state = State::kTaken;
    }
    place->capacity_bytes = 0;
    place->pixels = nullptr;
    try {
      place->pixels = std::make_unique_for_overwrite<std::byte[]>(size);  // NOLINT(*-avoid-c-arrays)
    } catch (...) {
      set(*place, State::kFree);
      throw;
    }
    place->capacity_bytes = size;
    set(*place, State::kFree);
  }
}

void FrameTap::take_pictures(const std::function<void(const TappedPicture&)>& use) {
  for (std::size_t i = 0; i < kMostPictures; ++i) {
    Picture* picture = nullptr;
    {
      const base::MutexLock lock(mutex_);
      picture = find(State::kFull, 0);
      if (picture == nullptr) return;
      picture->state = State::kTaken;
    }
    try {
      use({picture->camera.data(), picture->sequence, picture->delivered, picture->layout, picture->pixels.get()});
    } catch (...) {
      set(*picture, State::kFree);
      throw;
    }
    set(*picture, State::kFree);
  }
}

FrameTap::Picture* FrameTap::find(State state, std::size_t least_bytes) noexcept {
  for (Picture& one : pictures_) {
    if (one.state == state && one.capacity_bytes >= least_bytes) return &one;
  }
  return nullptr;
}

void FrameTap::set(Picture& picture, State state) noexcept {
  const base::MutexLock lock(mutex_);
  picture.state = state;
}

// ---- [post]

void FrameTap::delivered(const camd_frame& frame, const camd_results& results, const FramePostprocessing& chain,
                         base::TimePoint returned, const capture::Frame* picture) noexcept {
  const bool has_picture = picture != nullptr && copy_picture(frame, *picture, returned);
  if (!wants_frames()) return;
  const base::MutexLock lock(mutex_);
  waiting_.add(frame, results, chain, base::to_ns(returned), has_picture);
}

bool FrameTap::copy_picture(const camd_frame& frame, const capture::Frame& picture, base::TimePoint returned) noexcept {
  const std::size_t size = picture.layout.size_bytes;
  std::atomic<bool>& ordered = orders_[picture.camera];
  Picture* place = nullptr;
  {
    const base::MutexLock lock(mutex_);
    if (!ordered.load(std::memory_order_relaxed)) return false;  // the frame before has brought it
    largest_bytes_ = std::max(largest_bytes_, size);
    place = find(State::kFree, size);
    if (place == nullptr) return false;
    place->state = State::kFilling;
    ordered.store(false, std::memory_order_relaxed);
  }
  put_name(place->camera, frame.camera);
  place->sequence = frame.sequence;
  place->delivered = returned;
  place->layout = picture.layout;
  std::copy_n(picture.pixels.begin(), size, place->pixels.get());
  set(*place, State::kFull);
  return true;
}

}  // namespace camd::pipeline
