// The CUDA device against its contract. Without a GPU everything but the refusals is skipped, visibly.
#include "device/cuda/cuda_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/nvdec_library.hpp"
#include "device/cuda/nvdec_session.hpp"
#include "device/make_device.hpp"
#include "tests/device/fence_contract.hpp"
#include "tests/device/graph_contract.hpp"

namespace camd::device {
namespace CAMD_TEST_FILE {

using testing::HasSubstr;

constexpr std::size_t kSize = 3 << 20;

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    const CudaDevices found = cuda_devices();
    if (found.count == 0) GTEST_SKIP() << "no GPU: " << found.reason;
    device_ = make_cuda_device(0);
  }
  std::unique_ptr<CudaDevice> device_;
};

TEST(CudaDevices, AMachineWithoutAGpuGetsAReasonAndNoCrash) {
  const CudaDevices found = cuda_devices();
  EXPECT_EQ(found.count == 0, !found.reason.empty());
  if (found.count != 0) return;
  try {
    (void)make_device("cuda");
    FAIL() << "a device was made of nothing";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kDevice);
    EXPECT_EQ(found.reason, error.what());
  }
}

TEST(MakeDevice, AutoFallsToTheHostOnlyWithoutAGpu) {
  const auto device = make_device("auto");
  EXPECT_EQ(device->info().kind, count_gpus().count > 0 ? DeviceKind::kCuda : DeviceKind::kHost);
}

TEST(MakeDevice, RefusesWordsAndNumbersThatNameNoDevice) {
  for (const char* spec : {"gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA", ""}) {
    EXPECT_THROW((void)make_device(spec), base::Error) << spec;
  }
  EXPECT_THROW((void)make_device("cuda:99"), base::Error);
}

TEST_F(CudaDeviceTest, HasMemoryOfItsOwnAndKeepsBusyWithTwoFrames) {
  EXPECT_FALSE(device_->info().works_in_host_memory);
  EXPECT_TRUE(device_->info().asynchronous);
  EXPECT_EQ(device_->info().default_depth, 2);
}

TEST_F(CudaDeviceTest, CopiesThereAndBackFromEveryKindOfHostMemory) {
  const DeviceBuffer memory = device_->allocate_device(kSize);
  const Stream stream = device_->make_stream("test");
  for (const HostMemory kind : {HostMemory::kPageable, HostMemory::kPinned, HostMemory::kMapped}) {
    const HostBuffer from = device_->allocate_host(kind, kSize);
    const HostBuffer to = device_->allocate_host(kind, kSize);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(from.data()) % 4096, 0U);
    EXPECT_EQ(from.device_data() != nullptr, kind == HostMemory::kMapped);
    for (std::size_t i = 0; i < kSize; ++i)
      from.data()[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(kind));
    std::memset(to.data(), 0, kSize);
    ASSERT_TRUE(device_->copy(memory.data(), from.data(), kSize, CopyKind::kHostToDevice, stream).ok());
    ASSERT_TRUE(device_->copy(to.data(), memory.data(), kSize, CopyKind::kDeviceToHost, stream).ok());
    ASSERT_TRUE(device_->synchronize(stream.ref()).ok());
    EXPECT_EQ(std::memcmp(from.data(), to.data(), kSize), 0);
  }
}

TEST_F(CudaDeviceTest, PageLocksMemoryOwnedBySomebodyElse) {
  std::vector<std::byte> mine(kSize, std::byte{42});
  const DeviceBuffer memory = device_->allocate_device(kSize);
  const Stream stream = device_->make_stream("test");
  {
    const HostBuffer registered = device_->register_host(mine.data(), mine.size(), HostMemory::kMapped);
    EXPECT_EQ(registered.data(), mine.data());
    EXPECT_NE(registered.device_data(), nullptr);
    ASSERT_TRUE(device_->copy(memory.data(), registered.device_data(), kSize, CopyKind::kDeviceToDevice, stream).ok());
    ASSERT_TRUE(device_->synchronize(stream.ref()).ok());
    EXPECT_THROW((void)device_->register_host(mine.data(), mine.size(), HostMemory::kPinned), base::Error);
  }
  EXPECT_TRUE(device_->status().ok()) << "a refusal at set-up must not end the device";
  (void)device_->register_host(mine.data(), mine.size(), HostMemory::kPinned);
}

