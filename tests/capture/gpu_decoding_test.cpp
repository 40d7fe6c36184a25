// Files that the device decodes, on an emulated GPU whose decoders are faked: GStreamer reads real clips, and the
// pictures stay where the decoder left them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/semaphore.hpp"
#include "capture/gst_support.hpp"
#include "capture/sample_decoder.hpp"
#include "clips.hpp"
#include "source_fixture.hpp"
#ifdef CAMD_RTSP_SERVER
#include "rtsp_camera.hpp"
#endif
#include "tests/device/emulated_gpu.hpp"
#include "tests/device/fake_nvdec.hpp"

namespace camd::capture {
namespace CAMD_TEST_FILE {

using test::FakeNvdec;
using testing::ClipOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuDecodingTest : public testing::SourceTest {
 protected:
  GpuDecodingTest() {
    FakeNvdec::instance().reset();
    gpu_.decode_with(FakeNvdec::library());
  }
  ~GpuDecodingTest() override {
    source_.reset();
    ring_.reset();
    EXPECT_EQ(FakeNvdec::instance().sessions_alive(), 0);
  }
  void play(const std::filesystem::path& path, config::DecodeMode decode, bool loop = false, bool realtime = false) {
    config::FileSource file;
    file.path = path;
    file.loop = loop;
    file.realtime = realtime;
    play(file, decode);
  }
  void play(const config::Source& source, config::DecodeMode decode) {
    config::Camera camera;
    camera.name = "door";
    camera.decode = decode;
    camera.source = source;
    ring_ = std::make_unique<FrameRing>(
        gpu_, observer_,
        FrameRing::Options{0, 4, is_lossless(camera) ? RingPolicy::kLossless : RingPolicy::kNewestWins,
                           device::HostMemory::kPinned});
    source_ = make_source(camera, 0, *ring_, states_, base::system_clock());
    source_->start();
  }

  testing::TemporaryFolder folder_;
  test::EmulatedGpu gpu_{base::system_clock()};
};

TEST_F(GpuDecodingTest, LeavesThePicturesOfAFileOnTheDevice) {
  const auto path = folder_ / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 12}));
  play(path, config::DecodeMode::kGpu);
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::optional<SlotLease> lease = next();
    ASSERT_TRUE(lease);
    EXPECT_TRUE(lease->frame().on_device);
    EXPECT_NE(lease->device_pixels(), nullptr);
    EXPECT_TRUE(lease->frame().pixels.empty());
    EXPECT_EQ(lease->frame().layout.width, 320);
    EXPECT_EQ(lease->frame().sequence, i);
  }
  EXPECT_TRUE(states_.wait_for(SourceState::kEnded));
  EXPECT_FALSE(ring_->take());
  EXPECT_EQ(source_->decoder().name, "NVDEC H.264");
  EXPECT_EQ(source_->decoder().device, "cuda:0");
  source_->stop();
  EXPECT_EQ(FakeNvdec::instance().sessions_made(), 1);
  EXPECT_EQ(FakeNvdec::instance().mapped(), 0);
}

TEST_F(GpuDecodingTest, StartsAClipAnewWithTheSameDecoderAndLosesNoPicture) {
  const auto path = folder_ / "clip.mp4";
  CAMD_CLIP_OR_SKIP(path,
                    (ClipOptions{.frames = 10,
                                 .encoder = "x264enc bframes=2 key-int-max=5 speed-preset=ultrafast ! h264parse ! "
                                            "mp4mux"}));
  FakeNvdec::Settings settings;
  settings.delay = 2;
  FakeNvdec::instance().set(settings);
  play(path, config::DecodeMode::kGpu, true);
  for (int i = 0; i < 35; ++i) ASSERT_TRUE(next());
  source_->stop();
  EXPECT_EQ(FakeNvdec::instance().sessions_made(), 1);
}

TEST_F(GpuDecodingTest, PlaysInRealTimeAndStopsInTheMiddle) {
  const auto path = folder_ / "clip.mkv";
  // Without B-frames: the faked parser shows pictures in the order of decoding.
  CAMD_CLIP_OR_SKIP(path,
                    (ClipOptions{.frames = 60,
                                 .encoder = "x264enc bframes=0 key-int-max=5 speed-preset=ultrafast ! h264parse ! "
                                            "matroskamux"}));
  play(path, config::DecodeMode::kAuto, true, true);
  std::optional<base::TimePoint> last;
  for (int i = 0; i < 5; ++i) {
    const std::optional<SlotLease> lease = next();
    ASSERT_TRUE(lease);
    EXPECT_TRUE(lease->frame().on_device);
    if (last) {
      EXPECT_GE(lease->frame().captured - *last, std::chrono::milliseconds(33));
    }
    last = lease->frame().captured;
  }
  source_->stop();
}

