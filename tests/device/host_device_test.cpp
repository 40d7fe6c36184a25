// The host device against its contract.
#include "device/host_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

namespace camd::device {
namespace CAMD_TEST_FILE {

using base::ErrorKind;
using std::chrono::milliseconds;

// Holds a stream's thread inside a call until it is opened.
class Gate {
 public:
  static void wait(void* gate) noexcept {
    auto& self = *static_cast<Gate*>(gate);
    const base::MutexLock lock(self.mutex_);
    self.inside_ = true;
    self.changed_.notify_all();
    while (!self.open_) self.changed_.wait(self.mutex_);
  }
  void open() {
    const base::MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_until_inside() {
    const base::MutexLock lock(mutex_);
    while (!inside_) changed_.wait(mutex_);
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool open_ CAMD_GUARDED_BY(mutex_) = false;
  bool inside_ CAMD_GUARDED_BY(mutex_) = false;
};

struct Appender {
  std::vector<int>* list;
  int value;
  static void run(void* self) noexcept {
    auto& me = *static_cast<Appender*>(self);
    me.list->push_back(me.value);
  }
};

// Both with threads of the streams' own and with waiters that run the work: what can be observed is the same.
class HostDeviceTest : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] HostDeviceOptions options() const {
    HostDeviceOptions options;
    options.stream_threads = GetParam();
    return options;
  }
  Gate gate_;  // first, so that streams, which may still be leaving it, are destroyed before
  base::ManualClock clock_;
  std::unique_ptr<HostDevice> device_ = make_host_device(clock_, options());
};

TEST_P(HostDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device_->info().kind, DeviceKind::kHost);
  EXPECT_EQ(device_->info().name, "host");
  EXPECT_TRUE(device_->info().works_in_host_memory);
  EXPECT_EQ(device_->info().default_depth, 1);
  EXPECT_TRUE(device_->info().integrated);
  EXPECT_EQ(device_->info().asynchronous, GetParam());
  EXPECT_GT(device_->info().memory_bytes, 0U);
  EXPECT_TRUE(device_->status().ok());
}

TEST_P(HostDeviceTest, AlignsItsMemoryAndCountsWhatIsTheDevices) {
  const HostBuffer pinned = device_->allocate_host(HostMemory::kPinned, 100);
  const HostBuffer mapped = device_->allocate_host(HostMemory::kMapped, 5000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pinned.data()) % 4096, 0U);
  EXPECT_EQ(pinned.size_bytes(), 100U);
  EXPECT_EQ(pinned.device_data(), nullptr);
  EXPECT_EQ(mapped.device_data(), mapped.data());
  EXPECT_EQ(device_->allocated_bytes(), 0U);
  {
    const DeviceBuffer buffer = device_->allocate_device(1000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0U);
    EXPECT_EQ(device_->allocated_bytes(), 1000U);
  }
  EXPECT_EQ(device_->allocated_bytes(), 0U);
}

TEST_P(HostDeviceTest, RegistersMemoryOfOthersWithoutCopyingIt) {
  std::array<std::byte, 64> memory{};
  const HostBuffer mapped = device_->register_host(memory.data(), memory.size(), HostMemory::kMapped);
  EXPECT_EQ(mapped.data(), memory.data());
  EXPECT_EQ(mapped.device_data(), memory.data());
  EXPECT_THROW((void)device_->register_host(nullptr, 64, HostMemory::kPinned), base::Error);
}

TEST_P(HostDeviceTest, RefusesMemoryThatCannotBeHad) {
  try {
    (void)device_->allocate_host(HostMemory::kPinned, SIZE_MAX - 10);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDevice);
    EXPECT_THAT(error.what(), testing::HasSubstr(std::to_string(SIZE_MAX - 10)));
  }
}

TEST_P(HostDeviceTest, RunsAStreamsWorkInOrder) {
  const Stream stream = device_->make_stream("order");
  std::vector<int> list;
  std::vector<Appender> work;
  work.reserve(500);
  for (int i = 0; i < 500; ++i) work.push_back({&list, i});
  for (Appender& item : work) ASSERT_TRUE(device_->call(&Appender::run, &item, stream).ok());
  ASSERT_TRUE(device_->synchronize(stream).ok());
  ASSERT_EQ(list.size(), 500U);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(list[static_cast<std::size_t>(i)], i);
}

