// LentPictures: a camera whose every picture is taken on its source's thread, as a GPU's dispatch does, and remembered.
//
// Threads: [test], ready() [source]. Invariant: the device outlives it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "capture/frame_source.hpp"
#include "capture_fixtures.hpp"

namespace camd::capture::testing {

// Of the pixels alone, wherever they lie (FNV-1a, by words of a row).
inline std::uint64_t digest_of(const Frame& frame) {
  std::uint64_t sum = 0xcbf29ce484222325;
  const base::PictureLayout tight = base::tight_layout(frame.layout.format, frame.layout.width, frame.layout.height);
  for (int p = 0; p < tight.plane_count; ++p) {
    const base::Plane& plane = frame.layout.planes[static_cast<std::size_t>(p)];
    for (int row = 0; row < plane.height; ++row) {
      const std::size_t from =
          plane.offset_bytes + static_cast<std::size_t>(row) * static_cast<std::size_t>(plane.stride_bytes);
      const auto bytes = static_cast<std::size_t>(tight.planes[static_cast<std::size_t>(p)].stride_bytes);
      for (const std::byte byte : frame.pixels.subspan(from, bytes)) {
        sum = (sum ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
      }
    }
  }
  return sum;
}

class LentPictures final : public FrameObserver {
 public:
  LentPictures(device::Device& device, device::HostMemory kind, SharedMemory shared = nullptr) {
    FrameRing::Options options;
    options.slots = 4;
    options.memory = kind;
    options.shared = shared;
    ring_ = std::make_unique<FrameRing>(device, *this, options);
  }
  ~LentPictures() override {
    destroy_source();
    let_go();
  }
  LentPictures(const LentPictures&) = delete;
  LentPictures& operator=(const LentPictures&) = delete;

  // ---- [setup]
  void hold(std::size_t pictures) { hold_ = pictures; }  // the first ones
  // Before the picture of this number is taken.
  void move_at(std::size_t number, device::Device& device, device::HostMemory kind) {
    move_at_ = number;
    move_to_ = &device;
    move_kind_ = kind;
  }
  void skip_digests() { digests_wanted_ = false; }
  // Called with each picture while it is held.
  void look(std::function<void(const Frame&)> call) { look_ = std::move(call); }
  void play(const config::Source& source) {
    config::Camera camera;
    camera.name = "door";
    camera.source = source;
    source_ = make_source(camera, 0, *ring_, recorder_, base::system_clock());
    source_->start();
  }
  // After destroy_source().
  void play_again(const config::Source& source) {
    ring_->reopen();
    play(source);
  }
  void stop() { source_->stop(); }
  void destroy_source() {
    if (source_) source_->stop();
    source_.reset();
  }

  // ---- [test]
  [[nodiscard]] bool wait_for(std::size_t pictures, std::chrono::seconds patience = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const base::MutexLock lock(mutex_);
    while (digests_.size() < pictures) {
      if (!changed_.wait_until(mutex_, deadline) && digests_.size() < pictures) return false;
    }
    return true;
  }
  [[nodiscard]] std::vector<std::uint64_t> first(std::size_t pictures) const {
    const base::MutexLock lock(mutex_);
    return {digests_.begin(), digests_.begin() + static_cast<std::ptrdiff_t>(std::min(pictures, digests_.size()))};
  }
  [[nodiscard]] std::vector<std::uint64_t> all() const {
    const base::MutexLock lock(mutex_);
    return digests_;
  }
  [[nodiscard]] int taken() const {
    const base::MutexLock lock(mutex_);
    return static_cast<int>(digests_.size());
  }
  // Pictures that were not copied.
  [[nodiscard]] int lent() const {
    const base::MutexLock lock(mutex_);
    return taken_ - copied_;
  }
  [[nodiscard]] bool last_was_lent() const {
    const base::MutexLock lock(mutex_);
    return last_was_lent_;
  }
  [[nodiscard]] const SlotLease& held(int which) const {
    const base::MutexLock lock(mutex_);
    return held_[static_cast<std::size_t>(which)];
  }
  void let_go() {
    std::deque<SlotLease> gone;
    const base::MutexLock lock(mutex_);
    gone.swap(held_);
  }
  [[nodiscard]] std::vector<SourceState> states() const { return recorder_.states(); }
  [[nodiscard]] StateRecorder& recorder() { return recorder_; }
  [[nodiscard]] const FrameSource& source() const { return *source_; }

  void captured(CameraIndex) noexcept override {}
  void dropped(CameraIndex, RingDrop) noexcept override {}
  void ready(CameraIndex) noexcept override {
    if (move_to_ != nullptr && taken_now() == move_at_) ring_->move_to(*std::exchange(move_to_, nullptr), move_kind_);
    std::optional<SlotLease> lease = ring_->take();
    if (!lease) return;
    if (look_) look_(lease->frame());
    const std::uint64_t digest = digests_wanted_ ? digest_of(lease->frame()) : 0;
    const std::uint64_t copied = source_->copied_bytes();
    const base::MutexLock lock(mutex_);
    digests_.push_back(digest);
    ++taken_;
    last_was_lent_ = copied == copied_bytes_;
    copied_ += last_was_lent_ ? 0 : 1;
    copied_bytes_ = copied;
    if (held_.size() < hold_) held_.push_back(std::move(*lease));
    changed_.notify_all();
  }

 private:
  [[nodiscard]] std::size_t taken_now() const {
    const base::MutexLock lock(mutex_);
    return digests_.size();
  }

  StateRecorder recorder_;
  std::unique_ptr<FrameRing> ring_;
  std::unique_ptr<FrameSource> source_;  // constant while it runs
  bool digests_wanted_ = true;
  std::size_t hold_ = 0;
  std::size_t move_at_ = 0;
  device::Device* move_to_ = nullptr;
  device::HostMemory move_kind_ = device::HostMemory::kPinned;
  std::function<void(const Frame&)> look_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::uint64_t> digests_ CAMD_GUARDED_BY(mutex_);
  std::deque<SlotLease> held_ CAMD_GUARDED_BY(mutex_);
  int taken_ CAMD_GUARDED_BY(mutex_) = 0;
  int copied_ CAMD_GUARDED_BY(mutex_) = 0;
  bool last_was_lent_ CAMD_GUARDED_BY(mutex_) = false;
  std::uint64_t copied_bytes_ CAMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace camd::capture::testing