TEST_F(GpuDecodingTest, FallsBackToTheCpuAndSaysWhy) {
  const auto path = folder_ / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 12}));
  FakeNvdec::Settings settings;
  settings.most_sessions = 0;
  FakeNvdec::instance().set(settings);
  play(path, config::DecodeMode::kAuto);
  for (int i = 0; i < 12; ++i) {
    const std::optional<SlotLease> lease = next();
    ASSERT_TRUE(lease);
    EXPECT_FALSE(lease->frame().on_device);
    EXPECT_EQ(stamp_of(lease->frame()), i);
  }
  EXPECT_EQ(source_->decoder().device, "cpu");
  EXPECT_TRUE(states_.wait_for(SourceState::kEnded));
  EXPECT_THAT(states_.states(), ElementsAre(SourceState::kStarting, SourceState::kRunning, SourceState::kEnded));
  EXPECT_THAT(states_.reasons(), ElementsAre("",
                                             "decoded on the CPU: the GPU has no memory, or no session, left for "
                                             "another decoder",
                                             "the end of the stream"));
}

TEST_F(GpuDecodingTest, FailsWithTheReasonWhereTheGpuAloneShallDecode) {
  const auto path = folder_ / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 12}));
  FakeNvdec::Settings settings;
  settings.most_side = 300;
  FakeNvdec::instance().set(settings);
  play(path, config::DecodeMode::kGpu);
  EXPECT_TRUE(states_.wait_for(SourceState::kFailed));
  EXPECT_THAT(states_.last_reason(), HasSubstr("the GPU decodes H.264 up to 300x300, not 320x240"));
}

TEST_F(GpuDecodingTest, LeavesCodecsThatNoGpuKnowsToTheCpu) {
  const auto path = folder_ / "clip.avi";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 6, .encoder = "avenc_mjpeg ! image/jpeg ! avimux"}));
  FakeNvdec::Settings settings;
  settings.most_side = 100;
  FakeNvdec::instance().set(settings);
  play(path, config::DecodeMode::kAuto);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(next());
}

TEST_F(GpuDecodingTest, NamesAFileThatIsNoVideoAsTheCpuWould) {
  testing::write_file(folder_ / "notes.mkv", "these are just words, and no video at all\n");
  play(folder_ / "notes.mkv", config::DecodeMode::kAuto);
  EXPECT_TRUE(states_.wait_for(SourceState::kFailed));
  EXPECT_THAT(states_.last_reason(), HasSubstr("notes.mkv: "));
}

TEST_F(GpuDecodingTest, GoesOnWithDamagedStreams) {
  const auto path = folder_ / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 30}));
  std::string bytes = testing::read_file(path);
  for (std::size_t at = bytes.size() / 2; at + 16 < bytes.size() / 2 + 4096; ++at) bytes[at] = static_cast<char>(at);
  testing::write_file(folder_ / "damaged.mkv", bytes);
  play(folder_ / "damaged.mkv", config::DecodeMode::kAuto);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(next());
  source_->stop();
}

// ---- When many begin at once

// A GPU whose decoders wait for others' before their first picture.
class BusyGpu final : public test::EmulatedGpu {
 public:
  using EmulatedGpu::EmulatedGpu;
  [[nodiscard]] std::unique_ptr<device::VideoDecoder> make_video_decoder(const device::VideoDecoderOptions& /*options*/,
                                                                         device::VideoTaker& taker) override {
    return std::make_unique<Decoder>(*this, taker);
  }
  base::Semaphore waits, may_go;

 private:
  struct Decoder final : device::VideoDecoder {
    Decoder(BusyGpu& busy, device::VideoTaker& whose) : gpu(busy), taker(whose) {}
    base::Status decode(std::span<const std::byte> /*unit*/, std::optional<std::int64_t> /*time_ns*/) override {
      if (!taker.goes_on_waiting()) return {};
      gpu.waits.release();
      gpu.may_go.acquire();
      return {};
    }
    base::Status drain() override { return {}; }
    void reset() noexcept override {}
    [[nodiscard]] device::VideoDecoderCounts counts() const noexcept override { return {}; }
    BusyGpu& gpu;
    device::VideoTaker& taker;
  };
};

