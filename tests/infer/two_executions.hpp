// Two executions of one engine, each on a stream of its own, with different pictures.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "base/picture.hpp"
#include "device/device.hpp"
#include "infer/engine.hpp"

namespace camd::infer::test {

// `engine` holds test::tiny_conv(): element 27 of its output is 0.5 for a black picture and 3.2 for a white one.
// [blocks] until both are through in each of `rounds` rounds.
inline void expect_undisturbed_executions(device::Device& device, Engine& engine, int rounds) {
  const std::unique_ptr<Execution> executions[2] = {engine.make_execution(), engine.make_execution()};
  const device::Stream streams[2] = {device.make_stream("a"), device.make_stream("b")};
  const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kGray8, 8, 8);
  const std::vector<std::byte> pictures[2] = {std::vector<std::byte>(64, std::byte{0}),
                                              std::vector<std::byte>(64, std::byte{255})};
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(executions[i]->enqueue_preprocess({pictures[i].data(), layout}, streams[i]));
      ASSERT_TRUE(executions[i]->enqueue_network(streams[i]));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(device.synchronize(executions[i]->output_ready(0)));
      ASSERT_TRUE(executions[i]->result());
      EXPECT_NEAR(static_cast<const float*>(executions[i]->output(0).data)[27], i == 0 ? 0.5F : 3.2F, 1e-5F);
    }
  }
}

}  // namespace camd::infer::test
