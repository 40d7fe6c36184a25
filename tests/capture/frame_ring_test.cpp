#include "capture/frame_ring.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "capture_fixtures.hpp"
#include "config/key_table.hpp"
#include "device/host_device.hpp"
#include "tests/support/spin.hpp"

namespace camd::capture {
namespace CAMD_TEST_FILE {

using base::PixelFormat;
using testing::CountingObserver;
using testing::eventually;

base::TimePoint at_ms(int ms) { return base::from_ns(std::int64_t{ms} * 1'000'000); }

// `pipeline.slots: 2` passed the check and ended the start.
TEST(FrameRingSlots, TheFewestThatAConfigurationMayAskForAreTheFewestThatARingTakes) {
  const config::KeyRow* row = config::find_row(config::config_keys(), "pipeline.slots");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->min, std::to_string(FrameRing::kLeastSlots));
  const auto device = device::make_host_device(base::system_clock());
  CountingObserver observer;
  FrameRing::Options options;
  options.slots = FrameRing::kLeastSlots;
  EXPECT_NO_THROW(FrameRing(*device, observer, options));
  options.slots = FrameRing::kLeastSlots - 1;
  EXPECT_THROW(FrameRing(*device, observer, options), base::Error);
}

class FrameRingTest : public ::testing::Test {
 protected:
  FrameRing& make(RingPolicy policy, int slots = 3, device::HostMemory memory = device::HostMemory::kPinned) {
    ring_ = std::make_unique<FrameRing>(*device_, observer_, FrameRing::Options{7, slots, policy, memory});
    return *ring_;
  }
  // A frame of one byte that holds its sequence number.
  bool produce(base::TimePoint arrived = at_ms(2)) {
    auto lease = ring_->begin();
    if (!lease) return false;
    *lease->data(layout_) = static_cast<std::byte>(lease->sequence());
    lease->publish(at_ms(1), arrived);
    return true;
  }
  // So many frames at 0, period, 2 * period and so on, each taken at once.
  void deliver_in_time(int frames, int period_ms) {
    for (int i = 0; i < frames; ++i) {
      ASSERT_TRUE(produce(at_ms(i * period_ms)));
      ASSERT_TRUE(ring_->take(at_ms(i * period_ms)));
    }
  }
  // Takes what is there at `now`: -1 where nothing is.
  int take_at(int now_ms) {
    const auto lease = ring_->take(at_ms(now_ms));
    return lease ? static_cast<int>(lease->frame().sequence) : -1;
  }
  // Everything that was captured was taken or dropped, and nothing is in a slot.
  void expect_closed_account(int taken) {
    EXPECT_EQ(observer_.captured(), taken + observer_.dropped());
    EXPECT_EQ(ring_->occupied(), 0);
  }

  const base::PictureLayout layout_ = base::tight_layout(PixelFormat::kGray8, 1, 1);
  std::unique_ptr<device::HostDevice> device_ = device::make_host_device(base::system_clock());
  CountingObserver observer_;
  std::unique_ptr<FrameRing> ring_;
};

TEST_F(FrameRingTest, HasAsManyFreeSlotsAsItWasTold) {
  ring_ = std::make_unique<FrameRing>(*device_, observer_,
                                      FrameRing::Options{7, 3, RingPolicy::kLossless, device::HostMemory::kPinned, 6});
  const auto fill_until_full = [&] {
    int filled = 0;
    while (ring_->occupied() < ring_->slots() && produce()) ++filled;
    return filled;
  };
  EXPECT_EQ(fill_until_full(), 3);
  ring_->set_slots(100);
  EXPECT_EQ(ring_->slots(), 6);
  EXPECT_EQ(fill_until_full(), 3);
  // Frames in slots that are no longer filled are still taken, in their order.
  ring_->set_slots(3);
  for (std::uint64_t sequence = 0; sequence < 6; ++sequence) {
    auto lease = ring_->take();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->frame().sequence, sequence);
  }
  EXPECT_EQ(ring_->occupied(), 0);
  EXPECT_EQ(fill_until_full(), 3);
  while (ring_->take()) {
  }
  ring_->set_slots(6);
  EXPECT_EQ(fill_until_full(), 6);
  while (ring_->take()) {
  }
  expect_closed_account(15);
}

