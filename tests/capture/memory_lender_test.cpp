// Pictures that nobody copies: GStreamer's elements write them into memory that is lent to them, and an integrated GPU
// reads them there. The last part runs where there is a camera of the driver `vivid` (tests/chaos/guest.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "capture/memory_lender.hpp"
#include "lent_pictures.hpp"
#include "tests/device/emulated_gpu.hpp"

namespace camd::capture {
namespace CAMD_TEST_FILE {

using device::HostMemory;
using test::EmulatedGpu;
using test::GpuMemory;
using testing::digest_of;
using ::testing::ElementsAre;
using testing::LentPictures;
using ::testing::SizeIs;

constexpr const char* kBall = "videotestsrc is-live=true pattern=ball animation-mode=frames ! video/x-raw,";

std::string ball(const char* format, const char* behind = "") {
  return std::string(kBall) + "format=" + format + ",width=322,height=180,framerate=100/1" + behind;
}

config::GStreamerSource text(std::string pipeline) {
  config::GStreamerSource source;
  source.pipeline = std::move(pipeline);
  return source;
}

// The first twelve pictures as a discrete GPU gets them: copied into slots.
std::vector<std::uint64_t> copied(const std::string& pipeline) {
  EmulatedGpu gpu(base::system_clock());
  LentPictures pictures(gpu, HostMemory::kPinned);
  pictures.play(text(pipeline));
  EXPECT_TRUE(pictures.wait_for(12));
  pictures.stop();
  EXPECT_EQ(pictures.lent(), 0);
  return pictures.first(12);
}

TEST(MemoryLender, PicturesAreWrittenWhereAnIntegratedGpuReadsThem) {
  for (const char* const format : {"NV12", "I420", "YUY2", "BGR", "RGB", "GRAY8"}) {
    EmulatedGpu gpu(base::system_clock(), 0, GpuMemory::kIncoherent);
    LentPictures pictures(gpu, HostMemory::kMapped);
    pictures.play(text(ball(format)));
    ASSERT_TRUE(pictures.wait_for(12)) << format;
    pictures.stop();
    EXPECT_EQ(pictures.first(12), copied(ball(format))) << format;
    EXPECT_EQ(pictures.lent(), pictures.taken()) << format;
  }
}

TEST(MemoryLender, APictureThatIsHeldIsNotWrittenOver) {
  EmulatedGpu gpu(base::system_clock(), 0, GpuMemory::kCoherent);
  LentPictures pictures(gpu, HostMemory::kMapped);
  pictures.hold(3);
  pictures.play(text(ball("NV12")));
  ASSERT_TRUE(pictures.wait_for(40));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(digest_of(pictures.held(i).frame()), pictures.first(3)[static_cast<std::size_t>(i)]);
  EXPECT_EQ(pictures.lent(), pictures.taken());
  pictures.stop();
}

TEST(MemoryLender, TheGpuLetsGoOfMemoryWhenTheSourceEndsAndOfHeldPicturesWhenTheyComeBack) {
  EmulatedGpu gpu(base::system_clock(), 0, GpuMemory::kIncoherent);
  LentPictures pictures(gpu, HostMemory::kMapped);
  pictures.hold(2);
  pictures.play(text(ball("NV12")));
  ASSERT_TRUE(pictures.wait_for(12));
  EXPECT_GE(gpu.shared_pieces(), 4U);
  pictures.destroy_source();
  EXPECT_EQ(gpu.shared_pieces(), 2U);
  EXPECT_EQ(digest_of(pictures.held(1).frame()), pictures.first(2)[1]);
  pictures.let_go();
  EXPECT_EQ(gpu.shared_pieces(), 0U);
}

TEST(MemoryLender, NothingIsLentWhereItIsDecodedNorForAGpuWithItsOwnMemoryNorInPageableMemory) {
  const std::string decoded = ball("I420", " ! jpegenc ! jpegdec");
  struct {
    std::string pipeline;
    GpuMemory memory;
    HostMemory kind;
  } const each[]{{decoded, GpuMemory::kCoherent, HostMemory::kMapped},
                 {ball("NV12"), GpuMemory::kOwn, HostMemory::kPinned},
                 {ball("NV12"), GpuMemory::kCoherent, HostMemory::kPageable}};
  for (const auto& one : each) {
    EmulatedGpu gpu(base::system_clock(), 0, one.memory);
    LentPictures pictures(gpu, one.kind);
    pictures.play(text(one.pipeline));
    ASSERT_TRUE(pictures.wait_for(5));
    pictures.stop();
    EXPECT_EQ(pictures.lent(), 0);
  }
}

TEST(MemoryLender, ARingThatMovesHasItsPicturesCopiedUntilMemoryOfTheNewReaderIsLent) {
  EmulatedGpu gpu(base::system_clock(), 0, GpuMemory::kCoherent);
  EmulatedGpu other(base::system_clock(), 1, GpuMemory::kIncoherent);
  LentPictures pictures(gpu, HostMemory::kMapped);
  pictures.move_at(6, other, HostMemory::kMapped);
  pictures.play(text(ball("NV12")));
  ASSERT_TRUE(pictures.wait_for(40));
  EXPECT_TRUE(pictures.last_was_lent());
  pictures.stop();
  EXPECT_EQ(pictures.first(12), copied(ball("NV12")));
  EXPECT_LT(pictures.lent(), pictures.taken());
}

// A GPU that cannot page-lock memory of others (CUDA on Tegras of compute capability below 7.2).
class NoRegistering : public EmulatedGpu {
 public:
  using EmulatedGpu::EmulatedGpu;
  [[nodiscard]] device::HostBuffer register_host(void*, std::size_t, HostMemory) override {
    throw base::Error(base::ErrorKind::kDevice, "not here");
  }
};

TEST(MemoryLender, WhereNoMemoryCanBeLentPicturesAreCopied) {
  NoRegistering gpu(base::system_clock(), 0, GpuMemory::kCoherent);
  LentPictures pictures(gpu, HostMemory::kMapped);
  pictures.play(text(ball("NV12")));
  ASSERT_TRUE(pictures.wait_for(12));
  pictures.stop();
  EXPECT_EQ(pictures.first(12), copied(ball("NV12")));
  EXPECT_EQ(pictures.lent(), 0);
  EXPECT_THAT(pictures.states(), ElementsAre(SourceState::kStarting, SourceState::kRunning));
}

TEST(MemoryLender, OnTheHostMemoryIsLentWhereOtherProcessesReadThePictures) {
  const auto device = device::make_host_device(base::system_clock());
  LentPictures pictures(*device, HostMemory::kPageable, [](std::size_t size) {
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096)),
                                      &std::free);
  });
  pictures.play(text(ball("YUY2")));
  ASSERT_TRUE(pictures.wait_for(12));
  pictures.stop();
  EXPECT_EQ(pictures.first(12), copied(ball("YUY2")));
  EXPECT_EQ(pictures.lent(), pictures.taken());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
