// Pictures: only when somebody asks, and few for many.
#include "apps/http/pictures.hpp"

#include <gtest/gtest.h>

#include "tests/http/tapped.hpp"

namespace camd::http {
namespace CAMD_TEST_FILE {

using namespace std::chrono_literals;

class PicturesTest : public ::testing::Test {
 protected:
  PicturesTest() { tap_.make_room(2); }
  void deliver(std::uint64_t sequence, const char* camera = "a", capture::CameraIndex slot = 0) {
    test::deliver_picture(tap_, camera, slot, sequence, clock_.now());
  }
  // The first frame of all says how much memory a picture takes.
  void learn_the_size() {
    EXPECT_EQ(pictures_.ask("a", 0, 0), nullptr);
    deliver(0);
    EXPECT_EQ(pictures_.ask("a", 0, 0), nullptr);
  }

  base::ManualClock clock_;
  pipeline::FrameTap tap_;
  Pictures pictures_{clock_, tap_};
};

TEST_F(PicturesTest, AreCopiedOnceForEachOrder) {
  EXPECT_FALSE(tap_.wants_picture(0));
  learn_the_size();
  EXPECT_TRUE(tap_.wants_picture(0));
  EXPECT_FALSE(tap_.wants_picture(1));
  deliver(1);
  EXPECT_FALSE(tap_.wants_picture(0));
  deliver(2);
  const std::shared_ptr<const Jpeg> jpeg = pictures_.ask("a", 0, 0);
  ASSERT_NE(jpeg, nullptr);
  EXPECT_EQ(jpeg->sequence, 1U);
  EXPECT_EQ(jpeg->width, 64);
  EXPECT_EQ(jpeg->height, 36);
}

TEST_F(PicturesTest, AreTheSameForAllWhoAskWhileTheyAreFresh) {
  learn_the_size();
  deliver(1);
  const std::shared_ptr<const Jpeg> first = pictures_.ask("a", 0, 0);
  clock_.advance(kFreshFor);
  EXPECT_EQ(pictures_.ask("a", 0, 0), first);
  EXPECT_FALSE(tap_.wants_picture(0));
  clock_.advance(1ms);
  EXPECT_EQ(pictures_.ask("a", 0, 0), nullptr);
  deliver(2);
  EXPECT_EQ(pictures_.ask("a", 0, 0)->sequence, 2U);
}

TEST_F(PicturesTest, AreMadeInEachWidthOfOneCopy) {
  learn_the_size();
  EXPECT_EQ(pictures_.ask("a", 0, 320), nullptr);
  deliver(1);
  EXPECT_EQ(pictures_.ask("a", 0, 0)->sequence, 1U);
  EXPECT_EQ(pictures_.ask("a", 0, 320)->sequence, 1U);
}

TEST_F(PicturesTest, AreNotShownUnderTheNameOfACameraThatIsGone) {
  learn_the_size();
  deliver(1, "b", 0);  // a reload gave the slot to b
  EXPECT_EQ(pictures_.ask("a", 0, 0), nullptr);
  EXPECT_EQ(pictures_.ask("b", 0, 0), nullptr) << "nobody had asked for b";
  deliver(2, "b", 0);
  EXPECT_EQ(pictures_.ask("b", 0, 0)->sequence, 2U);
}

TEST_F(PicturesTest, AreNotShownWhenTheyAreOld) {
  learn_the_size();
  deliver(1);
  clock_.advance(kFreshFor + 1ms);
  EXPECT_EQ(pictures_.ask("a", 0, 0), nullptr);
}

TEST_F(PicturesTest, WaitForRoomAndKeepTheirOrders) {
  learn_the_size();
  tap_.make_room(8);
  for (capture::CameraIndex slot = 0; slot < 8; ++slot) {
    const std::string name(1, static_cast<char>('a' + slot));
    EXPECT_EQ(pictures_.ask(name, slot, 0), nullptr);
  }
  const auto deliver_all = [this](std::uint64_t sequence) {
    for (capture::CameraIndex slot = 0; slot < 8; ++slot) {
      const std::string name(1, static_cast<char>('a' + slot));
      if (tap_.wants_picture(slot)) deliver(sequence, name.c_str(), slot);
    }
  };
  deliver_all(1);
  EXPECT_NE(pictures_.ask("d", 3, 0), nullptr);
  EXPECT_EQ(pictures_.ask("e", 4, 0), nullptr) << "four at a time";
  deliver_all(2);
  EXPECT_EQ(pictures_.ask("a", 0, 0)->sequence, 1U);
  EXPECT_EQ(pictures_.ask("h", 7, 0)->sequence, 2U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::http
