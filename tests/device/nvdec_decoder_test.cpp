// The decoder on NVIDIA's interface, with the driver's functions faked: what is made for a stream, what is refused and
// with which words, and whose the pictures are.
#include "device/cuda/nvdec_decoder.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/semaphore.hpp"
#include "device/cuda/capture_gate.hpp"
#include "tests/device/emulated_gpu.hpp"
#include "tests/device/fake_nvdec.hpp"
#include "tests/device/fake_vulkan.hpp"

namespace camd::device {
namespace CAMD_TEST_FILE {

using base::ErrorKind;
using base::Status;
using test::FakeNvdec;

// Keeps pictures until it is told to give them back.
class Keeper final : public VideoTaker {
 public:
  ~Keeper() override { give_back_all(); }
  bool take_picture(const DecodedPicture& picture) noexcept override {
    EXPECT_TRUE(gpu != nullptr && gpu->synchronize(*picture.ready).ok());
    shown += static_cast<char>(picture.data[0]);
    times.push_back(picture.time_ns.value_or(-1));
    layouts.push_back(picture.layout);
    damaged += picture.damaged ? 1 : 0;
    kept.push_back(picture);
    while (kept.size() > keep) give_back();
    return more;
  }
  bool goes_on_waiting() noexcept override {
    if (asked) asked();
    return goes_on;
  }
  void give_back() {
    kept.front().release(kept.front().argument);
    kept.erase(kept.begin());
  }
  void give_back_all() {
    while (!kept.empty()) give_back();
  }

  Device* gpu = nullptr;
  std::size_t keep = 0;
  bool more = true;
  bool goes_on = true;          // waiting for its turn
  std::function<void()> asked;  // whether it goes on
  std::string shown;
  std::vector<std::int64_t> times;
  std::vector<base::PictureLayout> layouts;
  std::vector<DecodedPicture> kept;
  int damaged = 0;
};

class NvdecDecoderTest : public testing::Test {
 protected:
  NvdecDecoderTest() {
    FakeNvdec::instance().reset();
    keeper_.gpu = &gpu_;
  }
  ~NvdecDecoderTest() override {
    decoder_.reset();
    keeper_.give_back_all();
    EXPECT_EQ(FakeNvdec::instance().sessions_alive(), 0);
  }
  void make(int held = 2, std::int64_t most_pixels = 1 << 20, VideoCodec codec = VideoCodec::kH264) {
    VideoDecoderOptions options;
    options.codec = codec;
    options.held = held;
    options.most_pixels = most_pixels;
    decoder_ = make_nvdec_decoder(FakeNvdec::library(), gpu_, turns_, options, keeper_);
  }
  Status decode(const std::string& unit, std::optional<std::int64_t> time = std::nullopt) {
    return decoder_->decode(std::as_bytes(std::span(unit)), time);
  }
  // NVIDIA's interface makes so many sessions; Vulkan decodes beyond them.
  void decode_beyond(int sessions) {
    FakeNvdec::Settings settings;
    settings.most_sessions = sessions;
    FakeNvdec::instance().set(settings);
    std::string why;
    gpu_.decode_with(make_vulkan_video(&test::FakeVulkan::find, gpu_, why));
  }
  // What a refused stream is told.
  std::string refusal(const std::string& unit) {
    const Status status = decode(unit);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.kind(), ErrorKind::kSource);
    return status.message();
  }