TEST_F(CudaDeviceTest, AnEventOrdersTwoStreams) {
  const Stream first = device_->make_stream("first");
  const Stream second = device_->make_urgent_stream("second");
  Event done = device_->make_event();
  EXPECT_TRUE(device_->reached(done)) << "never recorded";
  const HostBuffer a = device_->allocate_host(HostMemory::kPinned, kSize * 8);
  const HostBuffer b = device_->allocate_host(HostMemory::kPinned, kSize * 8);
  const DeviceBuffer memory = device_->allocate_device(kSize * 8);
  for (int round = 0; round < 20; ++round) {
    std::memset(a.data(), round + 1, kSize * 8);
    ASSERT_TRUE(device_->copy(memory.data(), a.data(), kSize * 8, CopyKind::kHostToDevice, first).ok());
    ASSERT_TRUE(device_->record(done, first).ok());
    ASSERT_TRUE(device_->wait(done, second).ok());
    ASSERT_TRUE(device_->copy(b.data(), memory.data(), kSize * 8, CopyKind::kDeviceToHost, second).ok());
    ASSERT_TRUE(device_->record(done, second).ok());
    ASSERT_TRUE(device_->synchronize(done).ok());
    ASSERT_EQ(static_cast<int>(b.data()[kSize * 8 - 1]), round + 1);
  }
}

TEST_F(CudaDeviceTest, TimedEventsMeasureACopy) {
  const Stream stream = device_->make_stream("test");
  TimedEvent begin = device_->make_timed_event(), end = device_->make_timed_event();
  EXPECT_EQ(device_->elapsed(begin, end), Duration::zero());
  const HostBuffer from = device_->allocate_host(HostMemory::kPinned, kSize);
  const DeviceBuffer memory = device_->allocate_device(kSize);
  ASSERT_TRUE(device_->record(begin, stream).ok());
  ASSERT_TRUE(device_->copy(memory.data(), from.data(), kSize, CopyKind::kHostToDevice, stream).ok());
  ASSERT_TRUE(device_->record(end, stream).ok());
  ASSERT_TRUE(device_->synchronize(stream.ref()).ok());
  EXPECT_GT(device_->elapsed(begin, end), std::chrono::microseconds(10));
  EXPECT_LT(device_->elapsed(begin, end), std::chrono::seconds(1));
}

TEST_F(CudaDeviceTest, AGraphRunsItsCopiesOverTwoStreamsAtEveryLaunch) { test::run_a_graph_of_two_streams(*device_); }

TEST_F(CudaDeviceTest, SaysWhetherAStreamIsBeingCaptured) {
  const Stream stream = device_->make_stream("test");
  EXPECT_FALSE(device_->capturing(stream));
  ASSERT_TRUE(device_->begin_capture(stream).ok());
  EXPECT_TRUE(device_->capturing(stream));
  GraphExec graph;
  ASSERT_TRUE(device_->end_capture(stream, graph).ok());
  EXPECT_FALSE(device_->capturing(stream));
}