TEST_P(HostDeviceTest, CopiesLaterThanTheCallThatEnqueuesIt) {
  const Stream stream = device_->make_stream("copy");
  int from = 7;
  int to = 0;
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, stream).ok());
  ASSERT_TRUE(device_->copy(&to, &from, sizeof from, CopyKind::kHostToDevice, stream).ok());
  EXPECT_EQ(to, 0);
  gate_.open();
  ASSERT_TRUE(device_->synchronize(stream).ok());
  EXPECT_EQ(to, 7);
}

TEST_P(HostDeviceTest, CopiesNothingFromNowhere) {
  const Stream stream = device_->make_stream("copy");
  ASSERT_TRUE(device_->copy(nullptr, nullptr, 0, CopyKind::kHostToDevice, stream).ok());
  EXPECT_TRUE(device_->synchronize(stream).ok());
}

TEST_P(HostDeviceTest, EventIsReachedWhenTheWorkBeforeItIsDone) {
  const Stream stream = device_->make_stream("event");
  Event event = device_->make_event();
  EXPECT_TRUE(device_->reached(event));  // never recorded
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, stream).ok());
  ASSERT_TRUE(device_->record(event, stream).ok());
  EXPECT_FALSE(device_->reached(event));
  gate_.open();
  ASSERT_TRUE(device_->synchronize(event).ok());
  EXPECT_TRUE(device_->reached(event));
}

TEST_P(HostDeviceTest, EventDoesNotWaitForWorkEnqueuedAfterIt) {
  const Stream stream = device_->make_stream("event");
  Event event = device_->make_event();
  int from = 1;
  int to = 0;
  ASSERT_TRUE(device_->copy(&to, &from, sizeof from, CopyKind::kHostToDevice, stream).ok());
  ASSERT_TRUE(device_->record(event, stream).ok());
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, stream).ok());
  ASSERT_TRUE(device_->synchronize(event).ok());
  EXPECT_EQ(to, 1);
  gate_.open();
}

TEST_P(HostDeviceTest, WaitOrdersOneStreamBehindAnother) {
  const Stream first = device_->make_stream("first");
  const Stream second = device_->make_stream("second");
  Event uploaded = device_->make_event();
  int source = 42;
  int middle = 0;
  int result = 0;
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, first).ok());
  ASSERT_TRUE(device_->copy(&middle, &source, sizeof source, CopyKind::kHostToDevice, first).ok());
  ASSERT_TRUE(device_->record(uploaded, first).ok());
  ASSERT_TRUE(device_->wait(uploaded, second).ok());
  ASSERT_TRUE(device_->copy(&result, &middle, sizeof middle, CopyKind::kDeviceToHost, second).ok());
  gate_.open();
  ASSERT_TRUE(device_->synchronize(second).ok());
  EXPECT_EQ(result, 42);
}

TEST_P(HostDeviceTest, WaitMeansTheRecordThatWasLatestWhenItWasCalled) {
  const Stream slow = device_->make_stream("slow");
  const Stream waiting = device_->make_stream("waiting");
  Event event = device_->make_event();
  ASSERT_TRUE(device_->record(event, slow).ok());
  ASSERT_TRUE(device_->wait(event, waiting).ok());
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, slow).ok());
  ASSERT_TRUE(device_->record(event, slow).ok());  // the wait above does not mean this one
  ASSERT_TRUE(device_->synchronize(waiting).ok());
  EXPECT_FALSE(device_->reached(event));
  gate_.open();
}

TEST_P(HostDeviceTest, RecordInAnotherStreamDoesNotReleaseAnEarlierWait) {
  const Stream slow = device_->make_stream("slow");
  const Stream fast = device_->make_stream("fast");
  const Stream waiting = device_->make_stream("waiting");
  Event event = device_->make_event();
  Event passed = device_->make_event();
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, slow).ok());
  ASSERT_TRUE(device_->record(event, slow).ok());
  ASSERT_TRUE(device_->wait(event, waiting).ok());
  ASSERT_TRUE(device_->record(passed, waiting).ok());
  ASSERT_TRUE(device_->record(event, fast).ok());
  ASSERT_TRUE(device_->synchronize(event).ok());
  EXPECT_FALSE(device_->reached(passed));
  gate_.open();
  ASSERT_TRUE(device_->synchronize(passed).ok());
}