TEST_F(FrameRingTest, FillsMemoryThatOthersReadWhereThatIsAskedForAndBorrowsNoneThen) {
  static std::vector<std::weak_ptr<std::byte>> made;
  const SharedMemory shared = [](std::size_t size_bytes) {
    const auto memory = std::make_shared<std::vector<std::byte>>(size_bytes);
    return made.emplace_back(std::shared_ptr<std::byte>(memory, memory->data())).lock();
  };
  make(RingPolicy::kNewestWins);
  ring_->move_to(*device_, device::HostMemory::kPinned, shared);
  EXPECT_FALSE(ring_->may_borrow());
  for (int i = 0; i < 6; ++i) {
    const std::byte* const pixels = ring_->begin()->data(layout_);
    EXPECT_EQ(std::count_if(made.begin(), made.end(), [&](const auto& one) { return one.lock().get() == pixels; }), 1);
  }
  EXPECT_EQ(made.size(), 3U);
  ring_->move_to(*device_, device::HostMemory::kPinned);
  EXPECT_TRUE(ring_->may_borrow());
  for (int i = 0; i < 3; ++i) (void)ring_->begin()->data(layout_);
  for (const auto& one : made) EXPECT_TRUE(one.expired());
}

TEST_F(FrameRingTest, TellsHowTheNewestPictureLies) {
  make(RingPolicy::kNewestWins);
  EXPECT_EQ(ring_->newest_layout(), std::nullopt);
  const auto publish = [this](const base::PictureLayout& layout) {
    auto fill = ring_->begin();
    (void)fill->data(layout);
    fill->publish(at_ms(10), at_ms(12));
  };
  const base::PictureLayout small = base::tight_layout(PixelFormat::kNv12, 4, 2);
  const base::PictureLayout large = base::tight_layout(PixelFormat::kBgr, 8, 8);
  publish(small);
  EXPECT_EQ(ring_->newest_layout(), small);
  publish(large);
  EXPECT_EQ(ring_->newest_layout(), large);
  { const auto taken = ring_->take(); }
  EXPECT_EQ(ring_->newest_layout(), large);
  auto fill = ring_->begin();
  (void)fill->data(small);  // not yet a picture
  EXPECT_EQ(ring_->newest_layout(), large);
}

TEST_F(FrameRingTest, HandsAFrameOverWithAllThatItIs) {
  make(RingPolicy::kNewestWins);
  const base::PictureLayout layout = base::tight_layout(PixelFormat::kNv12, 4, 2);
  {
    auto fill = ring_->begin();
    ASSERT_TRUE(fill);
    EXPECT_EQ(fill->sequence(), 0U);
    std::memset(fill->data(layout), 9, layout.size_bytes);
    fill->publish(at_ms(10), at_ms(12));
  }
  EXPECT_TRUE(ring_->has_ready());
  const auto lease = ring_->take();
  ASSERT_TRUE(lease);
  const Frame& frame = lease->frame();
  EXPECT_EQ(frame.camera, 7U);
  EXPECT_EQ(frame.sequence, 0U);
  EXPECT_TRUE(frame.layout == layout);
  EXPECT_EQ(frame.captured, at_ms(10));
  EXPECT_EQ(frame.arrived, at_ms(12));
  ASSERT_EQ(frame.pixels.size(), layout.size_bytes);
  EXPECT_EQ(frame.pixels.back(), std::byte{9});
  EXPECT_EQ(lease->device_pixels(), nullptr);
  EXPECT_FALSE(ring_->take());
}

TEST_F(FrameRingTest, SupersedesOldestReadyWhenFull) {
  make(RingPolicy::kNewestWins);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(produce());
  EXPECT_EQ(observer_.dropped(RingDrop::kSuperseded), 1);
  EXPECT_EQ(ring_->occupied(), 3);
}

TEST_F(FrameRingTest, TakesTheNewestAndSupersedesTheOlder) {
  make(RingPolicy::kNewestWins);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(produce());
  {
    const auto lease = ring_->take();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->frame().sequence, 2U);
    EXPECT_EQ(lease->frame().pixels[0], std::byte{2});
    EXPECT_EQ(ring_->occupied(), 1);
  }
  EXPECT_EQ(observer_.dropped(RingDrop::kSuperseded), 2);
  expect_closed_account(1);
}