// Where both happen at once the driver breaks the capture off, or crashes.
TEST_F(CudaDeviceTest, CapturesWhileDecodersAreMadeAndDestroyed) {
  std::string why;
  const NvdecLibrary* const library = nvdec_library(&why);
  if (library == nullptr) GTEST_SKIP() << why;
  std::atomic<bool> over{false};
  std::thread decoders([&] {
    ASSERT_TRUE(device_->select().ok());
    for (int i = 0; i < 10; ++i) {
      CUVIDDECODECREATEINFO info{};
      info.CodecType = cudaVideoCodec_H264;
      info.ChromaFormat = cudaVideoChromaFormat_420;
      info.OutputFormat = cudaVideoSurfaceFormat_NV12;
      info.ulNumDecodeSurfaces = info.ulNumOutputSurfaces = 2;
      info.ulWidth = info.ulMaxWidth = info.ulTargetWidth = 640;
      info.ulHeight = info.ulMaxHeight = info.ulTargetHeight = 480;
      info.display_area.right = 640;
      info.display_area.bottom = 480;
      std::unique_ptr<DecodingSession> made;
      EXPECT_EQ(make_nvdec_session(*library, *device_, info, made), CUDA_SUCCESS);
    }
    over = true;
  });
  const Stream stream = device_->make_stream("test");
  const DeviceBuffer memory = device_->allocate_device(kSize);
  int captured = 0;
  while (!over) {
    GraphExec graph;
    ASSERT_TRUE(device_->begin_capture(stream).ok());
    EXPECT_TRUE(device_->clear(memory.data(), kSize, stream).ok());
    ASSERT_TRUE(device_->end_capture(stream, graph).ok());
    EXPECT_TRUE(device_->launch(graph, stream).ok());
    EXPECT_TRUE(device_->synchronize(stream.ref()).ok());
    ++captured;
    std::this_thread::yield();
  }
  decoders.join();
  EXPECT_GT(captured, 10);
  EXPECT_TRUE(device_->status().ok());
}

// As a library does that knows only the driver: in the mode that minds all threads (CU_STREAM_CAPTURE_MODE_GLOBAL).
TEST_F(CudaDeviceTest, LaunchesAndAllocatesWhileAnotherLibraryCaptures) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  ASSERT_NE(driver, nullptr);
  const auto begin = reinterpret_cast<int (*)(void*, int)>(::dlsym(driver, "cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<int (*)(void*, void**)>(::dlsym(driver, "cuStreamEndCapture"));
  const auto destroy = reinterpret_cast<int (*)(void*)>(::dlsym(driver, "cuGraphDestroy"));
  ASSERT_TRUE(begin != nullptr && end != nullptr && destroy != nullptr);
  test::run_a_graph_of_two_streams(*device_);  // what is loaded at a first use
  const Stream others = device_->make_stream("another library's");
  ASSERT_TRUE(device_->select().ok());
  ASSERT_EQ(begin(others.ref().native(), 0), 0);
  // On a thread that has asked CUDA for nothing yet.
  std::thread([&] { test::run_a_graph_of_two_streams(*device_); }).join();
  void* graph = nullptr;
  EXPECT_EQ(end(others.ref().native(), &graph), 0);
  EXPECT_EQ(destroy(graph), 0);
  (void)::dlclose(driver);
}

// A driver that lets streams write words of 64 bits lets them write words of 32.
TEST_F(CudaDeviceTest, HasSignalsWhereTheDriverSaysThatStreamsCanWrite) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  ASSERT_NE(driver, nullptr);
  const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(::dlsym(driver, "cuDeviceGetAttribute"));
  ASSERT_NE(attribute, nullptr);
  constexpr int kCanUse64BitStreamMemOps = 122;
  int can = 0;
  ASSERT_EQ(attribute(&can, kCanUse64BitStreamMemOps, 0), 0);
  (void)::dlclose(driver);
  if (can == 0) GTEST_SKIP() << "this driver has no writes by a stream";
  EXPECT_TRUE(device_->supports_signals());
}

TEST_F(CudaDeviceTest, ASignalThatHasGoneLeavesItsWordToTheNextOne) {
  if (!device_->supports_signals()) GTEST_SKIP() << "this driver has no writes by a stream";
  const std::size_t before = device_->allocated_bytes();
  for (int i = 0; i < 1000; ++i) (void)device_->make_signal();
  EXPECT_EQ(device_->allocated_bytes(), before);
}

TEST_F(CudaDeviceTest, AGraphThatAwaitsASignalReadsWhatWasUploadedBeforeItWasRaised) {
  if (!device_->supports_signals()) GTEST_SKIP() << "this driver has no writes by a stream";
  test::run_a_graph_that_awaits_its_upload(*device_);
}

