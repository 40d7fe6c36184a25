// FrameRing: the slots of one camera, in host memory of the device's kind (page-locked on CUDA).
//
//   Free -> Filling -> Ready -> Uploading -> Free        a SlotLease is a move-only right to one slot
//
// A source begins a frame, fills the leased slot and publishes it. The dispatcher takes a Ready frame and keeps the
// slot until the device has read it (or longer, when a postprocessor wants the picture). Newest wins: take() returns
// the newest Ready frame and supersedes the older ones, except those that are young: they have waited for less than a
// period of their camera. So both of two frames are delivered that come at once because a decoder or a network had
// stood still. A camera that has lost one of its last 17 frames has no young ones: more comes than can be read, and
// then the newest is worth most. When no slot is free, begin() takes the oldest Ready frame's slot and counts that
// frame as superseded; when none is Ready either, the frame that has just arrived is the one that is counted. The
// source never waits. Lossless (a file with realtime: false): begin() waits for a free slot, take() returns the oldest
// frame. Where the ring has a gate, a filled frame that the gate holds back is Free again at once and was never Ready.
// Free slots are filled in turn, so that every slot has its memory after the first few frames.
//
// Threads: begin(), FillLease [source]; take(), SlotLease [dispatch] then [any] one thread at a time; close() [any];
// start_at(), set_slots(), move_to(), reopen() [setup].
// Invariants: a slot is in one state; every frame for which captured() was reported is later either published and
// taken exactly once, or reported as dropped exactly once. The ring outlives its leases. No lock is held while pixels
// are written or read, or while borrowed memory is given back. Borrowed memory is given back exactly once. When it is
// given back, nobody reads it any more; its slot may be Free by then and may even hold another frame, because take()
// frees a superseded slot first. After construction nothing is allocated, except when a slot gets a bigger picture than
// any before (it grows) [no-alloc otherwise].
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "capture/copy_rows.hpp"
#include "capture/frame.hpp"
#include "capture/frame_gate.hpp"
#include "capture/picture_memory.hpp"
#include "device/device.hpp"

namespace camd::capture {

// Why a frame never left the ring.
enum class RingDrop : std::uint8_t {
  kSuperseded,  // a newer frame took its place, or no slot was free
  kNotFilled,   // the source leased a slot and did not publish it
  kClosed,      // the ring was closed
  kMoved,       // the ring has moved to another device, which cannot read the picture where it lies
  kGated,       // the ring's gate did not let it pass
};
inline constexpr int kRingDropCount = 5;

// Hears of every frame's fate inside the ring, in the ring's lock: must be quick and must not call the ring.
class FrameObserver {
 public:
  virtual ~FrameObserver() = default;
  virtual void captured(CameraIndex camera) noexcept = 0;
  virtual void dropped(CameraIndex camera, RingDrop why) noexcept = 0;
  // A frame became Ready: the dispatcher may take it, here too. Outside of the lock: it may have been superseded
  // meanwhile, and the ring may be called.
  virtual void ready(CameraIndex camera) noexcept = 0;
  // A slot of a lossless ring was freed, or the ring closed. Optional.
  virtual void freed(CameraIndex /*camera*/) noexcept {}
};

class FrameRing;

// Memory that a frame may borrow instead of being copied into the slot's own buffer (a decoder's buffer), the host's or
// the device's. `release` is called once, when the slot is freed, on whatever thread frees it.
struct BorrowedPixels {
  const std::byte* data = nullptr;
  std::size_t size_bytes = 0;
  void (*release)(void* argument) noexcept = nullptr;
  void* argument = nullptr;
};

// The right to fill a slot [source]. Destroyed without publish(): the frame is dropped as kNotFilled.
class FillLease {
 public:
  FillLease(FillLease&& other) noexcept;
  FillLease& operator=(FillLease&&) = delete;
  ~FillLease();
  // Room for layout.size_bytes bytes in the slot's own memory, with unspecified contents. [blocks] only while memory is
  // allocated for a first or bigger picture. Throws Error(kDevice) when memory cannot be had.
  [[nodiscard]] std::byte* data(const base::PictureLayout& layout);
  // Who reads data() next: copy_rows() writes accordingly.
  [[nodiscard]] NextReader next_reader() const noexcept;
  // Uses borrowed memory instead of data(). Only where the ring may borrow (may_borrow()).
  void borrow(const base::PictureLayout& layout, const BorrowedPixels& pixels) noexcept;
  // Uses a picture that lies in memory for the ring's reader(), `pixels.data` in it. False: that is somebody else by
  // now, and nothing is borrowed.
  [[nodiscard]] bool borrow_from(const PictureMemory& memory, const base::PictureLayout& layout,
                                 const BorrowedPixels& pixels) noexcept;
  // Uses a picture in the memory of the ring's device, where it is complete: `pixels.data` is its address there.
  void borrow_on_device(const base::PictureLayout& layout, const BorrowedPixels& pixels) noexcept;
  // Hands the frame over, once data() or borrow() was called (else it is dropped as kNotFilled). A `captured` after
  // `arrived` is set to `arrived`. A closed ring drops the frame as kClosed, unless it was closed with `keep_ready`.
  void publish(base::TimePoint captured, base::TimePoint arrived, base::Duration uncertainty = {},
               bool damaged = false) noexcept;
  [[nodiscard]] std::uint64_t sequence() const noexcept;
  // Bytes of the picture that lie in data(), and not in borrowed memory.
  [[nodiscard]] std::size_t own_bytes() const noexcept;

