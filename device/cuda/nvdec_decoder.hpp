// NvdecDecoder: a VideoDecoder on NVIDIA's decoder engines (NVDEC).
//
//   unit ─► parser ─┬─ a stream begins ─► checked, and a session made: a decoder with surfaces for this size
//                   ├─ a picture ───────► begun on an engine, does not wait
//                   └─ it is to be shown ─► mapped: written as NV12 to an output surface, behind it `ready` ─► taker
//
// The driver's parser runs on the caller's thread and calls back from there. A session is made anew when the size, the
// depth or the number of surfaces changes; the old one lives until its last picture was given back. A file that starts
// anew keeps its session. 10-bit streams come as NV12 of 8 bits, which the engines write by themselves.
//
// The driver makes such sessions one after the other; who wants one waits for its turn (decoder_turns.hpp). It makes a
// bounded number, 288 on an H100. Who is beyond it, or has waited long, is decoded by Vulkan Video, on the same engines
// (vulkan_video.hpp).
//
// Surfaces: to decode, as many as the parser says that the stream needs; to show, as many as the taker keeps.
//
// Threads: as VideoDecoder. The functions of the library are called with the device's context current.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/decoder_turns.hpp"
#include "device/video_decoder.hpp"

namespace camd::device {

struct NvdecLibrary;

// [any] [blocks] Library, device, turns and taker outlive the decoder, the first two also its pictures. Throws
// Error(kDevice).
[[nodiscard]] std::unique_ptr<VideoDecoder> make_nvdec_decoder(const NvdecLibrary& library, CudaDevice& device,
                                                               DecoderTurns& turns, const VideoDecoderOptions& options,
                                                               VideoTaker& taker);

// [any] [blocks] What the device's engines decode to NV12.
[[nodiscard]] std::vector<VideoSupport> nvdec_support(const NvdecLibrary& library, CudaDevice& device);

}  // namespace camd::device