TEST_P(HostDeviceTest, MeasuresBetweenTimedEventsOnItsClock) {
  const Stream stream = device_->make_stream("timed");
  TimedEvent from = device_->make_timed_event();
  TimedEvent to = device_->make_timed_event();
  EXPECT_EQ(device_->elapsed(from, to), Duration::zero());
  ASSERT_TRUE(device_->record(from, stream).ok());
  ASSERT_TRUE(device_->synchronize(stream).ok());
  EXPECT_EQ(device_->elapsed(from, to), Duration::zero());
  clock_.advance(milliseconds(5));
  ASSERT_TRUE(device_->record(to, stream).ok());
  ASSERT_TRUE(device_->synchronize(stream).ok());
  EXPECT_EQ(device_->elapsed(from, to), milliseconds(5));
}

TEST_P(HostDeviceTest, TimedEventMayBeDestroyedWhileItsRecordIsUnderWay) {
  const Stream stream = device_->make_stream("timed");
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, stream).ok());
  {
    TimedEvent event = device_->make_timed_event();
    ASSERT_TRUE(device_->record(event, stream).ok());
  }
  gate_.open();
  EXPECT_TRUE(device_->synchronize(stream).ok());
}

TEST_P(HostDeviceTest, NewTimedEventHasNoTimeOfOnesThatAreGone) {
  const Stream stream = device_->make_stream("timed");
  TimedEvent zero = device_->make_timed_event();
  ASSERT_TRUE(device_->record(zero, stream).ok());
  {
    TimedEvent gone = device_->make_timed_event();
    ASSERT_TRUE(device_->record(gone, stream).ok());
    ASSERT_TRUE(device_->synchronize(stream).ok());
  }
  clock_.advance(milliseconds(5));
  TimedEvent event = device_->make_timed_event();
  EXPECT_EQ(device_->elapsed(zero, event), Duration::zero());
  ASSERT_TRUE(device_->record(event, stream).ok());
  ASSERT_TRUE(device_->synchronize(stream).ok());
  EXPECT_EQ(device_->elapsed(zero, event), milliseconds(5));
}

TEST_P(HostDeviceTest, NewTimedEventIsApartFromARecordThatOneThatIsGoneHasUnderWay) {
  const Stream held = device_->make_stream("held");
  const Stream stream = device_->make_stream("timed");
  TimedEvent zero = device_->make_timed_event();
  ASSERT_TRUE(device_->record(zero, stream).ok());
  ASSERT_TRUE(device_->synchronize(stream).ok());
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, held).ok());
  {
    TimedEvent gone = device_->make_timed_event();
    ASSERT_TRUE(device_->record(gone, held).ok());
  }
  TimedEvent event = device_->make_timed_event();
  clock_.advance(milliseconds(5));
  ASSERT_TRUE(device_->record(event, stream).ok());
  ASSERT_TRUE(device_->synchronize(stream).ok());
  clock_.advance(milliseconds(5));
  gate_.open();
  ASSERT_TRUE(device_->synchronize(held).ok());
  EXPECT_EQ(device_->elapsed(zero, event), milliseconds(5));
}

TEST_P(HostDeviceTest, EventOfAStreamThatIsGoneStaysReachedWhileTheNextStreamWorks) {
  Event before = device_->make_event();
  {
    const Stream stream = device_->make_stream("first");
    ASSERT_TRUE(device_->record(before, stream).ok());
  }
  const Stream stream = device_->make_stream("second");
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, stream).ok());
  Event after = device_->make_event();
  ASSERT_TRUE(device_->record(after, stream).ok());
  EXPECT_TRUE(device_->reached(before));
  EXPECT_FALSE(device_->reached(after));
  gate_.open();
  ASSERT_TRUE(device_->synchronize(after).ok());
  EXPECT_TRUE(device_->reached(after));
}

TEST_P(HostDeviceTest, EventOutlivesItsStream) {
  Event event = device_->make_event();
  {
    const Stream stream = device_->make_stream("short");
    ASSERT_TRUE(device_->record(event, stream).ok());
  }
  EXPECT_TRUE(device_->reached(event));
  EXPECT_TRUE(device_->synchronize(event).ok());
}

TEST_P(HostDeviceTest, DestroyingAStreamFinishesItsWork) {
  int from = 3;
  int to = 0;
  {
    const Stream stream = device_->make_stream("finish");
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(device_->copy(&to, &from, sizeof from, CopyKind::kHostToDevice, stream).ok());
    }
  }
  EXPECT_EQ(to, 3);
}