TEST_F(FrameRingTest, TakesBothOfTwoFramesThatComeAtOnceWhileTheFirstHasWaitedForLessThanAPeriod) {
  make(RingPolicy::kNewestWins);
  deliver_in_time(20, 10);
  ASSERT_TRUE(produce(at_ms(210)));
  ASSERT_TRUE(produce(at_ms(211)));
  EXPECT_EQ(take_at(219), 20);
  EXPECT_EQ(take_at(219), 21);
  EXPECT_EQ(take_at(219), -1);
  EXPECT_EQ(observer_.dropped(), 0);
}

TEST_F(FrameRingTest, SupersedesAFrameThatHasWaitedForAPeriodWhereANewerOneIsThere) {
  make(RingPolicy::kNewestWins);
  deliver_in_time(20, 10);
  ASSERT_TRUE(produce(at_ms(200)));
  ASSERT_TRUE(produce(at_ms(210)));
  EXPECT_EQ(take_at(210), 21);
  EXPECT_EQ(observer_.dropped(RingDrop::kSuperseded), 1);
  ASSERT_TRUE(produce(at_ms(220)));
  EXPECT_EQ(take_at(500), 22);  // there is no newer one
  expect_closed_account(22);
}

TEST_F(FrameRingTest, KnowsAPeriodByPausesAndBurstsTogether) {
  make(RingPolicy::kNewestWins);
  for (int i = 0; i < 20; i += 2) {  // two at once every 20 ms
    ASSERT_TRUE(produce(at_ms(i * 10)));
    ASSERT_TRUE(ring_->take());
    ASSERT_TRUE(produce(at_ms(i * 10)));
    ASSERT_TRUE(ring_->take());
  }
  ASSERT_TRUE(produce(at_ms(200)));
  ASSERT_TRUE(produce(at_ms(200)));
  EXPECT_EQ(take_at(209), 20);
  EXPECT_EQ(take_at(209), 21);
}

TEST_F(FrameRingTest, TakesTheNewestBeforeAPeriodIsKnownAndAfterAnotherSourceHasBegun) {
  make(RingPolicy::kNewestWins);
  deliver_in_time(14, 10);
  ASSERT_TRUE(produce(at_ms(140)));
  ASSERT_TRUE(produce(at_ms(141)));
  EXPECT_EQ(take_at(141), 15);
  deliver_in_time(20, 10);
  ring_->close(false);
  ring_->reopen();
  ASSERT_TRUE(produce(at_ms(210)));
  ASSERT_TRUE(produce(at_ms(211)));
  EXPECT_EQ(take_at(211), 37);
}

TEST_F(FrameRingTest, TakesTheNewestWhileACameraLosesFrames) {
  make(RingPolicy::kNewestWins);
  deliver_in_time(20, 10);
  for (int i = 20; i < 22; ++i) ASSERT_TRUE(produce(at_ms(i * 10)));
  EXPECT_EQ(take_at(215), 21);  // 20 has waited for more than a period
  for (int i = 22; i < 38; ++i) {
    ASSERT_TRUE(produce(at_ms(i * 10)));
    EXPECT_EQ(take_at(i * 10), i);
  }
  ASSERT_TRUE(produce(at_ms(380)));
  ASSERT_TRUE(produce(at_ms(381)));
  EXPECT_EQ(take_at(382), 38);
  EXPECT_EQ(take_at(382), 39);
  ASSERT_TRUE(produce(at_ms(390)));
  ASSERT_TRUE(produce(at_ms(400)));
  EXPECT_EQ(take_at(405), 41);
  ASSERT_TRUE(produce(at_ms(410)));
  ASSERT_TRUE(produce(at_ms(411)));
  EXPECT_EQ(take_at(412), 43);  // one was lost 17 frames ago or less
  EXPECT_EQ(observer_.dropped(RingDrop::kSuperseded), 3);
}

