// Which decoders a camera's pipeline may use, and where they leave their pictures.
//
// Files and RTSP cameras are decoded by the device itself (capture/sample_decoder.hpp). What GStreamer decodes on the
// GPU is what free pipelines name, and JPEG of V4L2 cameras. The decoders of GStreamer's plug-in `nvcodec` work on the
// GPU. By default each makes a CUDA context of its own and brings its pictures to the host. Given the context of the
// ring's device, they all work in that one, and their pictures stay in its memory. The context is handed over by
// libgstcuda, which comes with `nvcodec`. It is loaded at run time, because its headers come with a package that brings
// half a desktop along.
//
// Threads: decoding_of() [control], [blocks] at its first call; use_decoders() [control], before the pipeline leaves
// the state NULL.
#pragma once

#include <gst/gst.h>

#include <memory>

#include "base/mutex.hpp"
#include "capture/frame_source.hpp"
#include "capture/gst_support.hpp"
#include "config/config.hpp"
#include "device/device.hpp"

namespace camd::capture {

struct Decoding {
  config::DecodeMode mode = config::DecodeMode::kAuto;
  GstContext* context = nullptr;  // of the device; null: pictures come to the host. Lives as long as the process.
  int ordinal = 0;                // of the device
  bool direct = false;            // GStreamer leaves the decoding to the device
  unsigned threads = 0;  // that a decoder on the CPU may have; 1: the one that calls it; 0: as many as it likes

  [[nodiscard]] bool on_device() const noexcept { return context != nullptr; }
};

// `mode`: the camera's, or kCpu where the device has refused its stream. Throws Error(kSource) for `decode: gpu` where
// there is no GPU, or not what decodes there.
[[nodiscard]] Decoding decoding_of(const config::Camera& camera, config::DecodeMode mode, device::Device& device);

// [any] How many threads a decoder on the CPU gets where so many cameras share so many processors. One camera may have
// all; with as many cameras as processors each decodes on the thread that it has anyway.
[[nodiscard]] unsigned decoder_threads(std::size_t cameras, unsigned processors) noexcept;

// Which of GStreamer's decoders a pipeline has. [any]
class DecoderNote {
 public:
  // [control] From now on it is the decoder of this pipeline; null: none of GStreamer's.
  static void watch(const std::shared_ptr<DecoderNote>& note, GstElement* pipeline);
  void set(DecoderStatus status);
  [[nodiscard]] DecoderStatus status() const;

 private:
  static void on_element(GstBin* pipeline, GstBin* bin, GstElement* element, gpointer note);
  mutable base::Mutex mutex_;
  DecoderStatus status_ CAMD_GUARDED_BY(mutex_);
};

// `decodebin`: the one that chooses decoders in `pipeline`; null: the pipeline names its own.
void use_decoders(const Decoding& decoding, GstElement* pipeline, GstElement* decodebin);

}  // namespace camd::capture