TEST_P(HostDeviceTest, RefusesMoreWorkThanItsQueueHoldsAndGoesOn) {
  HostDeviceOptions small = options();
  small.queue_capacity = 3;
  device_ = make_host_device(clock_, small);
  const int from = 1;
  int to = 0;
  const Stream stream = device_->make_stream("bounded");  // last: it copies until it is destroyed
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, stream).ok());
  ASSERT_TRUE(device_->copy(&to, &from, sizeof from, CopyKind::kHostToDevice, stream).ok());
  ASSERT_TRUE(device_->copy(&to, &from, sizeof from, CopyKind::kHostToDevice, stream).ok());
  const Status refused = device_->copy(&to, &from, sizeof from, CopyKind::kHostToDevice, stream);
  EXPECT_EQ(refused.kind(), ErrorKind::kInternal);
  EXPECT_THAT(refused.message(), testing::HasSubstr("\"bounded\""));
  gate_.open();
  ASSERT_TRUE(device_->synchronize(stream).ok());
  EXPECT_TRUE(device_->copy(&to, &from, sizeof from, CopyKind::kHostToDevice, stream).ok());
  EXPECT_TRUE(device_->status().ok());
}

TEST_P(HostDeviceTest, KeepsTheOrderOfAQueueThatIsNeverEmpty) {
  constexpr int kItems = 10;
  HostDeviceOptions small = options();
  small.queue_capacity = 3;
  device_ = make_host_device(clock_, small);
  std::vector<int> list;
  std::vector<int> in_order;
  std::vector<Appender> items;
  std::vector<Event> passed;
  for (int i = 0; i < kItems; ++i) {
    in_order.push_back(i);
    items.push_back({&list, i});
    passed.push_back(device_->make_event());
  }
  const Stream stream = device_->make_stream("round");
  for (std::size_t i = 0; i < kItems; ++i) {
    // The one before may still be there: a queue without a thread then goes round.
    if (i >= 2) {
      ASSERT_TRUE(device_->synchronize(passed[i - 2]).ok());
    }
    ASSERT_TRUE(device_->call(&Appender::run, &items[i], stream).ok());
    ASSERT_TRUE(device_->record(passed[i], stream).ok());
  }
  ASSERT_TRUE(device_->synchronize(stream).ok());
  EXPECT_EQ(list, in_order);
}

TEST_P(HostDeviceTest, LostDeviceAnswersEveryCallWithItsFirstFailure) {
  const Stream stream = device_->make_stream("lost");
  Event event = device_->make_event();
  TimedEvent timed = device_->make_timed_event();
  device_->inject_failure({ErrorKind::kDeviceLost, "the first"});
  device_->inject_failure({ErrorKind::kDeviceLost, "the second"});
  int value = 0;
  for (const Status& status :
       {device_->copy(&value, &value, 0, CopyKind::kHostToDevice, stream), device_->record(event, stream),
        device_->record(timed, stream), device_->wait(event, stream), device_->call(&Gate::wait, nullptr, stream),
        device_->synchronize(event), device_->synchronize(stream), device_->status()}) {
    EXPECT_EQ(status.kind(), ErrorKind::kDeviceLost);
    EXPECT_EQ(status.message(), "the first");
  }
}

TEST_P(HostDeviceTest, LostDeviceLetsWaitersGoOnceTheRunningOperationHasEnded) {
  const Stream first = device_->make_stream("first");
  const Stream second = device_->make_stream("second");
  Event event = device_->make_event();
  Event behind = device_->make_event();
  int from = 1;
  int to = 0;
  ASSERT_TRUE(device_->call(&Gate::wait, &gate_, first).ok());
  ASSERT_TRUE(device_->copy(&to, &from, sizeof from, CopyKind::kHostToDevice, first).ok());
  ASSERT_TRUE(device_->record(event, first).ok());
  ASSERT_TRUE(device_->wait(event, second).ok());
  ASSERT_TRUE(device_->record(behind, second).ok());
  auto waiter = std::async(std::launch::async, [&] { return device_->synchronize(behind).kind(); });
  gate_.wait_until_inside();
  device_->inject_failure({ErrorKind::kDeviceLost, "gone"});
  EXPECT_FALSE(device_->reached(event));  // the call is still running and may touch memory
  gate_.open();
  EXPECT_EQ(waiter.get(), ErrorKind::kDeviceLost);
  EXPECT_TRUE(device_->reached(event));
  EXPECT_TRUE(device_->reached(behind));
  EXPECT_EQ(to, 0);  // what was queued was discarded
}