TEST_F(CudaDeviceTest, AFenceThatWasNeverSignalledHoldsNobodyUp) {
  test::a_fence_that_was_never_signalled_holds_nobody_up(*device_);
}

TEST_F(CudaDeviceTest, AFenceMeansTheWorkInFrontOfItsLatestSignal) {
  test::a_fence_means_the_work_in_front_of_its_latest_signal(*device_);
}

TEST_F(CudaDeviceTest, CountsTheMemoryItHolds) {
  const std::size_t before = device_->allocated_bytes();
  {
    const DeviceBuffer memory = device_->allocate_device(kSize);
    EXPECT_EQ(device_->allocated_bytes(), before + kSize);
  }
  EXPECT_EQ(device_->allocated_bytes(), before);
}

TEST_F(CudaDeviceTest, MemoryThatIsNotThereIsAnErrorAndTheDeviceGoesOn) {
  EXPECT_THROW((void)device_->allocate_device(std::size_t{1} << 50), base::Error);
  EXPECT_TRUE(device_->status().ok());
  (void)device_->allocate_device(kSize);
}

struct Fault {
  std::string call;
  int error = 0;
};
int inject(const char* call, void* argument) noexcept {
  const auto* fault = static_cast<const Fault*>(argument);
  return fault->call == call ? fault->error : 0;
}
constexpr int kIllegalAddress = 700;
constexpr int kOutOfMemory = 2;

TEST_F(CudaDeviceTest, TheFirstErrorStaysAndEverythingAfterItReturnsIt) {
  Fault fault;
  CudaDeviceOptions options;
  options.fault = inject;
  options.fault_argument = &fault;
  const auto device = make_cuda_device(0, options);
  const Stream stream = device->make_stream("test");
  Event event = device->make_event();
  ASSERT_TRUE(device->record(event, stream).ok());
  fault = {"cudaEventRecord", kIllegalAddress};
  const Status failed = device->record(event, stream);
  EXPECT_EQ(failed.kind(), base::ErrorKind::kDeviceLost);
  EXPECT_THAT(failed.message(), HasSubstr("cudaEventRecord"));
  fault = {};
  EXPECT_EQ(device->record(event, stream).message(), failed.message());
  EXPECT_EQ(device->wait(event, stream).message(), failed.message());
  EXPECT_EQ(device->synchronize(event).message(), failed.message());
  EXPECT_EQ(device->status().message(), failed.message());
  EXPECT_TRUE(device->reached(event)) << "nobody shall wait for a lost device";
}

// A stream that has failed writes no word.
TEST_F(CudaDeviceTest, AFenceIsNotWaitedForWhereItsStreamHasFailed) {
  if (!device_->supports_signals()) GTEST_SKIP() << "this driver has no writes by a stream";
  Fault fault;
  CudaDeviceOptions options;
  options.fault = inject;
  options.fault_argument = &fault;
  const auto device = make_cuda_device(0, options);
  const Stream stream = device->make_stream("test"), other = device_->make_stream("other");
  Signal held = device_->make_signal();
  Fence fence = device->make_fence();
  ASSERT_TRUE(device->await(held, nullptr, stream).ok());
  ASSERT_TRUE(device->signal(fence, stream).ok());
  fault = {"cudaStreamQuery", kIllegalAddress};
  const Status failed = device->synchronize(fence);
  EXPECT_EQ(failed.kind(), base::ErrorKind::kDeviceLost);
  EXPECT_THAT(failed.message(), HasSubstr("cudaStreamQuery"));
  ASSERT_TRUE(device_->raise(held, 1, other).ok());  // so that the stream comes to its end
}

TEST_F(CudaDeviceTest, PageLockingThatFailsIsAnErrorAndNeverPageableMemory) {
  Fault fault{"cudaHostAlloc", kOutOfMemory};
  CudaDeviceOptions options;
  options.fault = inject;
  options.fault_argument = &fault;
  const auto device = make_cuda_device(0, options);
  EXPECT_THROW((void)device->allocate_host(HostMemory::kPinned, kSize), base::Error);
  EXPECT_TRUE(device->status().ok());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::device
