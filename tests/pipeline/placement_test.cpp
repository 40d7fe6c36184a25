#include "pipeline/core/placement.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

// Makes the moves that next_move() asks for, and returns how many there were.
int balance(const std::vector<LaneLoad>& lanes, std::vector<CameraLoad>& cameras) {
  for (int moves = 0;; ++moves) {
    const std::optional<Move> move = next_move(lanes, cameras);
    if (!move || moves == 100) return moves;
    cameras[move->camera].lane = move->lane;
  }
}

TEST(Placement, SpreadsCamerasOfWhichNothingIsKnownByTheirNumber) {
  const std::vector<LaneLoad> lanes(3);
  std::vector<CameraLoad> cameras;
  std::vector<int> placed(3, 0);
  for (int i = 0; i < 10; ++i) {
    const std::size_t lane = place(lanes, cameras, 0);
    cameras.push_back({lane, 0});
    ++placed[lane];
  }
  EXPECT_EQ(placed, (std::vector<int>{4, 3, 3}));
}

TEST(Placement, GivesAFasterDeviceMoreCameras) {
  const std::vector<LaneLoad> lanes = {{0.001}, {0.003}};
  std::vector<CameraLoad> cameras;
  std::vector<int> placed(2, 0);
  for (int i = 0; i < 40; ++i) {
    const std::size_t lane = place(lanes, cameras, 30);
    cameras.push_back({lane, 30});
    ++placed[lane];
  }
  EXPECT_EQ(placed, (std::vector<int>{30, 10}));
}

TEST(Placement, GivesNothingToADeviceThatIsLost) {
  const std::vector<LaneLoad> lanes = {{0.001, false}, {0.003}};
  EXPECT_EQ(place(lanes, {{1, 30}, {1, 30}}, 30), 1U);
}

TEST(Placement, CountsALoadAsPartOfTheDevicesTime) {
  EXPECT_EQ(loads_of({{0.01}, {0.002}}, {{0, 30}, {0, 20}, {1, 100}}), (std::vector<double>{0.5, 0.2}));
}

TEST(Placement, MovesCamerasFromTheHeaviestLaneUntilItIsEven) {
  const std::vector<LaneLoad> lanes = {{0.001}, {0.001}};
  std::vector<CameraLoad> cameras(20, CameraLoad{0, 30});
  EXPECT_EQ(balance(lanes, cameras), 10);
  const std::vector<double> loads = loads_of(lanes, cameras);
  EXPECT_NEAR(loads[0], 0.3, 1e-9);
  EXPECT_NEAR(loads[1], 0.3, 1e-9);
}

TEST(Placement, MovesTheCameraThatLightensTheHeaviestLaneMost) {
  const std::vector<LaneLoad> lanes = {{0.001}, {0.001}};
  // 900 against 100: the one with 400 makes it 500 against 500.
  const std::optional<Move> move = next_move(lanes, {{0, 450}, {0, 400}, {0, 50}, {1, 100}});
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->camera, 1U);
  EXPECT_EQ(move->lane, 1U);
}

TEST(Placement, LeavesCamerasAloneWhereNobodyIsHeldUp) {
  EXPECT_FALSE(next_move({{0.001}, {0.001}}, {{0, 140}, {0, 140}}).has_value());
}

TEST(Placement, DoesNotMoveACameraToAndFro) {
  // One camera that is too heavy for either: it is as well off where it is.
  EXPECT_FALSE(next_move({{0.001}, {0.001}}, {{0, 900}, {1, 50}}).has_value());
  EXPECT_FALSE(next_move({{0.001}, {0.001}}, {{0, 480}, {0, 40}, {1, 480}}).has_value());
}

TEST(Placement, LeavesCamerasThatCannotMove) {
  const std::optional<Move> move = next_move({{0.001}, {0.001}}, {{0, 300, false}, {0, 300, false}, {0, 100, true}});
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->camera, 2U);
}

TEST(Placement, MovesNoCameraToADeviceThatIsLost) {
  EXPECT_FALSE(next_move({{0.001}, {0.001, false}}, {{0, 500}, {0, 500}}).has_value());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