TEST_P(HostDeviceTest, FailsAtTheOperationThatATestAskedFor) {
  HostDeviceOptions failing = options();
  failing.fail_at_operation = 2;
  device_ = make_host_device(clock_, failing);
  const Stream stream = device_->make_stream("failing");
  std::array<int, 4> to{};
  const int from = 1;
  for (int& value : to) {
    // The failure may already be known when the last ones are enqueued.
    (void)device_->copy(&value, &from, sizeof from, CopyKind::kHostToDevice, stream);
  }
  EXPECT_EQ(device_->synchronize(stream).kind(), ErrorKind::kDeviceLost);
  EXPECT_THAT(to, testing::ElementsAre(1, 1, 0, 0));
}

TEST_P(HostDeviceTest, PipelinesOfThreeStreamsKeepEveryFramesBytesApart) {
  constexpr int kFrames = 2000;
  constexpr int kInFlight = 3;
  const Stream upload = device_->make_stream("up");
  const Stream compute = device_->make_stream("run");
  const Stream download = device_->make_stream("down");
  struct InFlight {
    explicit InFlight(Device& device)
        : uploaded(device.make_event()), computed(device.make_event()), downloaded(device.make_event()) {}
    Event uploaded, computed, downloaded;
    int host_in = 0, device_in = 0, device_out = 0, host_out = 0;
    static void square(void* self) noexcept {
      auto& frame = *static_cast<InFlight*>(self);
      frame.device_out = frame.device_in * frame.device_in;
    }
  };
  std::vector<std::unique_ptr<InFlight>> frames;
  frames.reserve(kInFlight);
  for (int i = 0; i < kInFlight; ++i) frames.push_back(std::make_unique<InFlight>(*device_));
  for (int i = 0; i < kFrames + kInFlight; ++i) {
    InFlight& frame = *frames[static_cast<std::size_t>(i % kInFlight)];
    if (i >= kInFlight) {
      ASSERT_TRUE(device_->synchronize(frame.downloaded).ok());
      ASSERT_EQ(frame.host_out, (i - kInFlight) * (i - kInFlight));
    }
    frame.host_in = i;
    ASSERT_TRUE(device_->copy(&frame.device_in, &frame.host_in, sizeof(int), CopyKind::kHostToDevice, upload).ok());
    ASSERT_TRUE(device_->record(frame.uploaded, upload).ok());
    ASSERT_TRUE(device_->wait(frame.uploaded, compute).ok());
    ASSERT_TRUE(device_->call(&InFlight::square, &frame, compute).ok());
    ASSERT_TRUE(device_->record(frame.computed, compute).ok());
    ASSERT_TRUE(device_->wait(frame.computed, download).ok());
    ASSERT_TRUE(device_->copy(&frame.host_out, &frame.device_out, sizeof(int), CopyKind::kDeviceToHost, download).ok());
    ASSERT_TRUE(device_->record(frame.downloaded, download).ok());
  }
  ASSERT_TRUE(device_->synchronize(download).ok());
}

INSTANTIATE_TEST_SUITE_P(Streams, HostDeviceTest, testing::Bool(), [](const auto& with_threads) {
  return std::string(with_threads.param ? "WithThreads" : "RunByWaiters");
});

TEST(HostStream, HandsItsWorkOnToAWaiterThatWantsMoreWhenTheOneThatRunsItHasEnough) {
  constexpr int kRounds = 500;  // either may be the first to wait; a waiter that is forgotten waits for ever
  const auto device = make_host_device(base::system_clock());
  const Stream stream = device->make_stream("shared");
  Event middle = device->make_event();
  std::vector<int> list;
  Appender item{&list, 1};
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(device->call(&Appender::run, &item, stream).ok());
    ASSERT_TRUE(device->record(middle, stream).ok());
    ASSERT_TRUE(device->call(&Appender::run, &item, stream).ok());
    auto wants_less = std::async(std::launch::async, [&] { return device->synchronize(middle).ok(); });
    ASSERT_TRUE(device->synchronize(stream).ok());
    EXPECT_TRUE(wants_less.get());
  }
  EXPECT_EQ(list.size(), 2U * kRounds);
}

TEST(HostStream, RunsItsWorkBesideTheOneWhoEnqueuedItWhereItHasAThread) {
  Gate gate;
  HostDeviceOptions options;
  options.stream_threads = true;
  const auto device = make_host_device(base::system_clock(), options);
  const Stream stream = device->make_stream("beside");
  ASSERT_TRUE(device->call(&Gate::wait, &gate, stream).ok());
  gate.wait_until_inside();  // nobody has waited for the stream
  gate.open();
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::device
