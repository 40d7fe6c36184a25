// MemoryLender: lends GStreamer the memory that a camera's pictures are read from, so that who makes them (a V4L2
// driver, by V4L2_MEMORY_USERPTR; the last element of a pipeline) writes them there, and nobody copies them.
//
//   pool of GStreamer ── buffer ─► driver's queue ─► sample ─► slot of the ring ─► back into the pool
//
// A buffer is in one of these places; in a slot it is held by the frame's loan. So there are as many as the driver's
// queue takes, the ring has slots, and one is on its way; when all are held, the driver has none and drops pictures.
// Its numbers tell (capture/picture_losses.hpp).
//
// The bytes are plain memory, and live as long as GStreamer's last reference: a pipeline that hangs and is left behind
// writes into nothing that is somebody else's. The device's right to read them ends with end(), or for what is in a
// slot then, when that frame comes back.
//
// Threads: GStreamer allocates, fills and frees on threads of its own; lend() [streaming]; what is lent comes back on
// any thread; end() [control] or [setup], when no more samples are taken. Invariants: the ring outlives end(), and all
// frames that are lent. After the first pictures nothing is allocated.
#pragma once

#include <gst/gst.h>

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "capture/frame_ring.hpp"

namespace camd::capture {

class MemoryLender : public std::enable_shared_from_this<MemoryLender> {
 public:
  // Whether lending saves a copy without a price: the CPU and who reads the ring's pictures share their memory, and the
  // pictures would have to be copied into the ring's slots.
  [[nodiscard]] static bool pays(const FrameRing& ring) noexcept;

  explicit MemoryLender(FrameRing& ring) noexcept : ring_(ring) {}
  ~MemoryLender();
  MemoryLender(const MemoryLender&) = delete;
  MemoryLender& operator=(const MemoryLender&) = delete;

  // Answers an ALLOCATION query: with a pool of such memory, of at least `held` buffers for the ring.
  void offer(GstQuery* query, GstCaps* caps, guint size_bytes, unsigned held);
  // Before a V4L2 source takes its format: has it write into lent memory, where the picture is not compressed and the
  // driver can. The lender's owner stays alive as long as the source.
  static void connect_driver(const std::shared_ptr<MemoryLender>& lender, GstElement* v4l2src);

  // Puts the picture of a buffer into a slot, if it lies in memory of a lender and the ring's reader can read it there.
  // False: it is to be copied. `pixels.release` gives the buffer back.
  [[nodiscard]] static bool lend(FillLease& lease, GstBuffer* buffer, const base::PictureLayout& layout,
                                 const BorrowedPixels& pixels) noexcept;
  // True where the buffer lies in memory of a lender.
  [[nodiscard]] static bool owns(GstBuffer* buffer) noexcept;
  // What lend() lent has been read, and goes back.
  static void taken_back(GstBuffer* buffer) noexcept;

  // Nothing is lent after this. Idempotent. [blocks]
  void end() noexcept;

  // [any] Pictures that were lent instead of copied.
  [[nodiscard]] std::uint64_t lent() const noexcept;
  // [any] Whether GStreamer has asked for memory.
  [[nodiscard]] bool was_asked() const noexcept;
  // [any] Why memory is not written into by whoever was to; "" where it is, or where nobody knows yet.
  [[nodiscard]] std::string refusal() const;

 private:
  struct Block;
  struct Gst;  // what GStreamer calls
  [[nodiscard]] std::unique_ptr<Block> allocate(std::size_t size_bytes);
  void free(std::unique_ptr<Block> block) noexcept;
  void refuse(std::string why);
  static void on_format(GstElement* v4l2src, gint descriptor, GstCaps* caps, gpointer user);

  FrameRing& ring_;  // until end()
  mutable base::Mutex mutex_;
  bool ended_ CAMD_GUARDED_BY(mutex_) = false;
  std::vector<Block*> blocks_ CAMD_GUARDED_BY(mutex_);
  bool was_asked_ CAMD_GUARDED_BY(mutex_) = false;
  std::uint64_t lent_ CAMD_GUARDED_BY(mutex_) = 0;
  std::string refusal_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace camd::capture
