// Which decoders a camera's pipeline may use, and where they leave their pictures.
//
// The decoders of GStreamer's plug-in `nvcodec` work on the GPU. By default each makes a CUDA context of its own and
// brings its pictures to the host. Given the context of the ring's device, they all work in that one, and their
// pictures stay in its memory. The context is handed over by libgstcuda, which comes with `nvcodec`. It is loaded at
// run time, because its headers come with a package that brings half a desktop along.
//
// Threads: decoding_of() [control], [blocks] at its first call; use_decoders() [control], before the pipeline leaves
// the state NULL; OpeningTurn [control], [blocks].
#pragma once

#include <gst/gst.h>

#include "capture/gst_support.hpp"
#include "config/config.hpp"
#include "device/device.hpp"

namespace camd::capture {

struct Decoding {
  config::DecodeMode mode = config::DecodeMode::kAuto;
  GstContext* context = nullptr;  // of the device; null: pictures come to the host. Lives as long as the process.
  int ordinal = 0;                // of the device

  [[nodiscard]] bool on_device() const noexcept { return context != nullptr; }
};

// Throws Error(kSource) for `decode: gpu` where there is no GPU, or no libgstcuda.
[[nodiscard]] Decoding decoding_of(config::DecodeMode mode, const device::Device& device);

// `decodebin`: the one that chooses decoders in `pipeline`; null: the pipeline names its own.
void use_decoders(const Decoding& decoding, GstElement* pipeline, GstElement* decodebin);

// The right to make a decoder of the GPU, for as long as it lives. The driver makes them one after the other, and some
// 20 a second: with hundreds of cameras, a file's patience would be spent waiting for the others' decoders.
class OpeningTurn {
 public:
  // Waits for its turn where `wanted`. When `give_up(argument)` says so, it waits no longer and has none.
  OpeningTurn(bool wanted, bool (*give_up)(void*), void* argument);
  ~OpeningTurn();
  OpeningTurn(const OpeningTurn&) = delete;
  OpeningTurn& operator=(const OpeningTurn&) = delete;

 private:
  bool has_ = false;
};

}  // namespace camd::capture
