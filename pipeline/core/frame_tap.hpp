// FrameTap: where those who look on get copies of delivered frames: detections, events and pictures.
//
//   function                                  thread
//   constructor, make_room()                  [setup]
//   wants_picture()                           [dispatch], [no-alloc], one load
//   wants_frames()                            [post], [no-alloc], one load
//   delivered()                               [post], [no-alloc], after the frame is accounted for
//   watch(), take_frames(),                   [any], those who look on
//   order_picture(), take_pictures()
//
// A picture is copied only when one was ordered, and once for each order, however many look on. An order waits for the
// camera's next delivered frame. That frame keeps its slot until the copy is made, which is after its delivery.
// Detections and events are copied while somebody watches, into memory of a fixed size. What finds no room is counted.
//
// Invariants: frames wait for nobody but for the short lock. Memory is bounded by the constants below, and is allocated
// by those who look on. An order names a slot: after a reload it may bring the picture of another camera, which says
// whose it is. The tap outlives the pipeline.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/picture.hpp"
#include "capture/frame.hpp"
#include "pipeline/core/postprocessor_chain.hpp"
#include "pipeline/core/slot_table.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

// Frames that were delivered, in the order of their delivery.
class TappedFrames {
 public:
  // What waits at most between two calls of take_frames(), of all cameras.
  static constexpr std::size_t kMostFrames = 1024;
  static constexpr std::size_t kMostDetections = 8192;
  static constexpr std::size_t kMostEvents = 1024;

  [[nodiscard]] std::size_t size() const noexcept { return frames_.size(); }
  [[nodiscard]] const char* camera(std::size_t i) const noexcept { return frames_[i].camera.data(); }
  // Whether its picture was copied.
  [[nodiscard]] bool has_picture(std::size_t i) const noexcept { return frames_[i].has_picture; }
  // The frame as the plug-in `jsonl` writes it, without a line's end.
  [[nodiscard]] std::string json(std::size_t i) const;
  // Frames that found no room.
  [[nodiscard]] std::uint64_t missed() const noexcept { return missed_; }

 private:
  friend class FrameTap;
  static constexpr std::size_t kNameBytes = 72;  // of a camera: configurations allow 64
  struct Frame {
    camd_frame frame;  // without its pointers
    std::array<char, kNameBytes> camera;
    std::int64_t returned_ns;
    std::size_t detections, detection_count;  // the first one, and how many
    std::size_t events, event_count;
    bool has_picture;
  };
  void reserve();
  void clear() noexcept;
  // [no-alloc] after reserve().
  void add(const camd_frame& frame, const camd_results& results, const FramePostprocessing& chain,
           std::int64_t returned_ns, bool has_picture) noexcept;

  std::vector<Frame> frames_;
  std::vector<camd_detection> detections_;
  std::vector<camd_event> events_;
  std::uint64_t missed_ = 0;
};

// Valid during the call.
struct TappedPicture {
  const char* camera;
  std::uint64_t sequence;
  base::TimePoint delivered;
  const base::PictureLayout& layout;
  const std::byte* pixels;
};

class FrameTap {
 public:
  // Pictures that are copied and not taken yet.
  static constexpr std::size_t kMostPictures = 4;

  FrameTap() : orders_(0) {}
  FrameTap(const FrameTap&) = delete;
  FrameTap& operator=(const FrameTap&) = delete;

  // [setup] For so many cameras.
  void make_room(std::size_t cameras) { orders_.grow(cameras); }
  // [dispatch] Whether the camera's next delivered frame must keep its picture until delivered().
  [[nodiscard]] bool wants_picture(capture::CameraIndex camera) const noexcept {
    return orders_[camera].load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool wants_frames() const noexcept { return watchers_.load(std::memory_order_relaxed) > 0; }
  // [post] `chain` has the frame's events. `picture` is the frame with its pixels where it has kept them, else null.
  void delivered(const camd_frame& frame, const camd_results& results, const FramePostprocessing& chain,
                 base::TimePoint returned, const capture::Frame* picture) noexcept;

  // One more who takes frames (true), or one less.
  void watch(bool begins);
  // All that were delivered since the last call. `into` must be kept for the next call, and be empty in the first one.
  // Nothing where nobody watches.
  void take_frames(TappedFrames& into);

  // Throws std::bad_alloc.
  void order_picture(capture::CameraIndex camera);
  // Calls `use` for each picture that has come. Pictures that come meanwhile may find no room; their orders stay.
  void take_pictures(const std::function<void(const TappedPicture&)>& use);

 private:
  enum class State : std::uint8_t { kFree, kFilling, kFull, kTaken };
  struct Picture {
    State state = State::kFree;
    std::array<char, TappedFrames::kNameBytes> camera{};
    std::uint64_t sequence = 0;
    base::TimePoint delivered;
    base::PictureLayout layout;
    std::size_t capacity_bytes = 0;
    std::unique_ptr<std::byte[]> pixels;  // NOLINT(*-avoid-c-arrays): never value-initialised
  };
  [[nodiscard]] bool copy_picture(const camd_frame& frame, const capture::Frame& picture,
                                  base::TimePoint returned) noexcept;
  [[nodiscard]] Picture* find(State state, std::size_t least_bytes) noexcept CAMD_REQUIRES(mutex_);
  void give_memory();
  void set(Picture& picture, State state) noexcept;

  SlotTable<std::atomic<bool>> orders_;
  std::atomic<int> watchers_{0};
  base::Mutex watch_mutex_;  // before mutex_
  base::Mutex mutex_;
  TappedFrames waiting_ CAMD_GUARDED_BY(mutex_);
  std::size_t largest_bytes_ CAMD_GUARDED_BY(mutex_) = 0;  // of a picture that was ordered
  std::array<Picture, kMostPictures> pictures_;            // states are guarded by mutex_; the rest by its state
};

}  // namespace camd::pipeline
