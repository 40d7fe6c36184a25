#include "device/cuda/decoder_turns.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace camd::device {
namespace CAMD_TEST_FILE {

using Outcome = DecoderTurns::Outcome;

class Waiter final : public VideoTaker {
 public:
  bool take_picture(const DecodedPicture&) noexcept override { return false; }
  bool goes_on_waiting() noexcept override {
    if (asked) asked();
    return goes_on;
  }
  bool goes_on = true;
  std::function<void()> asked;
};

TEST(DecoderTurns, ComeInTheOrderInWhichTheyWereAskedFor) {
  DecoderTurns turns(base::Duration::zero());
  Waiter waiter;
  auto first = std::make_unique<DecoderTurns::Turn>(turns);
  auto second = std::make_unique<DecoderTurns::Turn>(turns);
  DecoderTurns::Turn third(turns);
  EXPECT_EQ(first->wait(waiter), Outcome::kCame);
  EXPECT_EQ(second->wait(waiter), Outcome::kLate);
  EXPECT_EQ(third.wait(waiter), Outcome::kLate);
  second.reset();
  EXPECT_EQ(third.wait(waiter), Outcome::kLate);
  first.reset();
  EXPECT_EQ(third.wait(waiter), Outcome::kCame);
}

TEST(DecoderTurns, NoMoreAreLateThanMayBeUntilTheLineIsEmpty) {
  DecoderTurns turns(base::Duration::zero(), 1);
  Waiter waiter;
  for (int rush = 0; rush < 2; ++rush) {
    auto first = std::make_unique<DecoderTurns::Turn>(turns);
    DecoderTurns::Turn second(turns);
    EXPECT_EQ(second.wait(waiter), Outcome::kLate);
    waiter.asked = [&, asked = 0]() mutable {
      if (++asked == 2) first.reset();
    };
    EXPECT_EQ(second.wait(waiter), Outcome::kCame);
    waiter.asked = nullptr;
  }
}

TEST(DecoderTurns, WhoGivesUpNeitherWaitsNorHasOne) {
  DecoderTurns turns;
  Waiter waiter;
  waiter.goes_on = false;
  DecoderTurns::Turn first(turns);
  EXPECT_EQ(first.wait(waiter), Outcome::kGaveUp);
  EXPECT_EQ(first.wait_on(waiter), Outcome::kGaveUp);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::device
