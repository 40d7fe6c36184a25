#include "capture/frame_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace camd::capture {

using base::MutexLock;

struct FrameRing::Slot {
  SlotState state = SlotState::kFree;
  // Of the frame in the slot, or of the last one that was in it plus one; 0 before the first. Orders slots by age.
  std::uint64_t age = 0;
  Frame frame;
  std::shared_ptr<std::byte> shared;  // behind `memory`, where other processes read it; goes after it
  SharedMemory shared_by = nullptr;   // who made it
  device::HostBuffer memory;
  const device::Device* memory_of = nullptr;  // whose `memory` is
  const device::Device* read_by = nullptr;    // whom the picture was put there for
  const std::byte* device_pixels = nullptr;
  BorrowedPixels borrowed;
  std::optional<device::HostMemory> lent_kind;  // of the borrowed memory, where it is PictureMemory
};

// ---- FillLease

FillLease::FillLease(FillLease&& other) noexcept : ring_(std::exchange(other.ring_, nullptr)), slot_(other.slot_) {}

FillLease::~FillLease() {
  if (ring_ != nullptr) ring_->abandon(slot_);
}

std::byte* FillLease::data(const base::PictureLayout& layout) {
  FrameRing::Slot& slot = ring_->at(slot_);
  ring_->give_back(slot);
  device::Device& device = *ring_->device_.load();
  const device::HostMemory kind = ring_->memory_;
  const SharedMemory shared = ring_->shared_;
  if (slot.memory.size_bytes() < layout.size_bytes || slot.memory_of != &device || slot.memory.kind() != kind ||
      slot.shared_by != shared) {
    slot.memory = {};  // first, so that the peak is one picture and not two
    slot.shared = nullptr;
    if (shared != nullptr) slot.shared = shared(layout.size_bytes);
    slot.memory = shared == nullptr ? device.allocate_host(kind, layout.size_bytes)
                                    : device.register_host(slot.shared.get(), layout.size_bytes, kind);
    slot.shared_by = shared;
    slot.memory_of = &device;
  }
  slot.read_by = &device;
  slot.frame.layout = layout;
  slot.frame.pixels = {slot.memory.data(), layout.size_bytes};
  slot.device_pixels = slot.memory.device_data();
  return slot.memory.data();
}

NextReader FillLease::next_reader() const noexcept { return next_reader_of(ring_->device().info(), ring_->memory_); }

void FillLease::borrow(const base::PictureLayout& layout, const BorrowedPixels& pixels) noexcept {
  FrameRing::Slot& slot = ring_->at(slot_);
  ring_->give_back(slot);
  slot.borrowed = pixels;
  slot.read_by = ring_->device_;
  slot.frame.layout = layout;
  slot.frame.pixels = {pixels.data, std::min(layout.size_bytes, pixels.size_bytes)};
  slot.device_pixels = ring_->memory_ == device::HostMemory::kMapped ? pixels.data : nullptr;
}

bool FillLease::borrow_from(const PictureMemory& memory, const base::PictureLayout& layout,
                            const BorrowedPixels& pixels) noexcept {
  if (memory.reader() != ring_->reader()) return false;
  borrow(layout, pixels);
  FrameRing::Slot& slot = ring_->at(slot_);
  slot.lent_kind = memory.reader().kind;
  const std::byte* const on_device = memory.device_data();
  slot.device_pixels = on_device == nullptr ? nullptr : on_device + (pixels.data - memory.data());
  return true;
}

void FillLease::borrow_on_device(const base::PictureLayout& layout, const BorrowedPixels& pixels) noexcept {
  FrameRing::Slot& slot = ring_->at(slot_);
  ring_->give_back(slot);
  slot.borrowed = pixels;
  slot.read_by = ring_->device_;
  slot.frame.layout = layout;
  slot.frame.on_device = true;
  slot.device_pixels = pixels.data;
}

void FillLease::publish(base::TimePoint captured, base::TimePoint arrived, base::Duration uncertainty,
                        bool damaged) noexcept {
  Frame& frame = ring_->at(slot_).frame;
  if (frame.pixels.empty() && !frame.on_device) return;  // nothing was filled: the destructor drops the frame
  frame.captured = std::min(captured, arrived);
  frame.uncertainty = uncertainty;
  frame.damaged = damaged;
  frame.arrived = arrived;
  std::exchange(ring_, nullptr)->publish(slot_);
}

std::uint64_t FillLease::sequence() const noexcept { return ring_->at(slot_).frame.sequence; }

std::size_t FillLease::own_bytes() const noexcept {
  const FrameRing::Slot& slot = ring_->at(slot_);
  return slot.borrowed.release == nullptr ? slot.frame.pixels.size() : 0;
}

// ---- SlotLease

SlotLease::SlotLease(SlotLease&& other) noexcept : ring_(std::exchange(other.ring_, nullptr)), slot_(other.slot_) {}

SlotLease& SlotLease::operator=(SlotLease&& other) noexcept {
  if (this != &other) {
    release();
    ring_ = std::exchange(other.ring_, nullptr);
    slot_ = other.slot_;
  }
  return *this;
}

