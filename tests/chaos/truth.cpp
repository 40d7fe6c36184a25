// The plug-in that tells the chaos harness what is true: it reads the number and the time out of each picture
// (capture/test_pattern.hpp) and appends a line to a file, so that what camd says of a frame can be compared with it.
//
//   config: {path: FILE}
//
//   CAMERA SEQUENCE CAPTURED ARRIVED SEEN TRUE_NUMBER TRUE_TIME WIDTH HEIGHT UNCERTAINTY
//
// Times are CLOCK_MONOTONIC in ns: what camd says of capture and arrival, when the plug-in saw the frame, and when the
// picture was taken in truth. TRUE_NUMBER and TRUE_TIME are - where the picture has no stamp that can be read;
// UNCERTAINTY is - where camd does not tell it. Each line is one write(), so that it survives when camd is killed.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "capture/test_pattern.hpp"
#include "plugins/camd_plugin.hpp"

namespace {

using camd::base::PictureLayout;
using camd::base::PixelFormat;

// The first plane, as which every stamp can be read: where the others lie does not matter.
struct Luma {
  PictureLayout layout;
  std::span<const std::byte> bytes;
};

Luma luma_of(const camd_picture& picture) {
  const camd_plane& plane = picture.planes[0];
  const bool planar = picture.format == CAMD_PIXEL_NV12 || picture.format == CAMD_PIXEL_I420;
  Luma luma;
  luma.layout.format = planar ? PixelFormat::kGray8 : static_cast<PixelFormat>(picture.format);
  luma.layout.width = plane.width;
  luma.layout.height = plane.height;
  luma.layout.plane_count = 1;
  luma.layout.planes[0] = {0, plane.stride_bytes, plane.width, plane.height};
  const int samples = luma.layout.format == PixelFormat::kGray8 ? 1 : luma.layout.format == PixelFormat::kYuy2 ? 2 : 3;
  luma.layout.size_bytes = static_cast<std::size_t>(plane.stride_bytes) * static_cast<std::size_t>(plane.height - 1) +
                           static_cast<std::size_t>(plane.width) * static_cast<std::size_t>(samples);
  luma.bytes = {reinterpret_cast<const std::byte*>(plane.data), luma.layout.size_bytes};
  return luma;
}

class Truth final : public camd::plugin::Postprocessor {
 public:
  Truth(camd::plugin::Host host, std::string_view config_json) : host_(host) {
    const auto config = nlohmann::json::parse(config_json);
    file_ = ::open(config.at("path").get<std::string>().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) throw std::runtime_error("cannot write the file of truth");
  }
  ~Truth() override { ::close(file_); }
  Truth(const Truth&) = delete;
  Truth& operator=(const Truth&) = delete;

  void outputs(const camd_model&, camd::plugin::Needs& needs) override { needs.picture(CAMD_NEED_HOST); }

  void process(const camd_frame& frame, const camd::plugin::Tensors&, camd::plugin::Results&) override {
    std::optional<camd::capture::TestStamp> stamp;
    if (frame.picture != nullptr) {
      const Luma luma = luma_of(*frame.picture);
      stamp = camd::capture::read_test_pattern(luma.layout, luma.bytes);
    }
    char number[24] = "-";
    char time[24] = "-";
    if (stamp) {
      std::snprintf(number, sizeof(number), "%llu", static_cast<unsigned long long>(stamp->sequence));
      std::snprintf(time, sizeof(time), "%lld", static_cast<long long>(stamp->birth_ns));
    }
    char uncertainty[24] = "-";
    if (CAMD_HAS_MEMBER(camd_frame, &frame, captured_uncertainty_ns)) {
      std::snprintf(uncertainty, sizeof(uncertainty), "%lld", static_cast<long long>(frame.captured_uncertainty_ns));
    }
    char line[256];
    const int length =
        std::snprintf(line, sizeof(line), "%s %llu %lld %lld %lld %s %s %d %d %s\n", frame.camera,
                      static_cast<unsigned long long>(frame.sequence), static_cast<long long>(frame.captured_mono_ns),
                      static_cast<long long>(frame.arrived_mono_ns), static_cast<long long>(host_.now_mono_ns()),
                      number, time, frame.width, frame.height, uncertainty);
    if (::write(file_, line, static_cast<std::size_t>(length)) != length) {
      throw std::runtime_error("the file of truth is full");
    }
  }

 private:
  camd::plugin::Host host_;
  int file_ = -1;
};

}  // namespace

CAMD_PLUGIN(Truth, "truth", "1.0.0", "writes what is true of each frame")
