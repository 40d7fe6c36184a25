#include "pipeline/run/instance_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using testing::ElementsAre;

// Counts its calls, and runs what the test wants inside of each.
class Fake final : public PluginInstance {
 public:
  explicit Fake(std::function<void(Fake&)> inside) : inside_(std::move(inside)) {}

  void declare(const camd_model& model) override { names_ = camera_names_of(model); }
  [[nodiscard]] const PluginNeeds& needs() const noexcept override { return needs_; }
  [[nodiscard]] std::unique_ptr<PreparedFrame> prepare(const camd_tensors& /*tensors*/) override { return nullptr; }
  [[nodiscard]] CallResult call(PreparedFrame* /*prepared*/, const camd_frame& /*frame*/,
                                const camd_tensors& /*tensors*/, camd_results& /*results*/, FrameEvents& events,
                                camd_error& /*error*/, bool& /*moved*/) noexcept override {
    events_ = &events;
    ++calls;
    if (inside_) inside_(*this);
    events_ = nullptr;
    return CallResult::kDone;
  }
  void sample() override {}
  [[nodiscard]] std::string reopen() override { return "cannot be opened"; }
  [[nodiscard]] PluginNumbers numbers() const override {
    return {"fake", {{"calls", CAMD_COUNTER, calls, 0}, {"level", CAMD_GAUGE, 0, static_cast<double>(calls)}}, {}, {}};
  }
  [[nodiscard]] bool knows_cameras() const noexcept override { return false; }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept override { return names_; }
  void rename(std::vector<std::string> names) override { names_ = std::move(names); }
  [[nodiscard]] void* open(std::int32_t /*index*/, const std::string& /*name*/) override { return nullptr; }
  [[nodiscard]] void* exchange(std::int32_t /*index*/, void* /*camera*/) noexcept override { return nullptr; }
  [[nodiscard]] std::string close(void* /*camera*/) override { return {}; }
  std::string destroy() noexcept override { return {}; }
  [[nodiscard]] bool bounded() const noexcept override { return false; }
  [[nodiscard]] bool works_on(const FrameEvents& events) const noexcept override { return events_ == &events; }
  [[nodiscard]] bool works() const noexcept override { return events_ != nullptr; }
  [[nodiscard]] bool is(const PluginSpec& /*spec*/) const override { return true; }
  [[nodiscard]] bool is_current() const override { return true; }

  std::atomic<std::uint64_t> calls = 0;

 private:
  const std::function<void(Fake&)> inside_;
  std::atomic<const FrameEvents*> events_ = nullptr;
  PluginNeeds needs_;
  std::vector<std::string> names_;
};

struct Pool {
  explicit Pool(std::vector<const char*> cameras, const std::function<void(Fake&)>& inside = {})
      : names(std::move(cameras)), pool(make(inside), [this, inside] { return make(inside); }) {
    camd_model model{};
    model.struct_size = sizeof(model);
    model.path = "fake.onnx";
    model.card_json = "{}";
    model.camera_count = static_cast<std::int32_t>(names.size());
    model.camera_names = names.data();
    pool.declare(model);
  }
  std::shared_ptr<Fake> make(const std::function<void(Fake&)>& inside) {
    made.push_back(std::make_shared<Fake>(inside));
    return made.back();
  }
  void call(FrameEvents& events) {
    const camd_frame frame{};
    camd_results results{};
    camd_error error{};
    bool moved = false;
    EXPECT_EQ(pool.call(nullptr, frame, tensors, results, events, error, moved), CallResult::kDone);
  }
  void call() {
    FrameEvents events;
    call(events);
  }

  const std::vector<const char*> names;
  const camd_tensors tensors{};
  std::vector<std::shared_ptr<Fake>> made;
  InstancePool pool;
};

TEST(InstancePool, RunsCallsSideBySide) {
  std::latch both(2);  // nobody gets out before both are in
  Pool pool({"door", "yard"}, [&both](Fake&) { both.arrive_and_wait(); });
  std::thread other([&pool] { pool.call(); });
  pool.call();
  other.join();
  EXPECT_EQ(pool.made[0]->calls, 1U);
  EXPECT_EQ(pool.made[1]->calls, 1U);
}

TEST(InstancePool, NeverRunsTwoCallsOfOneInstance) {
  std::atomic<int> inside = 0;
  std::atomic<bool> overlapped = false;
  Pool pool({"door"}, [&](Fake&) {
    if (inside.fetch_add(1) != 0) overlapped = true;
    inside.fetch_sub(1);
  });
  constexpr int kCalls = 2000;
  std::array<std::thread, 3> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&pool] {
      for (int i = 0; i < kCalls; ++i) pool.call();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(overlapped);
  EXPECT_EQ(pool.made[0]->calls, 3U * kCalls);
}

TEST(InstancePool, HasAsManyInstancesAsCamerasAndNoMoreThanItsBound) {
  EXPECT_EQ(Pool({"door"}).made.size(), 1U);
  EXPECT_EQ(Pool({"door", "", "yard"}).made.size(), 2U);
  EXPECT_EQ(Pool(std::vector<const char*>(100, "c")).made.size(), InstancePool::kMost);
}

TEST(InstancePool, MakesOneMoreForACameraThatComes) {
  Pool pool({"door"});
  EXPECT_EQ(pool.pool.open(1, "yard"), nullptr);
  ASSERT_EQ(pool.made.size(), 2U);
  EXPECT_THAT(pool.made[1]->names(), ElementsAre("door"));
  for (int i = 0; i < 20; ++i) (void)pool.pool.open(2 + i, "more");
  EXPECT_EQ(pool.made.size(), InstancePool::kMost);
}

TEST(InstancePool, UsesTheInstanceThatWasUsedLast) {
  Pool pool({"door", "yard", "gate"});
  for (int i = 0; i < 5; ++i) pool.call();
  EXPECT_EQ(pool.made[0]->calls, 5U);
}

TEST(InstancePool, AddsUpCountersAndShowsTheLargestGauge) {
  std::latch both(2);
  std::atomic<int> waited = 0;
  Pool pool({"door", "yard"}, [&](Fake&) {
    if (waited.fetch_add(1) < 2) both.arrive_and_wait();
  });
  std::thread other([&pool] { pool.call(); });
  pool.call();
  other.join();
  pool.call();
  const PluginNumbers numbers = pool.pool.numbers();
  ASSERT_EQ(numbers.counters.size(), 2U);
  EXPECT_EQ(numbers.name, "fake");
  EXPECT_EQ(numbers.counters[0].count, 3U);
  EXPECT_EQ(numbers.counters[1].level, 2.0);
}

TEST(InstancePool, KnowsWhichFramesAreInIt) {
  const FrameEvents* mine = nullptr;
  const FrameEvents other;
  Pool* of = nullptr;
  bool on_mine = false;
  bool on_other = true;
  Pool pool({"door", "yard"}, [&](Fake&) {
    on_mine = of->pool.works_on(*mine);
    on_other = of->pool.works_on(other);
    EXPECT_TRUE(of->pool.works());
  });
  of = &pool;
  FrameEvents events;
  mine = &events;
  EXPECT_FALSE(pool.pool.works());
  pool.call(events);
  EXPECT_TRUE(on_mine);
  EXPECT_FALSE(on_other);
  EXPECT_FALSE(pool.pool.works());
}

TEST(InstancePool, SaysOnceWhatAllItsInstancesSay) {
  EXPECT_EQ(Pool({"door", "yard"}).pool.reopen(), "cannot be opened");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