SlotLease::~SlotLease() { release(); }

void SlotLease::release() noexcept {
  if (FrameRing* const ring = std::exchange(ring_, nullptr)) ring->free(slot_);
}

const Frame& SlotLease::frame() const noexcept { return ring_->at(slot_).frame; }

const std::byte* SlotLease::device_pixels() const noexcept { return ring_->at(slot_).device_pixels; }

// ---- FrameRing

FrameRing::FrameRing(device::Device& device, FrameObserver& observer, const Options& options)
    : device_(&device),
      memory_(options.memory),
      shared_(options.shared),
      observer_(observer),
      options_(options),
      in_use_(options.slots),
      reach_(options.slots) {
  if (options.slots < kLeastSlots) {
    throw base::Error(base::ErrorKind::kInternal,
                      fmt::format("a frame ring needs at least {} slots, one to fill, one ready, one read: got {}",
                                  kLeastSlots, options.slots));
  }
  slots_.resize(static_cast<std::size_t>(std::max(options.slots, options.most_slots)));
  superseded_.reserve(slots_.size());
}

FrameRing::~FrameRing() { close(false); }

std::optional<FillLease> FrameRing::begin() {
  int chosen = -1;
  {
    const MutexLock lock(mutex_);
    const std::uint64_t sequence = next_sequence_++;
    observer_.captured(options_.camera);
    chosen = oldest(SlotState::kFree);
    if (options_.policy == RingPolicy::kLossless) {
      while (chosen < 0 && !closed_) {
        slot_freed_.wait(mutex_);
        chosen = oldest(SlotState::kFree);
      }
    }
    if (closed_) {
      observer_.dropped(options_.camera, RingDrop::kClosed);
      return std::nullopt;
    }
    if (chosen < 0) {
      supersede();
      chosen = oldest(SlotState::kReady);
      if (chosen < 0) return std::nullopt;  // it was this frame that was superseded
      if (options_.gate != nullptr) options_.gate->lost(at(chosen).frame.sequence);
    }
    Slot& slot = at(chosen);
    slot.state = SlotState::kFilling;
    slot.age = sequence + 1;
    slot.frame.camera = options_.camera;
    slot.frame.sequence = sequence;
  }
  give_back(at(chosen));
  return FillLease(*this, chosen);
}

std::optional<SlotLease> FrameRing::take(base::TimePoint now) {
  int chosen = -1;
  {
    const MutexLock lock(mutex_);
    superseded_.clear();
    chosen = oldest(SlotState::kReady);
    if (chosen < 0) return std::nullopt;
    at(chosen).state = SlotState::kUploading;
    const bool lossless = options_.policy == RingPolicy::kLossless;
    const base::TimePoint young_since = lossless ? base::TimePoint::min() : now - period();
    while (at(chosen).frame.arrived <= young_since) {
      const int newer = oldest(SlotState::kReady);
      if (newer < 0) break;
      at(newer).state = SlotState::kUploading;
      // Free at once, and only the loan returned outside the lock: a source that publishes in between would find no
      // slot and lose the newest frame of all.
      set_free(chosen);
      superseded_.push_back(std::exchange(at(chosen).borrowed, {}));
      chosen = newer;
      supersede();
    }
  }
  for (const BorrowedPixels& loan : superseded_) give_back(loan);
  if (!can_be_read(at(chosen))) {
    {
      const MutexLock lock(mutex_);
      observer_.dropped(options_.camera, RingDrop::kMoved);
    }
    if (options_.gate != nullptr) options_.gate->lost(at(chosen).frame.sequence);
    free(chosen);
    return std::nullopt;
  }
  return SlotLease(*this, chosen);
}

// Whether the ring's device, which may be another by now, can read the picture where it lies.
bool FrameRing::can_be_read(const Slot& slot) const noexcept {
  const device::Device* const reader = device_;
  if (slot.read_by == reader) return true;
  if (slot.frame.on_device) return false;
  if (reader->info().works_in_host_memory) return true;
  if (slot.borrowed.release != nullptr) return slot.lent_kind == memory_.load();
  return slot.memory.kind() == memory_;
}

void FrameRing::move_to(device::Device& device, device::HostMemory memory, SharedMemory shared) {
  memory_ = memory;
  shared_ = shared;
  device_ = &device;
}

void FrameRing::reopen() {
  const MutexLock lock(mutex_);
  closed_ = false;
  keep_ready_ = true;
  arrived_ = 0;
}

void FrameRing::close(bool keep_ready) noexcept {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    if (!keep_ready) keep_ready_ = false;
    slot_freed_.notify_all();
  }
  for (;;) {
    int ready = -1;
    {
      const MutexLock lock(mutex_);
      if (!keep_ready) ready = oldest(SlotState::kReady);
      if (ready < 0) {
        observer_.freed(options_.camera);
        return;
      }
      at(ready).state = SlotState::kUploading;
      observer_.dropped(options_.camera, RingDrop::kClosed);
    }
    free(ready);
  }
}

