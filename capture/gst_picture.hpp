// From a GStreamer sample to a frame in the ring: its layout, and its pixels, borrowed where the device reads
// their memory as it is, else copied row by row. What was written into memory that camd lent
// (capture/memory_lender.hpp) is read there.
//
// Pixels are taken as they come: BGR, RGB, NV12, I420, YUY2 and GRAY8 in system memory, with the strides and offsets of
// their GstVideoMeta (or GstVideoInfo). A borrowed picture keeps that layout; a copied one is packed tightly, so that
// no padding crosses the bus to a GPU later. NV12 in CUDA memory, which a decoder of the GPU has filled, is borrowed.
//
// Threads: functions [source]. Frames are filled without allocation, GStreamer's own bookkeeping apart.
#pragma once

#include <gst/video/video.h>

#include <memory>
#include <optional>
#include <string>

#include "base/picture.hpp"
#include "capture/frame_ring.hpp"
#include "capture/gst_support.hpp"
#include "capture/memory_lender.hpp"

namespace camd::capture {

// The caps that the ring's pictures may have. Best first for a converter that must choose. With `on_device`, pictures
// in CUDA memory, too.
[[nodiscard]] GstOwned<GstCaps> accepted_caps(bool on_device);

// The layout of a picture with these caps. Its planes lie where `meta` says, or, without one, where `info` says. Matrix
// and range come from the colorimetry; BT.2020 counts as BT.709, the nearest one here. Empty for a format that is not
// accepted.
[[nodiscard]] std::optional<base::PictureLayout> layout_of(const GstVideoInfo& info, const GstVideoMeta* meta);

// Puts the sample's pixels into the leased slot. `on_device`: pictures in CUDA memory lie where the ring's device reads
// them, and stay there. Returns "" when it worked and the lease can be published, else what is
// wrong. Throws Error(kDevice) when there is no memory for the slot.
[[nodiscard]] std::string fill_from_sample(FillLease& lease, bool may_borrow, bool on_device, GstSample* sample);

// Answers the ALLOCATION query of the element before the sink: buffers with padded rows and GstVideoMeta are welcome
// (so that decoders need not copy), and camd may keep `held` of them for a while. With a lender, they may lie in memory
// that it lends.
void answer_allocation(GstQuery* query, unsigned held, const std::shared_ptr<MemoryLender>& lender = nullptr);

}  // namespace camd::capture
