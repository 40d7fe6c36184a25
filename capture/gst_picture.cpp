#include "capture/gst_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "capture/copy_rows.hpp"
#include "capture/gst_size_bound.hpp"
#include "capture/memory_lender.hpp"

namespace camd::capture {
namespace {

using base::PictureLayout;
using base::PixelFormat;

std::optional<PixelFormat> format_of(GstVideoFormat format) {
  switch (format) {
    case GST_VIDEO_FORMAT_BGR: return PixelFormat::kBgr;
    case GST_VIDEO_FORMAT_RGB: return PixelFormat::kRgb;
    case GST_VIDEO_FORMAT_NV12: return PixelFormat::kNv12;
    case GST_VIDEO_FORMAT_I420: return PixelFormat::kI420;
    case GST_VIDEO_FORMAT_YUY2: return PixelFormat::kYuy2;
    case GST_VIDEO_FORMAT_GRAY8: return PixelFormat::kGray8;
    default: return std::nullopt;
  }
}

// A buffer that the ring borrows: mapped until the slot is freed. It is the buffer that is held and not the sample,
// which appsink wants to write to again.
struct Loan {
  GstBuffer* buffer;
  GstMapInfo map;
  static void release(void* self) noexcept {
    Loan* const loan = static_cast<Loan*>(self);
    MemoryLender::taken_back(loan->buffer);
    gst_buffer_unmap(loan->buffer, &loan->map);
    gst_buffer_unref(loan->buffer);
    g_free(loan);
  }
};

// The names of libgstcuda (gst/cuda/gstcudamemory.h of GStreamer 1.22). A buffer that is mapped so gives the address in
// the GPU's memory. The decoders of `nvcodec` have waited for their picture when they push it.
constexpr const char* kCudaMemory = "gst.cuda.memory";
constexpr auto kMapCuda =
    std::bit_cast<GstMapFlags>(static_cast<unsigned>(GST_MAP_READ) | static_cast<unsigned>(GST_MAP_FLAG_LAST) << 1U);

bool in_cuda_memory(GstBuffer* buffer) {
  return gst_buffer_n_memory(buffer) > 0 && gst_memory_is_type(gst_buffer_peek_memory(buffer, 0), kCudaMemory) != FALSE;
}

bool in_system_memory(const GstCaps* caps) {
  return gst_caps_features_is_equal(gst_caps_get_features(caps, 0), GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY) != FALSE;
}

}  // namespace

GstOwned<GstCaps> accepted_caps(bool on_device) {
  const std::string size = fmt::format("width=(int)[ 1, {0} ], height=(int)[ 1, {0} ]", kMostPixelsASide);
  std::string caps = "video/x-raw, format=(string){ NV12, I420, YUY2, BGR, RGB, GRAY8 }, " + size;
  if (on_device) caps = "video/x-raw(memory:CUDAMemory), format=(string)NV12, " + size + "; " + caps;
  return GstOwned<GstCaps>(gst_caps_from_string(caps.c_str()));
}

std::optional<PictureLayout> layout_of(const GstVideoInfo& info, const GstVideoMeta* meta) {
  const auto format = format_of(GST_VIDEO_INFO_FORMAT(&info));
  if (!format || GST_VIDEO_INFO_WIDTH(&info) <= 0 || GST_VIDEO_INFO_HEIGHT(&info) <= 0) return std::nullopt;
  PictureLayout layout = base::tight_layout(*format, GST_VIDEO_INFO_WIDTH(&info), GST_VIDEO_INFO_HEIGHT(&info));
  switch (info.colorimetry.matrix) {
    case GST_VIDEO_COLOR_MATRIX_BT709:
    case GST_VIDEO_COLOR_MATRIX_SMPTE240M:
    case GST_VIDEO_COLOR_MATRIX_BT2020: layout.matrix = base::ColorMatrix::kBt709; break;
    default: layout.matrix = base::ColorMatrix::kBt601; break;
  }
  layout.full_range = info.colorimetry.range == GST_VIDEO_COLOR_RANGE_0_255;
  std::size_t end = 0;
  for (int p = 0; p < layout.plane_count; ++p) {
    base::Plane& plane = layout.planes[static_cast<std::size_t>(p)];
    const auto row_bytes = static_cast<std::size_t>(plane.stride_bytes);
    plane.offset_bytes = meta != nullptr ? meta->offset[p] : info.offset[p];
    plane.stride_bytes = meta != nullptr ? meta->stride[p] : info.stride[p];
    if (plane.stride_bytes < static_cast<int>(row_bytes)) return std::nullopt;  // upside down, or damaged
    end = std::max(end, plane.offset_bytes +
                            static_cast<std::size_t>(plane.stride_bytes) * static_cast<std::size_t>(plane.height - 1) +
                            row_bytes);
  }
  layout.size_bytes = end;
  return layout;
}

std::string fill_from_sample(FillLease& lease, bool may_borrow, bool on_device, GstSample* sample) {
  GstCaps* const caps = gst_sample_get_caps(sample);
  GstBuffer* const buffer = gst_sample_get_buffer(sample);
  GstVideoInfo info;
  if (caps == nullptr || buffer == nullptr || gst_video_info_from_caps(&info, caps) == FALSE) {
    return "the pipeline's last element gives no raw video";
  }
  const GstVideoMeta* const meta = gst_buffer_get_video_meta(buffer);
  std::optional<PictureLayout> layout = layout_of(info, meta);
  if (!layout) return "a picture in a format or with strides that cannot be read";

  on_device = on_device && in_cuda_memory(buffer);
  const bool lent = MemoryLender::owns(buffer);
  if ((may_borrow || on_device || lent) && gst_buffer_n_memory(buffer) == 1) {
    Loan* const loan = g_new0(Loan, 1);
    if (gst_buffer_map(buffer, &loan->map, on_device ? kMapCuda : GST_MAP_READ) != FALSE) {
      loan->buffer = gst_buffer_ref(buffer);
      const BorrowedPixels pixels{reinterpret_cast<const std::byte*>(loan->map.data), loan->map.size, &Loan::release,
                                  loan};
      if (loan->map.size < layout->size_bytes) {
        Loan::release(loan);
        return "a buffer that is smaller than its picture";
      }
      if (lent && MemoryLender::lend(lease, buffer, *layout, pixels)) return "";
      if (may_borrow || on_device) {
        on_device ? lease.borrow_on_device(*layout, pixels) : lease.borrow(*layout, pixels);
        return "";
      }
      Loan::release(loan);
    } else {
      g_free(loan);
    }
  }

  // Planes may lie in separate memories: GstVideoFrame finds each where it is.
  GstVideoFrame frame;
  if (gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ) == FALSE) {
    return "a buffer whose memory the CPU cannot read";
  }
  PictureLayout packed = base::tight_layout(layout->format, layout->width, layout->height);
  packed.matrix = layout->matrix;
  packed.full_range = layout->full_range;
  std::byte* to = nullptr;
  try {
    to = lease.data(packed);
  } catch (...) {
    gst_video_frame_unmap(&frame);
    throw;
  }
  for (int p = 0; p < packed.plane_count; ++p) {
    const base::Plane& plane = packed.planes[static_cast<std::size_t>(p)];
    copy_rows(to + plane.offset_bytes, static_cast<std::size_t>(plane.stride_bytes),
              static_cast<const std::byte*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, p)),
              static_cast<std::size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, p)), plane.height, lease.next_reader());
  }
  gst_video_frame_unmap(&frame);
  return "";
}

void answer_allocation(GstQuery* query, unsigned held, const std::shared_ptr<MemoryLender>& lender) {
  GstCaps* caps = nullptr;
  gboolean need_pool = FALSE;
  gst_query_parse_allocation(query, &caps, &need_pool);
  GstVideoInfo info;
  guint size = 0;
  if (caps != nullptr && gst_video_info_from_caps(&info, caps) != FALSE) {
    size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&info));
  }
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  if (lender && size > 0 && in_system_memory(caps)) {
    lender->offer(query, caps, size, held);
    return;
  }
  gst_query_add_allocation_pool(query, nullptr, size, held, 0);
}

}  // namespace camd::capture