bool FrameRing::closed() const {
  const MutexLock lock(mutex_);
  return closed_;
}

void FrameRing::start_at(std::uint64_t sequence) {
  const MutexLock lock(mutex_);
  next_sequence_ = sequence;
}

std::uint64_t FrameRing::next_sequence() const {
  const MutexLock lock(mutex_);
  return next_sequence_;
}

void FrameRing::set_slots(int slots) {
  const MutexLock lock(mutex_);
  in_use_ = std::clamp(slots, kLeastSlots, static_cast<int>(slots_.size()));
  reach_ = std::max(reach_, in_use_);
  slot_freed_.notify_all();  // a lossless source may have waited for one of the new ones
}

int FrameRing::slots() const {
  const MutexLock lock(mutex_);
  return in_use_;
}

bool FrameRing::may_borrow() const noexcept {
  return device().info().works_in_host_memory && shared_.load() == nullptr;
}

int FrameRing::occupied() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(std::count_if(slots_.begin(), slots_.begin() + reach_,
                                        [](const Slot& slot) { return slot.state != SlotState::kFree; }));
}

std::optional<base::PictureLayout> FrameRing::newest_layout() const {
  const MutexLock lock(mutex_);
  const Slot* newest = nullptr;
  for (const Slot& slot : slots_) {
    // A source writes into one that is being filled; one that was never filled has no layout.
    if (slot.state == SlotState::kFilling || slot.frame.layout.size_bytes == 0) continue;
    if (newest == nullptr || slot.age > newest->age) newest = &slot;
  }
  if (newest == nullptr) return std::nullopt;
  return newest->frame.layout;
}

bool FrameRing::has_ready() const {
  const MutexLock lock(mutex_);
  return oldest(SlotState::kReady) >= 0;
}

void FrameRing::publish(int slot) noexcept {
  const bool passes = options_.gate == nullptr || options_.gate->passes(at(slot).frame);
  bool accepted = false;
  {
    const MutexLock lock(mutex_);
    note_arrival(at(slot).frame.arrived);
    const bool open = !closed_ || keep_ready_;
    accepted = open && passes;
    if (accepted) {
      at(slot).state = SlotState::kReady;
    } else {
      observer_.dropped(options_.camera, open ? RingDrop::kGated : RingDrop::kClosed);
    }
  }
  // Whoever is woken by this takes the lock at once.
  if (accepted) {
    observer_.ready(options_.camera);
  } else {
    free(slot);
  }
}

void FrameRing::abandon(int slot) noexcept {
  {
    const MutexLock lock(mutex_);
    observer_.dropped(options_.camera, RingDrop::kNotFilled);
  }
  free(slot);
}

void FrameRing::free(int slot) noexcept {
  give_back(at(slot));
  {
    const MutexLock lock(mutex_);
    set_free(slot);
    if (options_.policy != RingPolicy::kLossless) return;
    observer_.freed(options_.camera);
  }
  slot_freed_.notify_one();  // who is woken by this takes the lock at once
}

void FrameRing::give_back(const BorrowedPixels& loan) noexcept {
  if (loan.release != nullptr) loan.release(loan.argument);
}

void FrameRing::give_back(Slot& slot) noexcept {
  give_back(std::exchange(slot.borrowed, {}));
  slot.frame.pixels = {};
  slot.frame.on_device = false;
  slot.device_pixels = nullptr;
  slot.lent_kind.reset();
}

void FrameRing::set_free(int slot) noexcept {
  at(slot).state = SlotState::kFree;
  while (reach_ > in_use_ && at(reach_ - 1).state == SlotState::kFree) --reach_;
}

// Whoever loses frames gets more than is read of it. Then the newest is worth most, and no other one is young.
void FrameRing::supersede() noexcept {
  observer_.dropped(options_.camera, RingDrop::kSuperseded);
  arrived_ = 0;
}

void FrameRing::note_arrival(base::TimePoint arrived) noexcept { arrivals_[arrived_++ % arrivals_.size()] = arrived; }

// 0 before it is known.
base::Duration FrameRing::period() const noexcept {
  if (arrived_ < arrivals_.size()) return base::Duration(0);
  const base::TimePoint first = arrivals_[arrived_ % arrivals_.size()];
  const base::TimePoint last = arrivals_[(arrived_ - 1) % arrivals_.size()];
  return std::min((last - first) / kGaps, kLongestPeriod);
}

FrameRing::Slot& FrameRing::at(int slot) noexcept { return slots_[static_cast<std::size_t>(slot)]; }

int FrameRing::oldest(SlotState state) const {
  int found = -1;
  // Slots that are no longer filled may still hold frames, but are never free.
  const int count = state == SlotState::kFree ? in_use_ : reach_;
  for (int i = 0; i < count; ++i) {
    const Slot& slot = slots_[static_cast<std::size_t>(i)];
    if (slot.state != state) continue;
    if (found < 0 || slot.age < slots_[static_cast<std::size_t>(found)].age) found = i;
  }
  return found;
}

}  // namespace camd::capture
