// The device that tests put in the place of a GPU keeps a GPU's contract.
#include "tests/device/emulated_gpu.hpp"

#include <gtest/gtest.h>

#include "tests/device/graph_contract.hpp"

namespace camd::device {
namespace {

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
  ASSERT_TRUE(gpu_.raise(signal, side).ok());
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
  ASSERT_TRUE(gpu_.await(signal, stream).ok());
  gpu_.lose({base::ErrorKind::kDeviceLost, "unplugged"});
  EXPECT_EQ(gpu_.synchronize(stream.ref()).kind(), base::ErrorKind::kDeviceLost);
}

}  // namespace
}  // namespace camd::device