 private:
  friend class FrameRing;
  FillLease(FrameRing& ring, int slot) noexcept : ring_(&ring), slot_(slot) {}
  FrameRing* ring_;
  int slot_;
};

// The right to read a taken frame. Destruction frees the slot; it says nothing of the frame's fate.
class SlotLease {
 public:
  SlotLease() noexcept = default;
  SlotLease(SlotLease&& other) noexcept;
  SlotLease& operator=(SlotLease&& other) noexcept;
  ~SlotLease();
  void release() noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return ring_ != nullptr; }
  [[nodiscard]] const Frame& frame() const noexcept;
  // Where the device reads the pixels without a copy: non-null in mapped memory and for Frame::on_device.
  [[nodiscard]] const std::byte* device_pixels() const noexcept;
  [[nodiscard]] int slot() const noexcept { return slot_; }

 private:
  friend class FrameRing;
  SlotLease(FrameRing& ring, int slot) noexcept : ring_(&ring), slot_(slot) {}
  FrameRing* ring_ = nullptr;
  int slot_ = -1;
};

enum class RingPolicy : std::uint8_t { kNewestWins, kLossless };

class FrameRing {
 public:
  static constexpr int kLeastSlots = 3;  // one to fill, one ready, one read

  struct Options {
    CameraIndex camera = 0;
    int slots = kLeastSlots;  // at least as many
    RingPolicy policy = RingPolicy::kNewestWins;
    device::HostMemory memory = device::HostMemory::kPinned;
    int most_slots = 0;             // that set_slots() may ask for; never fewer than `slots`
    SharedMemory shared = nullptr;  // where pictures lie that other processes read; null: in the device's own memory
    FrameGate* gate = nullptr;      // asked before a frame becomes Ready; outlives the ring. Null: every frame passes
  };
  // Device and observer must outlive the ring. Throws Error(kInternal) for fewer slots than kLeastSlots.
  FrameRing(device::Device& device, FrameObserver& observer, const Options& options);
  ~FrameRing();
  FrameRing(const FrameRing&) = delete;
  FrameRing& operator=(const FrameRing&) = delete;

  // [source] A frame has arrived: counts it as captured and leases a slot for it. Empty when the frame itself had to be
  // superseded or the ring is closed (then dropped as kClosed). Lossless rings [block] until a slot is free or
  // close().
  [[nodiscard]] std::optional<FillLease> begin();
  // [dispatch] The oldest Ready frame that is young at `now`, or the newest of all where none is; those before it are
  // superseded. By default none is young. Lossless: the oldest Ready frame. Empty when none is Ready.
  [[nodiscard]] std::optional<SlotLease> take(base::TimePoint now = base::TimePoint::max());
  // [any] No more frames: Ready frames are dropped as kClosed (unless `keep_ready`), begin() refuses, waiters wake.
  // May be called again, without `keep_ready`, to drop what nobody will take.
  void close(bool keep_ready) noexcept;
  // [any] True after close(): a source looks here before it makes another frame.
  [[nodiscard]] bool closed() const;

