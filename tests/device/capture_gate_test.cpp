#include "device/cuda/capture_gate.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>

namespace camd::device {
namespace CAMD_TEST_FILE {

TEST(CaptureGate, ACaptureWaitsForTheDecoderThatIsMadeAndComesBeforeTheNext) {
  CaptureGate gate;
  std::string order;  // the gate lets one thread at a time write it
  std::optional<CaptureGate::DecoderWork> made(gate);
  std::thread captures([&] {
    gate.begin_capture();
    order += "capture ";
    gate.end_capture();
  });
  while (gate.captures() == 0) std::this_thread::yield();
  std::thread makes([&] {
    const CaptureGate::DecoderWork next(gate);
    order += "next ";
  });
  order += "made ";
  made.reset();
  captures.join();
  makes.join();
  EXPECT_EQ(order, "made capture next ");
  EXPECT_EQ(gate.captures(), 0);
  EXPECT_EQ(gate.decoder_works(), 0);
}

TEST(CaptureGate, SeveralCaptureAtATime) {
  CaptureGate gate;
  gate.begin_capture();
  gate.begin_capture();
  EXPECT_EQ(gate.captures(), 2);
  gate.end_capture();
  gate.end_capture();
  EXPECT_EQ(gate.captures(), 0);
}

TEST(CaptureGate, TwoDecodersAreMadeOrDestroyedAtATimeAndTheThirdWaits) {
  CaptureGate gate;
  const CaptureGate::DecoderWork first(gate);
  std::optional<CaptureGate::DecoderWork> second(gate);
  EXPECT_EQ(gate.decoder_works(), 2);
  int seen = 0;
  std::thread third([&] {
    const CaptureGate::DecoderWork work(gate);
    seen = gate.decoder_works();
  });
  second.reset();
  third.join();
  EXPECT_EQ(seen, 2);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::device
