#include "capture/memory_lender.hpp"

#include <fmt/format.h>
#include <gst/video/video.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>

#include "capture/gst_held.hpp"
#include "capture/gst_picture.hpp"
#include "capture/gst_support.hpp"

namespace camd::capture {

using base::MutexLock;

struct MemoryLender::Block {
  Block(const PictureReader& reader, std::size_t size_bytes) : memory(reader, size_bytes) {}
  PictureMemory memory;
  bool lent = false;  // to a slot; under mutex_
};

// GStreamer's side: an allocator that asks its lender, and its memories.
struct MemoryLender::Gst {
  static constexpr const char* kType = "camd.lent";

  struct Allocator {
    GstAllocator base;
    std::shared_ptr<MemoryLender>* lender;
  };
  struct Memory {
    GstMemory base;
    Block* block;
  };

  // With one reference, the caller's.
  static GstAllocator* make_allocator(std::shared_ptr<MemoryLender> lender) {
    static const GType type = g_type_register_static_simple(
        GST_TYPE_ALLOCATOR, "CamdLentAllocator", sizeof(GstAllocatorClass), &Gst::init_class, sizeof(Allocator),
        [](GTypeInstance* self, gpointer) {
          GstAllocator* const allocator = GST_ALLOCATOR(self);
          allocator->mem_type = kType;
          allocator->mem_map = [](GstMemory* memory, gsize, GstMapFlags) -> gpointer {
            return block_of(memory)->memory.data();
          };
          allocator->mem_unmap = [](GstMemory*) {};
          GST_OBJECT_FLAG_SET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
        },
        GTypeFlags{});
    auto* const allocator = static_cast<GstAllocator*>(gst_object_ref_sink(g_object_new(type, nullptr)));
    reinterpret_cast<Allocator*>(allocator)->lender = new std::shared_ptr<MemoryLender>(std::move(lender));
    return allocator;
  }
  static MemoryLender& lender_of(GstAllocator* allocator) { return **reinterpret_cast<Allocator*>(allocator)->lender; }
  static Block* block_of(GstMemory* memory) { return reinterpret_cast<Memory*>(memory)->block; }
  // Null: the buffer lies elsewhere, or in several pieces.
  static GstMemory* memory_of(GstBuffer* buffer) {
    if (gst_buffer_n_memory(buffer) != 1) return nullptr;
    GstMemory* const memory = gst_buffer_peek_memory(buffer, 0);
    return gst_memory_is_type(memory, kType) != FALSE ? memory : nullptr;
  }

  static void init_class(gpointer each, gpointer) {
    auto* const classes = static_cast<GstAllocatorClass*>(each);
    classes->alloc = &Gst::alloc;
    classes->free = &Gst::free;
    G_OBJECT_CLASS(classes)->finalize = [](GObject* self) {
      delete reinterpret_cast<Allocator*>(self)->lender;
      G_OBJECT_CLASS(g_type_class_peek(GST_TYPE_ALLOCATOR))->finalize(self);
    };
  }
  static GstMemory* alloc(GstAllocator* allocator, gsize size, GstAllocationParams* params) {
    const gsize whole = size + params->prefix + params->padding;
    std::unique_ptr<Block> block = lender_of(allocator).allocate(whole);
    if (!block) return nullptr;
    auto* const memory = g_new0(Memory, 1);
    gst_memory_init(&memory->base, GST_MEMORY_FLAG_NO_SHARE, allocator, nullptr, whole, params->align, params->prefix,
                    size);
    memory->block = block.release();
    return &memory->base;
  }
  static void free(GstAllocator* allocator, GstMemory* memory) {
    lender_of(allocator).free(std::unique_ptr<Block>(block_of(memory)));
    g_free(memory);
  }
};

namespace {

constexpr gsize kAlignMask = 4095;

// Whether a driver writes into memory that is not its own (Linux: "VIDIOC_REQBUFS": a count of 0 asks, and frees what
// this descriptor had).
bool takes_user_pointers(int descriptor) {
  for (const unsigned type : {V4L2_BUF_TYPE_VIDEO_CAPTURE, V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE}) {
    v4l2_requestbuffers none{};
    none.type = type;
    none.memory = V4L2_MEMORY_USERPTR;
    if (ioctl(descriptor, VIDIOC_REQBUFS, &none) == 0) return true;
  }
  return false;
}

}  // namespace

bool MemoryLender::pays(const FrameRing& ring) noexcept {
  if (ring.may_borrow()) return false;
  const PictureReader reader = ring.reader();
  const device::DeviceInfo& info = reader.device->info();
  return info.works_in_host_memory || (info.integrated && reader.kind != device::HostMemory::kPageable);
}

MemoryLender::~MemoryLender() { end(); }

void MemoryLender::offer(GstQuery* query, GstCaps* caps, guint size_bytes, unsigned held) {
  GstAllocator* const allocator = Gst::make_allocator(shared_from_this());
  GstBufferPool* const pool = gst_video_buffer_pool_new();
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  params.align = kAlignMask;
  GstStructure* const config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, size_bytes, held, 0);
  gst_buffer_pool_config_set_allocator(config, allocator, &params);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  if (gst_buffer_pool_set_config(pool, config) != FALSE) {
    gst_query_add_allocation_param(query, allocator, &params);
    gst_query_add_allocation_pool(query, pool, size_bytes, held, 0);
  }
  gst_object_unref(pool);
  gst_object_unref(allocator);
}

