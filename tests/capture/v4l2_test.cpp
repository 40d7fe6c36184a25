// A V4L2 driver that writes its pictures where they are read, shown on the kernel's driver `vivid`
// (Documentation/admin-guide/media/vivid.rst). tests/chaos/guest.py boots a guest with such cameras:
//   CAMD_TEST_V4L2=/dev/video0          writes into memory of others (V4L2_MEMORY_USERPTR)
//   CAMD_TEST_V4L2_CLOSED=/dev/video1   does not
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "lent_pictures.hpp"
#include "tests/device/emulated_gpu.hpp"

namespace camd::capture {
namespace CAMD_TEST_FILE {

using device::HostMemory;
using test::EmulatedGpu;
using test::GpuMemory;
using testing::digest_of;
using testing::LentPictures;

class V4l2 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CAMD_TEST_V4L2") == nullptr) {
      GTEST_SKIP() << "no camera of the driver vivid in CAMD_TEST_V4L2: tests/chaos/guest.py has one";
    }
    device_ = std::getenv("CAMD_TEST_V4L2");
    set("Test Pattern", 1);         // 100% colour bars: all lines of a picture are the same
    set("OSD Text Mode", 2);        // none
    set("Horizontal Movement", 3);  // none
  }
  // By the name that the driver gives the control.
  void set(const std::string& name, int value) const {
    const int camera = open(device_.c_str(), O_RDWR);
    ASSERT_GE(camera, 0) << device_;
    v4l2_queryctrl asked{};
    asked.id = V4L2_CTRL_FLAG_NEXT_CTRL;
    for (; ioctl(camera, VIDIOC_QUERYCTRL, &asked) == 0; asked.id |= V4L2_CTRL_FLAG_NEXT_CTRL) {
      if (name != reinterpret_cast<const char*>(asked.name)) continue;
      v4l2_control control{asked.id, value};
      EXPECT_EQ(ioctl(camera, VIDIOC_S_CTRL, &control), 0) << name << ": " << std::strerror(errno);
      close(camera);
      return;
    }
    close(camera);
    ADD_FAILURE() << "no control " << name;
  }
  [[nodiscard]] config::V4l2Source camera() const {
    config::V4l2Source source;
    source.device = device_;
    source.width = 640;
    source.height = 360;
    source.fps = 25;
    return source;
  }

  // Whether this process has it open; its name can be had again when nobody has.
  [[nodiscard]] bool is_open() const {
    const auto is_device = [this](const auto& entry) {
      std::error_code error;
      return std::filesystem::read_symlink(entry.path(), error).string().starts_with(device_);
    };
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::any_of(begin(all), end(all), is_device);
  }

  std::string device_;
};

// Whether all lines of the first plane are the same, as those of colour bars are.
bool is_whole(const Frame& frame) {
  const base::Plane& plane = frame.layout.planes[0];
  const auto stride = static_cast<std::size_t>(plane.stride_bytes);
  const std::byte* const first = frame.pixels.data() + plane.offset_bytes;
  for (int row = 1; row < plane.height; ++row) {
    if (std::memcmp(first, first + static_cast<std::size_t>(row) * stride, stride) != 0) return false;
  }
  return true;
}

TEST_F(V4l2, TheDriverWritesTheSamePicturesWhereTheyAreReadAsAreCopiedElsewhere) {
  std::set<std::uint64_t> seen;
  for (const GpuMemory memory : {GpuMemory::kOwn, GpuMemory::kIncoherent}) {
    EmulatedGpu gpu(base::system_clock(), 0, memory);
    LentPictures pictures(gpu, memory == GpuMemory::kOwn ? HostMemory::kPinned : HostMemory::kMapped);
    pictures.play(camera());
    ASSERT_TRUE(pictures.wait_for(20));
    pictures.destroy_source();
    EXPECT_FALSE(is_open()) << "lent: " << pictures.lent();
    EXPECT_EQ(pictures.lent(), memory == GpuMemory::kOwn ? 0 : pictures.taken());
    for (const std::uint64_t digest : pictures.all()) seen.insert(digest);
  }
  EXPECT_EQ(seen.size(), 1U);
}

TEST_F(V4l2, NoPictureIsTornWhileItIsHeld) {
  set("Horizontal Movement", 6);  // right, fast
  EmulatedGpu gpu(base::system_clock(), 0, GpuMemory::kCoherent);
  LentPictures pictures(gpu, HostMemory::kMapped);
  pictures.hold(3);
  std::atomic<int> torn{0};
  pictures.look([&](const Frame& frame) { torn += is_whole(frame) ? 0 : 1; });
  pictures.play(camera());
  ASSERT_TRUE(pictures.wait_for(60));
  pictures.stop();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(pictures.lent(), pictures.taken());
  const std::vector<std::uint64_t> digests = pictures.all();
  EXPECT_GT(std::set<std::uint64_t>(digests.begin(), digests.end()).size(), 30U) << "the bars do not move";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(digest_of(pictures.held(i).frame()), digests[static_cast<std::size_t>(i)]);
}

