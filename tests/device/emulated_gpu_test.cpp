// The device that tests put in the place of a GPU keeps a GPU's contract.
#include "tests/device/emulated_gpu.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/device/graph_contract.hpp"

namespace camd::device {
namespace CAMD_TEST_FILE {

class EmulatedGpuTest : public testing::Test {
 protected:
  test::EmulatedGpu gpu_{base::system_clock()};
};

TEST_F(EmulatedGpuTest, HasMemoryOfItsOwnAndKeepsBusyWithTwoFrames) {
  EXPECT_FALSE(gpu_.info().works_in_host_memory);
  EXPECT_TRUE(gpu_.info().asynchronous);
  EXPECT_EQ(gpu_.info().default_depth, 2);
}

TEST_F(EmulatedGpuTest, AGraphRunsItsCopiesOverTwoStreamsAtEveryLaunch) { test::run_a_graph_of_two_streams(gpu_); }

TEST_F(EmulatedGpuTest, AGraphThatAwaitsASignalReadsWhatWasUploadedBeforeItWasRaised) {
  test::run_a_graph_that_awaits_its_upload(gpu_);
}

TEST_F(EmulatedGpuTest, ACaptureWhoseStreamsAreNotJoinedIsRefused) {
  const Stream main = gpu_.make_stream("main"), side = gpu_.make_stream("side");
  Event fork = gpu_.make_event();
  Signal signal = gpu_.make_signal();
  ASSERT_TRUE(gpu_.begin_capture(main).ok());
  ASSERT_TRUE(gpu_.record(fork, main).ok());
  ASSERT_TRUE(gpu_.wait(fork, side).ok());
  ASSERT_TRUE(gpu_.raise(signal, 1, side).ok());
  GraphExec graph;
  EXPECT_EQ(gpu_.end_capture(main, graph).kind(), base::ErrorKind::kInternal);
  EXPECT_FALSE(graph);
}

TEST_F(EmulatedGpuTest, EventsDoNotCrossTheBorderOfACapture) {
  const Stream main = gpu_.make_stream("main"), outside = gpu_.make_stream("outside");
  Event before = gpu_.make_event(), inside = gpu_.make_event();
  ASSERT_TRUE(gpu_.record(before, outside).ok());
  ASSERT_TRUE(gpu_.begin_capture(main).ok());
  EXPECT_EQ(gpu_.wait(before, main).kind(), base::ErrorKind::kInternal);
  ASSERT_TRUE(gpu_.record(inside, main).ok());
  GraphExec graph;
  ASSERT_TRUE(gpu_.end_capture(main, graph).ok());
  EXPECT_EQ(gpu_.wait(inside, outside).kind(), base::ErrorKind::kInternal);
  EXPECT_EQ(gpu_.synchronize(inside).kind(), base::ErrorKind::kInternal);
}

TEST_F(EmulatedGpuTest, WhoAwaitsASignalIsLetGoWhenTheDeviceIsLost) {
  const Stream stream = gpu_.make_stream("stream");
  Signal signal = gpu_.make_signal();
  ASSERT_TRUE(gpu_.await(signal, nullptr, stream).ok());
  gpu_.lose({base::ErrorKind::kDeviceLost, "unplugged"});
  EXPECT_EQ(gpu_.synchronize(stream.ref()).kind(), base::ErrorKind::kDeviceLost);
}

// An integrated GPU, which neither looks into the CPU's caches nor is looked into.
class IncoherentGpuTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64;
  Status copy_on_device(std::byte* to, const std::byte* from) {
    return gpu_.copy(to, from, kBytes, CopyKind::kDeviceToDevice, stream_);
  }
  void fill(int value) { std::memset(memory_.data(), value, kBytes); }
  static int last(const std::byte* data) { return static_cast<int>(data[kBytes - 1]); }
  test::EmulatedGpu gpu_{base::system_clock(), 0, test::GpuMemory::kIncoherent};
  const Stream stream_ = gpu_.make_stream("stream");
  const HostBuffer memory_ = gpu_.allocate_host(HostMemory::kMapped, kBytes);
  const DeviceBuffer own_ = gpu_.allocate_device(kBytes);
};

TEST_F(IncoherentGpuTest, SharesMemoryWithoutBeingCoherent) {
  EXPECT_TRUE(gpu_.info().integrated);
  EXPECT_FALSE(gpu_.info().coherent);
  EXPECT_FALSE(gpu_.info().works_in_host_memory);
}

TEST_F(IncoherentGpuTest, ReadsOldBytesUntilABarrierShowsItWhatTheCpuWrote) {
  fill(1);
  ASSERT_TRUE(gpu_.show_to_device(memory_.data(), kBytes, stream_).ok());
  ASSERT_TRUE(copy_on_device(own_.data(), memory_.device_data()).ok());
  ASSERT_TRUE(gpu_.synchronize(stream_.ref()).ok());
  EXPECT_EQ(last(own_.data()), 1);
  fill(2);
  ASSERT_TRUE(copy_on_device(own_.data(), memory_.device_data()).ok());
  ASSERT_TRUE(gpu_.synchronize(stream_.ref()).ok());
  EXPECT_EQ(last(own_.data()), 1);
  ASSERT_TRUE(gpu_.show_to_device(memory_.data(), kBytes, stream_).ok());
  ASSERT_TRUE(copy_on_device(own_.data(), memory_.device_data()).ok());
  ASSERT_TRUE(gpu_.synchronize(stream_.ref()).ok());
  EXPECT_EQ(last(own_.data()), 2);
}

TEST_F(IncoherentGpuTest, TheCpuReadsOldBytesUntilABarrierShowsItWhatTheGpuWrote) {
  fill(1);
  std::memset(own_.data(), 2, kBytes);
  ASSERT_TRUE(copy_on_device(memory_.device_data(), own_.data()).ok());
  ASSERT_TRUE(gpu_.synchronize(stream_.ref()).ok());
  EXPECT_EQ(last(memory_.data()), 1);
  ASSERT_TRUE(gpu_.show_to_host(memory_.data(), kBytes, stream_).ok());
  ASSERT_TRUE(gpu_.synchronize(stream_.ref()).ok());
  EXPECT_EQ(last(memory_.data()), 2);
}

TEST_F(IncoherentGpuTest, ABarrierInAGraphHappensAtEveryLaunch) {
  ASSERT_TRUE(gpu_.begin_capture(stream_).ok());
  ASSERT_TRUE(gpu_.show_to_device(memory_.data(), kBytes, stream_).ok());
  ASSERT_TRUE(copy_on_device(own_.data(), memory_.device_data()).ok());
  GraphExec graph;
  ASSERT_TRUE(gpu_.end_capture(stream_, graph).ok());
  for (int round = 1; round < 4; ++round) {
    fill(round);
    ASSERT_TRUE(gpu_.launch(graph, stream_).ok());
    ASSERT_TRUE(gpu_.synchronize(stream_.ref()).ok());
    EXPECT_EQ(last(own_.data()), round);
  }
}

TEST_F(IncoherentGpuTest, MemoryOfOthersThatIsRegisteredNeedsBarriersToo) {
  std::vector<std::byte> others(kBytes, std::byte{7});
  const HostBuffer registered = gpu_.register_host(others.data(), kBytes, HostMemory::kMapped);
  ASSERT_NE(registered.device_data(), registered.data());
  ASSERT_TRUE(gpu_.show_to_device(others.data(), kBytes, stream_).ok());
  ASSERT_TRUE(copy_on_device(own_.data(), registered.device_data()).ok());
  ASSERT_TRUE(gpu_.synchronize(stream_.ref()).ok());
  EXPECT_EQ(last(own_.data()), 7);
}

TEST_F(IncoherentGpuTest, ABarrierForMemoryThatIsNotSharedIsRefused) {
  const HostBuffer pinned = gpu_.allocate_host(HostMemory::kPinned, kBytes);
  EXPECT_EQ(gpu_.show_to_device(pinned.data(), kBytes, stream_).kind(), base::ErrorKind::kInternal);
  EXPECT_EQ(gpu_.show_to_host(memory_.data(), kBytes + 1, stream_).kind(), base::ErrorKind::kInternal);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::device