  test::EmulatedGpu gpu_{base::system_clock()};
  DecoderTurns turns_{base::Duration::zero()};  // who does not have its turn at once is late
  Keeper keeper_;
  std::unique_ptr<VideoDecoder> decoder_;
};

TEST_F(NvdecDecoderTest, HandsPicturesOverWithTheirTimes) {
  make();
  EXPECT_TRUE(decode("stream 320x240 a", 1000).ok());
  EXPECT_TRUE(decode("b", 2000).ok());
  EXPECT_TRUE(decode("c").ok());
  EXPECT_EQ(keeper_.shown, "abc");
  EXPECT_EQ(keeper_.times, (std::vector<std::int64_t>{1000, 2000, -1}));
  EXPECT_EQ(FakeNvdec::instance().sessions_made(), 1);
  EXPECT_EQ(FakeNvdec::instance().mapped(), 0);
}

TEST_F(NvdecDecoderTest, SaysHowThePictureLies) {
  make();
  EXPECT_TRUE(decode("stream 318x239 a").ok());
  EXPECT_TRUE(decode("stream 640x578 bt709 full b").ok());
  EXPECT_TRUE(decode("stream 640x578 c").ok());
  const base::PictureLayout& odd = keeper_.layouts.at(0);
  EXPECT_EQ(odd.format, base::PixelFormat::kNv12);
  EXPECT_EQ(odd.width, 318);
  EXPECT_EQ(odd.height, 239);
  EXPECT_EQ(odd.planes[0].stride_bytes, 512);
  EXPECT_EQ(odd.planes[1].offset_bytes, 512U * 240U);
  EXPECT_EQ(odd.planes[1].width, 159);
  EXPECT_EQ(odd.planes[1].height, 120);
  EXPECT_EQ(odd.size_bytes, 512U * 240U + 512U * 119U + 318U);
  EXPECT_EQ(odd.matrix, base::ColorMatrix::kBt601);
  EXPECT_FALSE(odd.full_range);
  EXPECT_EQ(keeper_.layouts.at(1).matrix, base::ColorMatrix::kBt709);
  EXPECT_TRUE(keeper_.layouts.at(1).full_range);
  EXPECT_EQ(keeper_.layouts.at(2).matrix, base::ColorMatrix::kBt709);  // not said: by the height
  EXPECT_FALSE(keeper_.layouts.at(2).full_range);
}

TEST_F(NvdecDecoderTest, KeepsItsSessionWhenAFileStartsAnew) {
  FakeNvdec::Settings settings;
  settings.delay = 2;
  FakeNvdec::instance().set(settings);
  make();
  for (int round = 0; round < 3; ++round) {
    for (const char* unit : {"stream 320x240 a", "b", "c", "d"}) EXPECT_TRUE(decode(unit).ok());
    EXPECT_TRUE(decoder_->drain().ok());
  }
  EXPECT_EQ(keeper_.shown, "abcdabcdabcd");
  EXPECT_EQ(FakeNvdec::instance().sessions_made(), 1);
}

TEST_F(NvdecDecoderTest, ForgetsWhatWasLeftOfAStream) {
  FakeNvdec::Settings settings;
  settings.delay = 2;
  FakeNvdec::instance().set(settings);
  make();
  for (const char* unit : {"stream 320x240 a", "b", "c"}) EXPECT_TRUE(decode(unit).ok());
  decoder_->reset();
  EXPECT_TRUE(decode("stream 320x240 d").ok());
  EXPECT_TRUE(decoder_->drain().ok());
  EXPECT_EQ(keeper_.shown, "ad");
}

TEST_F(NvdecDecoderTest, MakesASessionForANewSizeAndKeepsTheOldOneForItsPictures) {
  make();
  keeper_.keep = 1;
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  EXPECT_TRUE(decode("b").ok());  // kept
  keeper_.keep = 10;
  EXPECT_TRUE(decode("stream 640x480 c").ok());
  EXPECT_EQ(FakeNvdec::instance().sessions_alive(), 2);
  EXPECT_EQ(static_cast<char>(keeper_.kept.front().data[0]), 'b');
  keeper_.give_back();
  EXPECT_EQ(FakeNvdec::instance().sessions_alive(), 1);
  EXPECT_EQ(keeper_.layouts.back().width, 640);
}

TEST_F(NvdecDecoderTest, LeavesPicturesTheirSessionWhenItGoes) {
  make();
  keeper_.keep = 2;
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  EXPECT_TRUE(decode("b").ok());
  decoder_.reset();
  EXPECT_EQ(FakeNvdec::instance().mapped(), 2);
  EXPECT_EQ(static_cast<char>(keeper_.kept.back().data[0]), 'b');
  std::thread([this] { keeper_.give_back_all(); }).join();
  EXPECT_EQ(FakeNvdec::instance().sessions_alive(), 0);
}

TEST_F(NvdecDecoderTest, CountsPicturesForWhichTheTakerHasNoRoom) {
  make(2);
  keeper_.keep = 10;
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  for (const char* unit : {"b", "c", "d"}) EXPECT_TRUE(decode(unit).ok());
  EXPECT_EQ(keeper_.shown, "ab");
  EXPECT_EQ(decoder_->counts().crowded, 2U);
  keeper_.give_back();
  EXPECT_TRUE(decode("e").ok());
  EXPECT_EQ(keeper_.shown, "abe");
}

TEST_F(NvdecDecoderTest, GivesNoMoreInACallWhenTheTakerWantsNoMore) {
  FakeNvdec::Settings settings;
  settings.delay = 3;
  FakeNvdec::instance().set(settings);
  make();
  for (const char* unit : {"stream 320x240 a", "b", "c"}) EXPECT_TRUE(decode(unit).ok());
  keeper_.more = false;
  EXPECT_TRUE(decoder_->drain().ok());
  EXPECT_EQ(keeper_.shown, "a");
}

TEST_F(NvdecDecoderTest, TakesTenBitsAsEight) {
  make(2, 1 << 20, VideoCodec::kH265);
  EXPECT_TRUE(decode("stream 320x240 10bit a").ok());
  EXPECT_EQ(keeper_.shown, "a");
}

TEST_F(NvdecDecoderTest, RefusesWithTheReason) {
  make();
  EXPECT_EQ(refusal("stream 320x240 interlaced a"),
            "H.264 is interlaced, and the GPU's decoder is for progressive pictures");
  // For good.
  EXPECT_EQ(refusal("stream 320x240 a"), "H.264 is interlaced, and the GPU's decoder is for progressive pictures");
  make();
  EXPECT_EQ(refusal("stream 320x240 444 a"),
            "H.264 with chroma other than 4:2:0, which the network cannot read on the GPU");
  make();
  EXPECT_EQ(refusal("stream 2000x1000 a"), "a picture of 2000x1008 pixels is larger than `max_megapixels` allows");
  make(2, 1 << 30);
  EXPECT_EQ(refusal("stream 8000x1000 a"), "the GPU decodes H.264 up to 4096x4096, not 8000x1008");
  make();
  EXPECT_EQ(refusal("stream 32x32 a"), "the GPU decodes H.264 from 48x48 on, not 32x32");
  make();
  EXPECT_EQ(refusal("stream 320x240 surfaces=40 a"), "H.264 that needs 40 pictures to decode one");
  make();
  EXPECT_EQ(refusal("stream 0x0 a"), "the stream's sizes contradict each other: 0x0 of 0x0 pixels");
  make(2, 1 << 20, VideoCodec::kVp8);
  EXPECT_EQ(refusal("stream 320x240 a"), "the GPU has no decoder for VP8 of 8 bits");
  FakeNvdec::Settings settings;
  settings.writes_nv12 = false;
  FakeNvdec::instance().set(settings);
  make();
  EXPECT_EQ(refusal("stream 320x240 10bit a"), "the GPU does not write H.264 of 10 bits as NV12");
  settings = {};
  settings.most_sessions = 0;
  FakeNvdec::instance().set(settings);
  make();
  EXPECT_EQ(refusal("stream 320x240 a"), "the GPU has no memory, or no session, left for another decoder");
  EXPECT_EQ(keeper_.shown, "");
}

TEST_F(NvdecDecoderTest, VulkanDecodesWhatIsBeyondTheDriversSessions) {
  test::FakeVulkan vulkan;
  decode_beyond(1);
  make();
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  EXPECT_TRUE(vulkan.decoded.empty());
  const std::unique_ptr<VideoDecoder> first = std::move(decoder_);
  make();
  EXPECT_TRUE(decode("stream 320x240 b").ok());
  EXPECT_EQ(vulkan.decoded.size(), 1U);
  EXPECT_EQ(keeper_.shown, "as") << "the fake paints a unit's first byte";
  decoder_.reset();
  keeper_.give_back_all();
  gpu_.decode_with(std::unique_ptr<VulkanVideo>());
  EXPECT_EQ(vulkan.alive, 0);
}

TEST_F(NvdecDecoderTest, WhoWantsToKnowOfDamageIsNotDecodedByVulkanWhichDoesNotTell) {
  test::FakeVulkan vulkan;
  decode_beyond(0);
  VideoDecoderOptions options;
  options.tells_damage = true;
  decoder_ = make_nvdec_decoder(FakeNvdec::library(), gpu_, turns_, options, keeper_);
  EXPECT_EQ(refusal("stream 320x240 a"), "the GPU has no memory, or no session, left for another decoder");
  decoder_.reset();
  gpu_.decode_with(std::unique_ptr<VulkanVideo>());
}

TEST_F(NvdecDecoderTest, AStreamThatNeitherTakesIsRefused) {
  test::FakeVulkan vulkan;
  vulkan.coincide = false;
  decode_beyond(0);
  make();
  EXPECT_EQ(refusal("stream 320x240 a"), "the GPU has no memory, or no session, left for another decoder");
  decoder_.reset();
  gpu_.decode_with(std::unique_ptr<VulkanVideo>());
}

TEST_F(NvdecDecoderTest, WhoHasWaitedLongForItsTurnIsDecodedByVulkan) {
  test::FakeVulkan vulkan;
  decode_beyond(1000);
  const DecoderTurns::Turn first(turns_);
  make();
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  EXPECT_EQ(vulkan.decoded.size(), 1U);
  EXPECT_EQ(FakeNvdec::instance().sessions_made(), 0);
  decoder_.reset();
  keeper_.give_back_all();
  gpu_.decode_with(std::unique_ptr<VulkanVideo>());
}

TEST_F(NvdecDecoderTest, WhomVulkanDoesNotDecodeWaitsOnForItsTurn) {
  auto first = std::make_unique<DecoderTurns::Turn>(turns_);
  int asked = 0;
  keeper_.asked = [&] {
    EXPECT_EQ(FakeNvdec::instance().sessions_made(), 0);
    if (++asked == 3) first.reset();
  };
  make();
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(keeper_.shown, "a");
}

TEST_F(NvdecDecoderTest, WhoGivesUpWaitingHasNoDecoderMadeAndMayBeginAnew) {
  {
    const DecoderTurns::Turn first(turns_);
    make();
    keeper_.goes_on = false;
    EXPECT_TRUE(decode("stream 320x240 a").ok());
    EXPECT_TRUE(decode("b").ok());
  }
  EXPECT_EQ(FakeNvdec::instance().sessions_made(), 0);
  keeper_.goes_on = true;
  EXPECT_TRUE(decode("c").ok());
  EXPECT_EQ(keeper_.shown, "c");
}

// NVIDIA's driver crashes where one thread captures a graph and another makes or destroys a decoder.
TEST_F(NvdecDecoderTest, DecodersAreMadeAndDestroyedWhereNoGraphIsCaptured) {
  std::vector<int> works;
  FakeNvdec::Settings settings;
  settings.working = [&] { works.push_back(CaptureGate::of_the_process().decoder_works()); };
  FakeNvdec::instance().set(settings);
  make();
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  decoder_.reset();
  EXPECT_EQ(works, (std::vector<int>{1, 1}));
  EXPECT_EQ(CaptureGate::of_the_process().decoder_works(), 0);
}

TEST_F(NvdecDecoderTest, GoesOnAfterPicturesThatCannotBeDecodedUntilThereAreTooMany) {
  make();
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  FakeNvdec::Settings settings;
  settings.decodes = false;
  FakeNvdec::instance().set(settings);
  for (int i = 0; i < 99; ++i) EXPECT_TRUE(decode("b").ok());
  EXPECT_EQ(decoder_->counts().undecodable, 99U);
  FakeNvdec::instance().set({});
  EXPECT_TRUE(decode("c").ok());
  FakeNvdec::instance().set(settings);
  for (int i = 0; i < 99; ++i) EXPECT_TRUE(decode("d").ok());
  EXPECT_EQ(refusal("e"), "the GPU's decoder has failed with 100 pictures, one after the other");
}

TEST_F(NvdecDecoderTest, MarksDamagedPictures) {
  FakeNvdec::Settings settings;
  settings.damaged = true;
  FakeNvdec::instance().set(settings);
  make();
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  EXPECT_EQ(keeper_.damaged, 1);
  EXPECT_EQ(decoder_->counts().damaged, 1U);
}

// Each that waits in the driver is woken up for every picture of any decoder.
TEST_F(NvdecDecoderTest, TwoWaitInTheDriverAtOnceAndOthersOutsideUntilTheirPictureIsDecoded) {
  constexpr int kAsks = 3;
  base::Semaphore waits, leave;
  std::mutex mutex;
  std::vector<int> asked;  // before each picture was waited for in the driver
  FakeNvdec::Settings settings;
  settings.asks = kAsks;
  settings.mapping = [&] {
    {
      const std::lock_guard lock(mutex);
      asked.push_back(FakeNvdec::instance().asked());
      if (asked.size() > 2) return;
    }
    waits.release();
    leave.acquire();
  };
  FakeNvdec::instance().set(settings);
  const auto play = [this] {
    Keeper keeper;
    keeper.gpu = &gpu_;
    VideoDecoderOptions options;
    options.codec = VideoCodec::kH264;
    options.most_pixels = 1 << 20;
    const auto decoder = make_nvdec_decoder(FakeNvdec::library(), gpu_, turns_, options, keeper);
    const std::string unit = "stream 320x240 a";
    EXPECT_TRUE(decoder->decode(std::as_bytes(std::span(unit)), 0).ok());
    EXPECT_EQ(keeper.shown, "a");
  };
  std::thread first(play), second(play);
  waits.acquire();
  waits.acquire();
  play();
  leave.release();
  leave.release();
  first.join();
  second.join();
  EXPECT_EQ(asked, (std::vector{0, 0, kAsks + 1}));
}

TEST_F(NvdecDecoderTest, SaysThatTheDeviceIsLost) {
  make();
  EXPECT_TRUE(decode("stream 320x240 a").ok());
  gpu_.lose(Status(ErrorKind::kDeviceLost, "gone"));
  const Status status = decode("b");
  EXPECT_EQ(status.kind(), ErrorKind::kDeviceLost);
  EXPECT_EQ(keeper_.shown, "a");
  // What a lost device held is not destroyed.
  decoder_.reset();
  EXPECT_EQ(FakeNvdec::instance().sessions_alive(), 1);
  FakeNvdec::instance().reset();
}

TEST_F(NvdecDecoderTest, TellsWhatTheEnginesDecode) {
  const std::vector<VideoSupport> all = nvdec_support(FakeNvdec::library(), gpu_);
  ASSERT_EQ(all.size(), 10U);  // all but VP8, 8 bits and 10
  EXPECT_EQ(all.front().codec, VideoCodec::kH264);
  EXPECT_EQ(all.front().bits, 8);
  EXPECT_EQ(all.front().engines, 7);
  EXPECT_EQ(all.front().most_width, 4096);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::device