TEST_F(FrameRingTest, NoFrameIsYoungAfterATenthOfASecondHoweverSeldomTheyCome) {
  make(RingPolicy::kNewestWins);
  deliver_in_time(20, 1000);
  ASSERT_TRUE(produce(at_ms(20'000)));
  ASSERT_TRUE(produce(at_ms(20'001)));
  EXPECT_EQ(take_at(20'099), 20);
  ASSERT_TRUE(produce(at_ms(20'100)));
  EXPECT_EQ(take_at(20'101), 22);
}

TEST_F(FrameRingTest, SupersedesTheArrivingFrameWhenEverySlotIsBeingRead) {
  make(RingPolicy::kNewestWins);
  std::vector<SlotLease> leases;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(produce());
    leases.push_back(*ring_->take());
  }
  EXPECT_FALSE(produce());
  EXPECT_EQ(observer_.captured(), 4);
  EXPECT_EQ(observer_.dropped(RingDrop::kSuperseded), 1);
  leases[0].release();
  ASSERT_TRUE(produce());
  EXPECT_EQ(ring_->take()->frame().sequence, 4U);  // the gap shows the frame that was lost
}

TEST_F(FrameRingTest, NeverWritesASlotThatIsBeingRead) {
  make(RingPolicy::kNewestWins);
  ASSERT_TRUE(produce());
  const auto lease = ring_->take();
  for (int i = 0; i < 20; ++i) (void)produce();
  EXPECT_EQ(lease->frame().sequence, 0U);
  EXPECT_EQ(lease->frame().pixels[0], std::byte{0});
}

TEST_F(FrameRingTest, CountsALeaseWithoutPublishAsSourceError) {
  make(RingPolicy::kNewestWins);
  { const auto lease = ring_->begin(); }
  {
    auto lease = ring_->begin();
    lease->publish(at_ms(1), at_ms(1));  // nothing was filled
  }
  EXPECT_EQ(observer_.dropped(RingDrop::kNotFilled), 2);
  EXPECT_EQ(observer_.ready(), 0);
  expect_closed_account(0);
}

TEST_F(FrameRingTest, NeverSaysThatAFrameArrivedBeforeItWasCaptured) {
  make(RingPolicy::kNewestWins);
  auto fill = ring_->begin();
  (void)fill->data(layout_);
  fill->publish(at_ms(30), at_ms(20));
  EXPECT_EQ(ring_->take()->frame().captured, at_ms(20));
}

TEST_F(FrameRingTest, GrowsASlotForABiggerPictureAndKeepsItForASmaller) {
  make(RingPolicy::kNewestWins);
  const auto big = base::tight_layout(PixelFormat::kBgr, 64, 64);
  const auto fill_and_take = [&](const base::PictureLayout& layout) {
    auto fill = ring_->begin();
    std::byte* const data = fill->data(layout);
    std::memset(data, 1, layout.size_bytes);
    fill->publish(at_ms(1), at_ms(1));
    EXPECT_EQ(ring_->take()->frame().pixels.size(), layout.size_bytes);
    return data;
  };
  std::vector<std::byte*> first;
  for (int i = 0; i < 3; ++i) first.push_back(fill_and_take(layout_));
  EXPECT_THAT(first, ::testing::Each(::testing::Ne(nullptr)));
  std::vector<std::byte*> grown;
  for (int i = 0; i < 3; ++i) grown.push_back(fill_and_take(big));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fill_and_take(layout_), grown[static_cast<std::size_t>(i)]);
}

TEST_F(FrameRingTest, FillsFreeSlotsInTurnSoThatAllHaveTheirMemoryEarly) {
  make(RingPolicy::kNewestWins, 4);
  std::vector<int> slots;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(produce());
    slots.push_back(ring_->take()->slot());
  }
  EXPECT_THAT(slots, ::testing::ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
}

TEST_F(FrameRingTest, MappedSlotsHaveTheDevicesAddress) {
  make(RingPolicy::kNewestWins, 3, device::HostMemory::kMapped);
  ASSERT_TRUE(produce());
  const auto lease = ring_->take();
  EXPECT_EQ(lease->device_pixels(), lease->frame().pixels.data());
}

struct Borrowed {
  std::array<std::byte, 16> bytes{};
  std::atomic<int> released{0};
  static void release(void* self) noexcept { ++static_cast<Borrowed*>(self)->released; }
  BorrowedPixels pixels() { return {bytes.data(), bytes.size(), &Borrowed::release, this}; }
};

TEST_F(FrameRingTest, OnTheHostTheCpuReadsASlotNextWhateverItsMemory) {
  for (const auto memory : {device::HostMemory::kPageable, device::HostMemory::kPinned, device::HostMemory::kMapped}) {
    EXPECT_EQ(make(RingPolicy::kNewestWins, 3, memory).begin()->next_reader(), NextReader::kCpu);
  }
}

TEST_F(FrameRingTest, ReleasesBorrowedPixelsOnceHoweverTheFrameEnds) {
  make(RingPolicy::kNewestWins);
  EXPECT_TRUE(ring_->may_borrow());
  Borrowed taken, superseded, overtaken, abandoned, replaced, shut_down;
  const auto lend = [this](Borrowed& from) {
    auto fill = ring_->begin();
    fill->borrow(layout_, from.pixels());
    fill->publish(at_ms(1), at_ms(1));
  };
  lend(superseded);
  lend(overtaken);
  lend(taken);
  ASSERT_TRUE(produce());  // the ring is full: the oldest goes
  EXPECT_EQ(superseded.released, 1);
  EXPECT_EQ(overtaken.released, 0);
  (void)ring_->take();
  EXPECT_EQ(overtaken.released, 1);
  EXPECT_EQ(taken.released, 1);  // superseded by take() here
  Borrowed read;
  lend(read);
  {
    auto lease = ring_->take();
    EXPECT_EQ(lease->frame().pixels.data(), read.bytes.data());
    EXPECT_EQ(lease->frame().pixels.size(), 1U);
    const SlotLease moved = std::move(*lease);
    EXPECT_EQ(read.released, 0);
  }
  EXPECT_EQ(read.released, 1);
  {
    auto fill = ring_->begin();
    fill->borrow(layout_, abandoned.pixels());
  }
  EXPECT_EQ(abandoned.released, 1);
  {
    auto fill = ring_->begin();
    fill->borrow(layout_, replaced.pixels());
    (void)fill->data(layout_);
    EXPECT_EQ(replaced.released, 1);
  }
  lend(shut_down);
  ring_->close(false);
  EXPECT_EQ(shut_down.released, 1);
  ring_.reset();
  for (const Borrowed* from : {&taken, &superseded, &overtaken, &read, &abandoned, &replaced, &shut_down}) {
    EXPECT_EQ(from->released, 1);
  }
}

TEST_F(FrameRingTest, ASourceFindsASlotWhileSupersededOnesAreGivenBack) {
  make(RingPolicy::kNewestWins);
  struct Source {
    FrameRing& ring;
    std::array<std::byte, 16> bytes{};
    bool found = false;
    static void release(void* self) noexcept {
      auto* source = static_cast<Source*>(self);
      source->found = source->ring.begin().has_value();
    }
  } source{*ring_};
  {
    auto fill = ring_->begin();
    fill->borrow(layout_, {source.bytes.data(), source.bytes.size(), &Source::release, &source});
    fill->publish(at_ms(1), at_ms(1));
  }
  ASSERT_TRUE(produce());
  ASSERT_TRUE(produce());
  const auto newest = ring_->take();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->frame().sequence, 2U);
  EXPECT_TRUE(source.found);
}

TEST_F(FrameRingTest, CloseDropsWhatIsReadyAndWhatComesLaterAsShutdown) {
  make(RingPolicy::kNewestWins);
  ASSERT_TRUE(produce());
  auto filling = ring_->begin();
  (void)filling->data(layout_);
  EXPECT_FALSE(ring_->closed());
  ring_->close(false);
  EXPECT_TRUE(ring_->closed());
  filling->publish(at_ms(1), at_ms(1));
  EXPECT_FALSE(produce());
  EXPECT_FALSE(ring_->take());
  EXPECT_EQ(observer_.dropped(RingDrop::kClosed), 3);
  expect_closed_account(0);
}

TEST_F(FrameRingTest, CloseKeepingReadyFramesLetsThemBeTaken) {
  make(RingPolicy::kLossless);
  ASSERT_TRUE(produce());
  auto filling = ring_->begin();
  (void)filling->data(layout_);
  ring_->close(true);
  filling->publish(at_ms(1), at_ms(1));
  EXPECT_FALSE(produce());
  EXPECT_EQ(ring_->take()->frame().sequence, 0U);
  EXPECT_EQ(ring_->take()->frame().sequence, 1U);
  EXPECT_FALSE(ring_->take());
  EXPECT_EQ(observer_.dropped(RingDrop::kClosed), 1);
  expect_closed_account(2);
}

TEST_F(FrameRingTest, SecondCloseDropsWhatTheFirstKept) {
  make(RingPolicy::kNewestWins);
  ASSERT_TRUE(produce());
  ring_->close(true);
  ring_->close(false);
  EXPECT_EQ(observer_.dropped(RingDrop::kClosed), 1);
  expect_closed_account(0);
}

TEST_F(FrameRingTest, LosslessTakesTheOldestAndDropsNothing) {
  make(RingPolicy::kLossless);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(produce());
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(ring_->take()->frame().sequence, i);
  EXPECT_EQ(observer_.freed(), 3);
  expect_closed_account(3);
}

TEST_F(FrameRingTest, LosslessBeginWaitsForAFreeSlot) {
  make(RingPolicy::kLossless);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(produce());
  std::thread source([this] { EXPECT_TRUE(produce()); });
  ASSERT_TRUE(eventually([this] { return observer_.captured() == 4; }));
  EXPECT_EQ(observer_.ready(), 3);
  EXPECT_EQ(ring_->take()->frame().sequence, 0U);
  source.join();
  for (std::uint64_t i = 1; i < 4; ++i) EXPECT_EQ(ring_->take()->frame().sequence, i);
  expect_closed_account(4);
}

TEST_F(FrameRingTest, LosslessBeginThatWaitsIsWokenByClose) {
  make(RingPolicy::kLossless);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(produce());
  std::thread source([this] { EXPECT_FALSE(produce()); });
  ASSERT_TRUE(eventually([this] { return observer_.captured() == 4; }));
  ring_->close(true);
  source.join();
  EXPECT_EQ(observer_.dropped(RingDrop::kClosed), 1);
}

TEST_F(FrameRingTest, APictureThatWaitsWhileTheRingMovesToADeviceOfItsKindIsStillTaken) {
  const auto other = device::make_host_device(base::system_clock());
  FrameRing& ring = make(RingPolicy::kNewestWins);
  ASSERT_TRUE(produce());
  ring.move_to(*other, device::HostMemory::kPinned);
  EXPECT_EQ(&ring.device(), other.get());
  {
    const auto lease = ring.take();
    ASSERT_TRUE(lease.has_value());
    EXPECT_EQ(lease->frame().sequence, 0U);
  }
  ASSERT_TRUE(produce());  // in memory of the other device
  EXPECT_TRUE(ring.take().has_value());
  expect_closed_account(2);
}

TEST_F(FrameRingTest, APictureOnTheDeviceThatTheRingLeavesIsDroppedAndNotRead) {
  const auto other = device::make_host_device(base::system_clock());
  FrameRing& ring = make(RingPolicy::kNewestWins);
  int given_back = 0;
  const std::byte pixel{};
  auto lease = ring.begin();
  lease->borrow_on_device(layout_, {&pixel, 1, [](void* count) noexcept { ++*static_cast<int*>(count); }, &given_back});
  lease->publish(at_ms(1), at_ms(2));
  ring.move_to(*other, device::HostMemory::kPinned);
  EXPECT_FALSE(ring.take().has_value());
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(observer_.dropped(RingDrop::kMoved), 1);
  expect_closed_account(0);
}

TEST_F(FrameRingTest, OpensAgainForAnotherSourceAndCountsOn) {
  FrameRing& ring = make(RingPolicy::kNewestWins);
  ASSERT_TRUE(produce());
  ring.close(true);
  EXPECT_FALSE(produce());
  ring.reopen();
  EXPECT_FALSE(ring.closed());
  ASSERT_TRUE(produce());
  const auto newest = ring.take();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->frame().sequence, 2U);
}

TEST_F(FrameRingTest, NeedsThreeSlots) { EXPECT_THROW(make(RingPolicy::kNewestWins, 2), base::Error); }

TEST_F(FrameRingTest, CountsAFrameWhoseMemoryCannotBeHad) {
  make(RingPolicy::kNewestWins);
  base::PictureLayout absurd = layout_;
  absurd.size_bytes = SIZE_MAX - 10;
  {
    auto fill = ring_->begin();
    EXPECT_THROW((void)fill->data(absurd), base::Error);
  }
  EXPECT_EQ(observer_.dropped(RingDrop::kNotFilled), 1);
  ASSERT_TRUE(produce());  // the slot is usable again
}

// Sources, dispatcher and readers at random speeds: the account closes, order holds, no picture is torn.
class FrameRingRandomTest : public FrameRingTest,
                            public ::testing::WithParamInterface<std::tuple<RingPolicy, unsigned>> {};

TEST_P(FrameRingRandomTest, KeepsTheAccountWithThreeThreads) {
  constexpr int kFrames = 4000;
  const RingPolicy policy = std::get<0>(GetParam());
  const unsigned seed = std::get<1>(GetParam());
  make(policy, 4);
  const auto picture = base::tight_layout(PixelFormat::kGray8, 32, 4);
  std::atomic<int> lent{0};
  std::atomic<bool> done{false};
  int taken = 0;

  // Mostly busy: where other processes wait for the core as well, giving it away costs milliseconds.
  const auto pause = [](std::mt19937& random) {
    test::spin(random() % 4096);
    if (random() % 32 == 0) std::this_thread::yield();
  };
  struct Loan {
    std::atomic<int>* lent;
    std::vector<std::byte> bytes;
    static void release(void* self) noexcept {
      const std::unique_ptr<Loan> loan(static_cast<Loan*>(self));
      --*loan->lent;
    }
  };
  std::thread source([&] {
    std::mt19937 random(seed);
    for (int i = 0; i < kFrames; ++i) {
      auto fill = ring_->begin();
      if (!fill) continue;
      const auto value = static_cast<int>(fill->sequence() % 251);
      switch (random() % 8) {
        case 0: break;  // the source fails
        case 1: {
          auto loan = std::make_unique<Loan>();
          loan->lent = &lent;
          loan->bytes.assign(picture.size_bytes, static_cast<std::byte>(value));
          ++lent;
          fill->borrow(picture, {loan->bytes.data(), loan->bytes.size(), &Loan::release, loan.get()});
          (void)loan.release();
          fill->publish(at_ms(i), at_ms(i));
          break;
        }
        default: std::memset(fill->data(picture), value, picture.size_bytes); fill->publish(at_ms(i), at_ms(i));
      }
      pause(random);
    }
    done = true;
  });
  std::thread dispatcher([&] {
    std::mt19937 random(seed + 1);
    std::uint64_t next = 0;
    std::vector<SlotLease> held;
    for (;;) {
      const bool last = done;
      if (auto lease = ring_->take()) {
        ++taken;
        EXPECT_GE(lease->frame().sequence, next);
        next = lease->frame().sequence + 1;
        held.push_back(std::move(*lease));
      } else if (last) {
        break;
      }
      while (held.size() > random() % 3) {
        const std::size_t which = random() % held.size();
        const Frame& frame = held[which].frame();
        const auto value = static_cast<std::byte>(frame.sequence % 251);
        EXPECT_TRUE(std::all_of(frame.pixels.begin(), frame.pixels.end(), [&](std::byte b) { return b == value; }));
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
      pause(random);
    }
  });
  source.join();
  dispatcher.join();
  EXPECT_EQ(observer_.captured(), kFrames);
  EXPECT_EQ(lent, 0);
  if (policy == RingPolicy::kLossless) {
    EXPECT_EQ(observer_.dropped(), observer_.dropped(RingDrop::kNotFilled));
  }
  expect_closed_account(taken);
}

TEST_P(FrameRingRandomTest, KeepsTheAccountWhenClosedAtARandomMoment) {
  const RingPolicy policy = std::get<0>(GetParam());
  const unsigned seed = std::get<1>(GetParam());
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    CountingObserver observer;
    FrameRing ring(*device_, observer, {0, 3, policy, device::HostMemory::kPinned});
    const int close_after = static_cast<int>(random() % 40);
    const bool keep = random() % 2 == 0;
    std::atomic<int> taken{0};
    std::thread source([&] {
      while (!ring.closed()) {
        auto fill = ring.begin();
        if (!fill) continue;
        (void)fill->data(layout_);
        fill->publish(at_ms(1), at_ms(1));
      }
    });
    std::thread dispatcher([&] {
      while (!ring.closed() || ring.has_ready()) {
        if (ring.take()) ++taken;
      }
    });
    ASSERT_TRUE(eventually([&] { return observer.captured() >= close_after; }));
    ring.close(keep);
    source.join();
    dispatcher.join();
    while (ring.take()) ++taken;  // published between the dispatcher's last look and the source's end
    EXPECT_EQ(observer.captured(), taken + observer.dropped());
    EXPECT_EQ(ring.occupied(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, FrameRingRandomTest,
                         ::testing::Combine(::testing::Values(RingPolicy::kNewestWins, RingPolicy::kLossless),
                                            ::testing::Values(1U, 2U, 3U)));

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