void MemoryLender::connect_driver(const std::shared_ptr<MemoryLender>& lender, GstElement* v4l2src) {
  g_signal_connect_data(v4l2src, "prepare-format", G_CALLBACK(&MemoryLender::on_format),
                        Held<MemoryLender>::make(lender), &Held<MemoryLender>::let_go_of, GConnectFlags{});
}

// v4l2src (1.22) chooses its way to the pictures right after this. What is compressed is decoded into lent memory, and
// what is converted is converted into it: the driver writes into its own then.
void MemoryLender::on_format(GstElement* v4l2src, gint descriptor, GstCaps* caps, gpointer user) {
  const Held<MemoryLender>::Use lender(user);
  GstVideoInfo info;
  const bool raw = gst_video_info_from_caps(&info, caps) != FALSE && layout_of(info, nullptr).has_value();
  const bool takes = raw && takes_user_pointers(descriptor);
  if (raw && !takes) lender->refuse("the driver writes into no memory but its own (no V4L2_MEMORY_USERPTR)");
  gst_util_set_object_arg(G_OBJECT(v4l2src), "io-mode", takes ? "userptr" : "auto");
}

bool MemoryLender::lend(FillLease& lease, GstBuffer* buffer, const base::PictureLayout& layout,
                        const BorrowedPixels& pixels) noexcept {
  GstMemory* const memory = Gst::memory_of(buffer);
  if (memory == nullptr) return false;
  MemoryLender& lender = Gst::lender_of(memory->allocator);
  Block& block = *Gst::block_of(memory);
  {
    const MutexLock lock(lender.mutex_);
    if (!lender.ended_ && lease.borrow_from(block.memory, layout, pixels)) {
      block.lent = true;
      ++lender.lent_;
      return true;
    }
  }
  // Its reader is another one by now. The pool frees such a buffer, and gets one for the new reader instead.
  GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
  return false;
}

bool MemoryLender::owns(GstBuffer* buffer) noexcept { return Gst::memory_of(buffer) != nullptr; }

void MemoryLender::taken_back(GstBuffer* buffer) noexcept {
  GstMemory* const memory = Gst::memory_of(buffer);
  if (memory == nullptr) return;
  MemoryLender& lender = Gst::lender_of(memory->allocator);
  device::HostBuffer over;  // goes without the lock
  const MutexLock lock(lender.mutex_);
  Block& block = *Gst::block_of(memory);
  block.lent = false;
  if (lender.ended_) over = block.memory.withdraw();
}

void MemoryLender::end() noexcept {
  std::vector<device::HostBuffer> over;  // goes without the lock
  const MutexLock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  over.reserve(blocks_.size());
  for (Block* const block : blocks_) {
    if (!block->lent) over.push_back(block->memory.withdraw());
  }
}

std::uint64_t MemoryLender::lent() const noexcept {
  const MutexLock lock(mutex_);
  return lent_;
}

bool MemoryLender::was_asked() const noexcept {
  const MutexLock lock(mutex_);
  return was_asked_;
}

std::string MemoryLender::refusal() const {
  const MutexLock lock(mutex_);
  return refusal_;
}

void MemoryLender::refuse(std::string why) {
  const MutexLock lock(mutex_);
  refusal_ = std::move(why);
}

// In the lock, so that the device is there: end() waits.
std::unique_ptr<MemoryLender::Block> MemoryLender::allocate(std::size_t size_bytes) {
  const MutexLock lock(mutex_);
  if (ended_) return nullptr;
  was_asked_ = true;
  try {
    auto block = std::make_unique<Block>(ring_.reader(), size_bytes);
    blocks_.push_back(block.get());
    return block;
  } catch (const std::exception& error) {
    refusal_ = error.what();
    return nullptr;
  }
}

void MemoryLender::free(std::unique_ptr<Block> block) noexcept {
  const MutexLock lock(mutex_);
  std::erase(blocks_, block.get());
}

}  // namespace camd::capture