TEST_F(V4l2, ACameraThatIsUnpluggedWhilePicturesAreHeldComesBackAndTheyStay) {
  set("Horizontal Movement", 6);
  EmulatedGpu gpu(base::system_clock(), 0, GpuMemory::kIncoherent);
  LentPictures pictures(gpu, HostMemory::kMapped);
  pictures.hold(2);
  pictures.play(camera());
  ASSERT_TRUE(pictures.wait_for(10));
  std::ofstream("/sys/bus/platform/drivers/vivid/unbind") << "vivid.0" << std::flush;
  ASSERT_TRUE(pictures.recorder().wait_for(SourceState::kReconnecting));
  EXPECT_FALSE(is_open());
  const int before = pictures.taken();
  EXPECT_EQ(gpu.shared_pieces(), 2U);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(digest_of(pictures.held(i).frame()), pictures.all()[static_cast<std::size_t>(i)]);
  std::ofstream("/sys/bus/platform/drivers/vivid/bind") << "vivid.0" << std::flush;
  ASSERT_TRUE(pictures.wait_for(static_cast<std::size_t>(before) + 10, std::chrono::seconds(60)));
  pictures.destroy_source();
  EXPECT_EQ(pictures.lent(), pictures.taken());
  EXPECT_EQ(gpu.shared_pieces(), 2U);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(digest_of(pictures.held(i).frame()), pictures.all()[static_cast<std::size_t>(i)]);
  pictures.let_go();
  EXPECT_EQ(gpu.shared_pieces(), 0U);
}

TEST_F(V4l2, OnTheHostPicturesAreReadInTheDriversOwnMemoryAndACameraThatIsUnpluggedComesBack) {
  const auto host = device::make_host_device(base::system_clock());
  LentPictures pictures(*host, HostMemory::kPageable);
  pictures.play(camera());
  ASSERT_TRUE(pictures.wait_for(10));
  std::ofstream("/sys/bus/platform/drivers/vivid/unbind") << "vivid.0" << std::flush;
  ASSERT_TRUE(pictures.recorder().wait_for(SourceState::kReconnecting));
  EXPECT_FALSE(is_open());
  std::ofstream("/sys/bus/platform/drivers/vivid/bind") << "vivid.0" << std::flush;
  ASSERT_TRUE(pictures.wait_for(static_cast<std::size_t>(pictures.taken()) + 10, std::chrono::seconds(60)));
  pictures.destroy_source();
  EXPECT_FALSE(is_open());
  EXPECT_EQ(pictures.lent(), pictures.taken());
}

TEST_F(V4l2, OnTheHostACameraIsOpenedAnewWhenThePicturesOfItsLastSourceHaveBeenRead) {
  const auto host = device::make_host_device(base::system_clock());
  LentPictures pictures(*host, HostMemory::kPageable);
  pictures.hold(1);
  pictures.play(camera());
  ASSERT_TRUE(pictures.wait_for(10));
  pictures.destroy_source();
  pictures.hold(0);
  pictures.play_again(camera());
  pictures.let_go();
  ASSERT_TRUE(pictures.wait_for(static_cast<std::size_t>(pictures.taken()) + 10));
  pictures.destroy_source();
  EXPECT_FALSE(is_open());
}

TEST_F(V4l2, PicturesOfADriverThatWritesIntoNoMemoryButItsOwnAreCopied) {
  const char* const device = std::getenv("CAMD_TEST_V4L2_CLOSED");
  if (device == nullptr) GTEST_SKIP() << "no camera in CAMD_TEST_V4L2_CLOSED";
  config::V4l2Source source = camera();
  source.device = device;
  EmulatedGpu gpu(base::system_clock(), 0, GpuMemory::kCoherent);
  LentPictures pictures(gpu, HostMemory::kMapped);
  pictures.play(source);
  ASSERT_TRUE(pictures.wait_for(10));
  pictures.stop();
  EXPECT_EQ(pictures.lent(), 0);
  EXPECT_EQ(pictures.states(), (std::vector{SourceState::kStarting, SourceState::kRunning}));
}

// For docs/v4l2.md. By QEMU's clock of instructions a nanosecond is one of them.
TEST_F(V4l2, DISABLED_WorkForAPicture) {
  constexpr std::size_t kBefore = 10;
  constexpr std::size_t kPictures = 50;
  const auto worked = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto us = [](const timeval& time) { return time.tv_sec * 1'000'000 + time.tv_usec; };
    return us(usage.ru_utime) + us(usage.ru_stime);
  };
  config::V4l2Source source = camera();
  source.width = 1280;
  source.height = 720;
  source.fps = 10;
  for (const GpuMemory memory : {GpuMemory::kOwn, GpuMemory::kCoherent}) {
    EmulatedGpu gpu(base::system_clock(), 0, memory);
    LentPictures pictures(gpu, memory == GpuMemory::kOwn ? HostMemory::kPinned : HostMemory::kMapped);
    pictures.skip_digests();
    pictures.play(source);
    ASSERT_TRUE(pictures.wait_for(kBefore, std::chrono::seconds(120)));
    const auto before = worked();
    const auto copied = pictures.source().copied_bytes();
    ASSERT_TRUE(pictures.wait_for(kBefore + kPictures, std::chrono::seconds(120)));
    std::printf("WORK %s: %zu us, %zu bytes copied\n", memory == GpuMemory::kOwn ? "copied" : "lent",
                static_cast<std::size_t>(worked() - before) / kPictures,
                static_cast<std::size_t>(pictures.source().copied_bytes() - copied) / kPictures);
    pictures.stop();
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