struct NoTaker final : DecodedTaker {
  bool take_decoded(LentPicture& /*picture*/, const StreamStamp& /*stamp*/,
                    GstElement* /*pipeline*/) noexcept override {
    return true;
  }
  [[nodiscard]] bool gives_up() noexcept override { return stops; }
  bool stops = false;
};

void decode_first_sample(SampleDecoder& decoder) {
  GstCaps* const caps = gst_caps_new_empty_simple("video/x-h264");
  GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, 16, nullptr);
  GstSample* const sample = gst_sample_new(buffer, caps, nullptr, nullptr);
  EXPECT_TRUE(decoder.decode(sample, nullptr).ok());
  gst_sample_unref(sample);
  gst_buffer_unref(buffer);
  gst_caps_unref(caps);
}

TEST_F(GpuDecodingTest, AStreamWhoseDecoderWaitsForOthersSaysSoUntilItHasOne) {
  init_gstreamer();
  BusyGpu gpu(base::system_clock());
  NoTaker taker;
  SampleDecoder decoder(gpu, device::VideoDecoderOptions{}, taker);
  EXPECT_FALSE(decoder.waits());
  std::thread stream([&decoder] { decode_first_sample(decoder); });
  gpu.waits.acquire();
  EXPECT_TRUE(decoder.waits());
  gpu.may_go.release();
  stream.join();
  EXPECT_FALSE(decoder.waits());
  EXPECT_TRUE(decoder.wanted());
}

TEST_F(GpuDecodingTest, AStreamThatStopsDoesNotWaitForItsDecoder) {
  init_gstreamer();
  BusyGpu gpu(base::system_clock());
  NoTaker taker;
  taker.stops = true;
  SampleDecoder decoder(gpu, device::VideoDecoderOptions{}, taker);
  decode_first_sample(decoder);
  EXPECT_FALSE(decoder.waits());
  EXPECT_FALSE(decoder.wanted());
}

#ifdef CAMD_RTSP_SERVER
config::RtspSource source_of(const testing::RtspCamera& server) {
  config::RtspSource source;
  source.url = server.url();
  source.transport = config::RtspTransport::kTcp;
  return source;
}

TEST_F(GpuDecodingTest, LeavesThePicturesOfAnRtspCameraOnTheDeviceWithTheTimesOfItsPackets) {
  testing::RtspCamera server;
  ASSERT_TRUE(server.start());
  play(source_of(server), config::DecodeMode::kGpu);
  base::TimePoint last;
  for (int i = 0; i < 10; ++i) {
    const std::optional<SlotLease> lease = next();
    ASSERT_TRUE(lease) << states_.last_reason();
    EXPECT_TRUE(lease->frame().on_device);
    EXPECT_GE(lease->frame().captured, last);  // the faked parser shows pictures in the order of decoding
    last = lease->frame().captured;
  }
  EXPECT_NE(source_->clock().source, ClockSource::kArrival);
  source_->stop();
}

// Where it came with the next one, as much as a period would lie between.
TEST_F(GpuDecodingTest, DecodesAnRtspCamerasPictureBeforeTheNextOneComes) {
  constexpr base::Duration kPeriod = std::chrono::seconds(1);
  testing::RtspCamera server;
  ASSERT_TRUE(server.start({"--fps", "1"}));
  play(source_of(server), config::DecodeMode::kGpu);
  std::vector<base::Duration> under_way;
  for (int i = 0; i < 3; ++i) {
    const std::optional<SlotLease> lease = next();
    ASSERT_TRUE(lease) << states_.last_reason();
    under_way.push_back(lease->frame().arrived - lease->frame().captured);
  }
  EXPECT_LT(*std::min_element(under_way.begin(), under_way.end()), kPeriod / 2);
  source_->stop();
}

TEST_F(GpuDecodingTest, LetsTheCpuDecodeAnRtspCameraThatTheDeviceRefuses) {
  testing::RtspCamera server;
  ASSERT_TRUE(server.start());
  FakeNvdec::Settings settings;
  settings.most_sessions = 0;
  FakeNvdec::instance().set(settings);
  play(source_of(server), config::DecodeMode::kAuto);
  for (int i = 0; i < 5; ++i) {
    const std::optional<SlotLease> lease = next();
    ASSERT_TRUE(lease) << states_.last_reason();
    EXPECT_FALSE(lease->frame().on_device);
  }
  EXPECT_TRUE(states_.wait_for(SourceState::kRunning));
  EXPECT_THAT(states_.last_reason(), HasSubstr("decoded on the CPU: the GPU has no memory, or no session, left"));
  source_->stop();
}
#endif

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
