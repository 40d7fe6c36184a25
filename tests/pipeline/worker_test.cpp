// A worker's process and its end, as those see it who wait for it.
#include "pipeline/plugin_process/worker.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include "pipeline/plugin_process/descriptor_socket.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

TEST(Worker, WhoSeesThatItHasEndedIsToldHow) {
  for (int i = 0; i < 20; ++i) {
    WorkerSpec spec;
    spec.program = test::binary_dir() + "/bin/camd-plugin";
    spec.order.name = "test";
    Worker worker(spec);
    worker.kill("was not wanted");
    while (!worker.ended()) {
    }
    // At every moment until it is given up.
    while (worker.state() == Worker::State::kRunning) ASSERT_EQ(worker.how_it_ended(), "was not wanted");
    ASSERT_EQ(worker.how_it_ended(), "was not wanted");
  }
}

TEST(WorkerProcess, HowItHasEndedIsTheSameForAllWhoAsk) {
  auto [mine, theirs] = socket_pair();
  WorkerProcess process("/bin/sh", {"-c", "kill -TERM $$"}, theirs.get());
  ASSERT_TRUE(process.wait(base::Duration::max()));
  // The kernel has told it once, and tells it no more.
  EXPECT_EQ(process.end().value().signal, SIGTERM);
  EXPECT_EQ(process.wait(base::Duration(0)).value().signal, SIGTERM);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
