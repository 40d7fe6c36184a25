#include "device/cuda/decoder_turns.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace camd::device {
namespace {

using Outcome = DecoderTurns::Outcome;

class Waiter final : public VideoTaker {
 public:
  bool take_picture(const DecodedPicture&) noexcept override { return false; }
  bool goes_on_waiting() noexcept override { return goes_on; }
  bool goes_on = true;
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

TEST(DecoderTurns, WhoGivesUpNeitherWaitsNorHasOne) {
  DecoderTurns turns;
  Waiter waiter;
  waiter.goes_on = false;
  DecoderTurns::Turn first(turns);
  EXPECT_EQ(first.wait(waiter), Outcome::kGaveUp);
  EXPECT_EQ(first.wait_on(waiter), Outcome::kGaveUp);
}

}  // namespace
}  // namespace camd::device