  // [setup] Before the first begin(): the first frame's sequence number.
  void start_at(std::uint64_t sequence);
  // [any] The sequence number of the next frame.
  [[nodiscard]] std::uint64_t next_sequence() const;
  // [setup] From now on the pictures are read by `device`, and lie in memory of its kind `memory`, in `shared` if that
  // is given: each slot gets some of it when it is filled next. A picture that is there already is still taken where
  // `device` can read it: page-locked memory is that of all GPUs of a process (CUDA programming guide, "Unified Virtual
  // Address Space"). All devices that a ring ever had outlive it.
  void move_to(device::Device& device, device::HostMemory memory, SharedMemory shared = nullptr);
  // [setup] After close(), when the source has ended: frames may come again, from another source.
  void reopen();
  // [setup] From now on so many slots are filled, within kLeastSlots and Options::most_slots. Frames in others are
  // still taken.
  void set_slots(int slots);

  // [any] True when the slot memory is host memory the device reads as it is, so that borrowing costs no copy. Not
  // where pictures are shared: a decoder's memory is its own.
  [[nodiscard]] bool may_borrow() const noexcept;
  // [any] Who reads the pictures that are published now.
  [[nodiscard]] PictureReader reader() const noexcept { return {device_, memory_, shared_}; }
  [[nodiscard]] device::Device& device() const noexcept { return *device_.load(); }
  [[nodiscard]] int slots() const;
  [[nodiscard]] RingPolicy policy() const noexcept { return options_.policy; }
  // [any] Slots that are not Free.
  [[nodiscard]] int occupied() const;
  [[nodiscard]] bool has_ready() const;
  // [any] How the newest picture lies in its slot; empty before the first one.
  [[nodiscard]] std::optional<base::PictureLayout> newest_layout() const;

 private:
  friend class FillLease;
  friend class SlotLease;
  enum class SlotState : std::uint8_t { kFree, kFilling, kReady, kUploading };
  struct Slot;

  void publish(int slot) noexcept;
  void abandon(int slot) noexcept;
  // Gives borrowed memory back and makes the slot Free. The caller has the only right to the slot.
  void free(int slot) noexcept;
  void give_back(Slot& slot) noexcept;
  static void give_back(const BorrowedPixels& loan) noexcept;
  [[nodiscard]] Slot& at(int slot) noexcept;
  [[nodiscard]] bool can_be_read(const Slot& slot) const noexcept;
  [[nodiscard]] int oldest(SlotState state) const CAMD_REQUIRES(mutex_);
  void set_free(int slot) noexcept CAMD_REQUIRES(mutex_);
  void supersede() noexcept CAMD_REQUIRES(mutex_);
  void note_arrival(base::TimePoint arrived) noexcept CAMD_REQUIRES(mutex_);
  [[nodiscard]] base::Duration period() const noexcept CAMD_REQUIRES(mutex_);

  // The period is the middle of so many gaps, in which a burst makes up for the pause before it.
  static constexpr int kGaps = 16;
  // A frame that has waited for longer is not young, however seldom the camera delivers.
  static constexpr base::Duration kLongestPeriod = std::chrono::milliseconds(100);

  std::atomic<device::Device*> device_;
  std::atomic<device::HostMemory> memory_;
  std::atomic<SharedMemory> shared_;
  FrameObserver& observer_;
  const Options options_;
  mutable base::Mutex mutex_;
  base::CondVar slot_freed_;
  // Constant size, Options::most_slots. States and ages are guarded by mutex_, contents by the lease.
  std::vector<Slot> slots_;
  std::vector<BorrowedPixels> superseded_;  // of take(), [dispatch]; a member so that it is allocated once
  int in_use_ CAMD_GUARDED_BY(mutex_);      // slots 0 .. in_use_-1 are filled
  // Slots from here on are Free and not filled, so nobody looks at them. More than in_use_ only until the frames that
  // were there before set_slots() are gone.
  int reach_ CAMD_GUARDED_BY(mutex_);
  std::uint64_t next_sequence_ CAMD_GUARDED_BY(mutex_) = 0;
  std::array<base::TimePoint, kGaps + 1> arrivals_ CAMD_GUARDED_BY(mutex_);  // of the last frames; a ring, too
  std::uint64_t arrived_ CAMD_GUARDED_BY(mutex_) = 0;                        // since it began, or lost a frame
  bool closed_ CAMD_GUARDED_BY(mutex_) = false;
  bool keep_ready_ CAMD_GUARDED_BY(mutex_) = true;
};

}  // namespace camd::capture
