#include "pipeline/run/plugin_host.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(PluginHost, RefusesWishesThatNobodyCanFulfil) {
  EXPECT_THAT(refusal([](test::FakePlugin& p) { p.output = 7; }),
              HasSubstr("plug-in fake: outputs() asked for need 7 of output 0"));
  EXPECT_THAT(refusal([](test::FakePlugin& p) { p.output = -1; }), HasSubstr("need -1"));
  EXPECT_THAT(refusal([](test::FakePlugin& p) { p.input = CAMD_NEED_DEVICE; }),
              HasSubstr("plug-in fake: the network's input can be had as NONE, SHAPE or HOST"));
  for (const int need : {int{CAMD_NEED_SHAPE}, int{CAMD_NEED_DEVICE}, 9}) {
    EXPECT_THAT(refusal([&](test::FakePlugin& p) { p.picture = need; }),
                HasSubstr("plug-in fake: the source picture can be had as NONE or HOST"));
  }
}

TEST(PluginHost, TakesEveryWishThatTheInterfaceNames) {
  for (const camd_need need : {CAMD_NEED_NONE, CAMD_NEED_SHAPE, CAMD_NEED_HOST, CAMD_NEED_DEVICE}) {
    EXPECT_EQ(refusal([&](test::FakePlugin& p) { p.output = need; }), "");
    if (need == CAMD_NEED_DEVICE) continue;
    EXPECT_EQ(refusal([&](test::FakePlugin& p) { p.input = need; }), "");
  }
  EXPECT_EQ(refusal([](test::FakePlugin& p) { p.picture = CAMD_NEED_HOST; }), "");
}

// A chain of plug-ins of the tests and one frame in flight, without a pipeline around it.
class Chain {
  std::vector<std::unique_ptr<test::FakePlugin>> fakes_;  // first member: the host calls them until it is destroyed

 public:
  // Before start(). What is returned is there as long as the chain.
  test::FakePlugin& plugin(test::FakePlugin::Process process = test::takes_it) {
    fakes_.push_back(std::make_unique<test::FakePlugin>(std::move(process)));
    fakes_.back()->outputs = 0;
    fakes_.back()->add_to(host);
    return *fakes_.back();
  }
  void start() {
    camd_model model{};
    model.struct_size = sizeof(model);
    model.path = "fake.onnx";
    model.card_json = "{}";
    host.declare(model);
    items.resize(static_cast<std::size_t>(host.needs().detections));
    frame_ = host.prepare(tensors_);
  }
  // What went wrong; empty when all is well.
  std::string process() {
    camd_frame frame{};
    frame.struct_size = sizeof(frame);
    results = {sizeof(results), host.needs().detections, 0, items.data()};
    return std::string(frame_->process(frame, results).message());
  }

  PluginHost host{{}, base::system_clock()};
  camd_results results{};
  std::vector<camd_detection> items;

 private:
  FrameTensors tensors_;
  std::unique_ptr<FramePostprocessing> frame_;
};

// ---- Detections

TEST(PluginHost, RefusesARequestForMoreDetectionsThanThereCanBe) {
  EXPECT_EQ(refusal([](test::FakePlugin& p) { p.detections = CAMD_MAX_DETECTIONS + 1; }),
            "plug-in fake: outputs() asked for room for 16385 detections a frame, 0 to 16384 can be had");
  EXPECT_EQ(refusal([](test::FakePlugin& p) { p.detections = -1; }),
            "plug-in fake: outputs() asked for room for -1 detections a frame, 0 to 16384 can be had");
  EXPECT_EQ(refusal([](test::FakePlugin& p) { p.detections = CAMD_MAX_DETECTIONS; }), "");
}

TEST(PluginHost, MakesRoomForTheMostDetectionsThatAPluginAsksFor) {
  Chain chain;
  chain.plugin();
  chain.plugin().detections = 4096;
  chain.plugin().detections = 10;
  chain.start();
  EXPECT_EQ(chain.host.needs().detections, 4096);
  Chain modest;
  modest.plugin().detections = 10;
  modest.start();
  EXPECT_EQ(modest.host.needs().detections, 512);
}

TEST(PluginHost, FailsTheFrameForADetectionThatBreaksTheRules) {
  const auto problem_with = [](const std::function<void(camd_detection&)>& spoil) {
    Chain chain;
    chain.plugin([&](const camd_frame&, const camd_tensors&, camd_results& results, camd_error&) {
      results.items[0] = camd_detection{};
      results.count = 1;
      spoil(results.items[0]);
      return static_cast<int>(CAMD_OK);
    });
    chain.start();
    return chain.process();
  };
  EXPECT_EQ(problem_with([](camd_detection& d) {
              d.track_id = 7;
              std::snprintf(d.text, sizeof(d.text), "B-CD 123");
            }),
            "");
  EXPECT_EQ(problem_with([](camd_detection& d) { std::memset(d.text, 'x', sizeof(d.text)); }),
            "plug-in fake: left a detection whose text does not end");
  EXPECT_EQ(problem_with([](camd_detection& d) { std::memset(d.class_name, 'x', sizeof(d.class_name)); }),
            "plug-in fake: left a detection whose class_name does not end");
  EXPECT_EQ(problem_with([](camd_detection& d) { d.reserved[10] = 1; }),
            "plug-in fake: left a detection whose reserved words are not 0");
  EXPECT_EQ(problem_with([](camd_detection& d) { d.score = std::nanf(""); }),
            "plug-in fake: left a detection with a number that is not finite");
}

// Their count would tell of elements that the plug-in never wrote: what an earlier frame left in camd's list.
TEST(PluginHost, FailsTheFrameWhereAPluginMovesOrResizesTheList) {
  camd_detection elsewhere{};
  const auto problem_with = [](const std::function<void(camd_results&)>& spoil) {
    Chain chain;
    bool next_ran = false;
    chain.plugin([&](const camd_frame&, const camd_tensors&, camd_results& results, camd_error&) {
      spoil(results);
      return static_cast<int>(CAMD_OK);
    });
    chain.plugin([&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
      next_ran = true;
      return static_cast<int>(CAMD_OK);
    });
    chain.start();
    std::string problem = chain.process();
    EXPECT_FALSE(next_ran);
    EXPECT_EQ(chain.results.items, chain.items.data());
    EXPECT_EQ(chain.results.capacity, 512);
    EXPECT_EQ(chain.results.count, 0);
    return problem;
  };
  const std::string moved = "plug-in fake: left a list with an `items` or a `capacity` that camd did not give it";
  EXPECT_EQ(problem_with([](camd_results& results) {
              results.items = nullptr;
              results.count = 1;
            }),
            moved);
  EXPECT_EQ(problem_with([&](camd_results& results) { results.items = &elsewhere; }), moved);
  EXPECT_EQ(problem_with([](camd_results& results) {
              results.capacity = 1 << 30;
              results.count = 1 << 29;
            }),
            moved);
}

// ---- Exceptions through the C interface, which a plug-in without the adaptor lets out

TEST(PluginHost, NamesThePluginWhoseCreateThrows) {
  test::FakePlugin plugin(test::takes_it);
  PluginHost plugins({}, base::system_clock());
  const auto refusal_of = [&](decltype(camd_plugin::create) create) {
    plugin.table.create = create;
    try {
      plugin.add_to(plugins);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kPlugin);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal_of([](const camd_host*, const char*, void**, camd_error*) -> std::int32_t {
              throw std::runtime_error("no\nlight");
            }),
            "plug-in fake: threw an exception: no light");
  EXPECT_EQ(refusal_of([](const camd_host*, const char*, void**, camd_error*) -> std::int32_t { throw 7; }),
            "plug-in fake: threw an exception: one that is no std::exception");
}

TEST(PluginHost, TakesAnExceptionForAFailureOfTheCallThatThrew) {
  EXPECT_EQ(refusal([](test::FakePlugin& p) {
              p.table.outputs = [](void*, const camd_model*, camd_needs*, camd_error*) -> std::int32_t {
                throw std::runtime_error("no outputs");
              };
            }),
            "plug-in fake: threw an exception: no outputs");
  EXPECT_EQ(refusal([](test::FakePlugin& p) {
              p.table.get_extension = [](const char*) -> const void* { throw std::runtime_error("no extensions"); };
            }),
            "plug-in fake: get_extension(): threw an exception: no extensions");
  Chain chain;
  chain.plugin([](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) -> int {
    throw std::runtime_error("no frame");
  });
  test::FakePlugin& last = chain.plugin();
  last.table.destroy = [](void*, camd_error*) -> std::int32_t { throw std::runtime_error("no end"); };
  chain.start();
  EXPECT_EQ(chain.process(), "plug-in fake: threw an exception: no frame");
  EXPECT_THAT(chain.host.finish(), ElementsAre("plug-in fake: threw an exception: no end"));
}

// 4096 boxes side by side go into `detections` as SSD's tensors, and 4096 come out.
TEST(PluginHost, LetsAsManyDetectionsOutAsDetectionsMaxSays) {
  constexpr std::int64_t kSide = 64, kBoxes = kSide * kSide;
  std::vector<float> scores, boxes;
  for (std::int64_t i = 0; i < kBoxes; ++i) {
    scores.insert(scores.end(), {0.1F, 0.9F});
    const std::int64_t column = i % kSide, row = i / kSide;
    const auto x = static_cast<float>(column) / kSide, y = static_cast<float>(row) / kSide;
    boxes.insert(boxes.end(), {x, y, x + 0.5F / kSide, y + 0.5F / kSide});
  }
  std::array<std::int64_t, 4> input{1, 3, 640, 640};
  std::array<std::int64_t, 3> score_shape{1, kBoxes, 2}, box_shape{1, kBoxes, 4};
  const DLDataType f32{kDLFloat, 32, 1};
  const std::array<camd_tensor_spec, 2> outputs{
      {{"scores", 3, score_shape.data(), f32}, {"boxes", 3, box_shape.data(), f32}}};
  camd_model model{};
  model.struct_size = sizeof(model);
  model.path = "fake.onnx";
  model.card_json = "{}";
  model.input = {"input", 4, input.data(), f32};
  model.output_count = 2;
  model.outputs = outputs.data();
  PluginHost host({{"detections", R"({"layout":"ssd","classes":["a"],"max":4096})", ""}}, base::system_clock());
  host.declare(model);
  ASSERT_EQ(host.needs().detections, 4096);

  FrameTensors tensors;
  tensors.host = {{scores.data(), {kDLCPU, 0}, 3, f32, score_shape.data(), nullptr, 0},
                  {boxes.data(), {kDLCPU, 0}, 3, f32, box_shape.data(), nullptr, 0}};
  tensors.device = tensors.host;
  const auto frame_in_flight = host.prepare(tensors);
  camd_frame frame{};
  frame.struct_size = sizeof(frame);
  frame.width = frame.height = 640;
  frame.scale_x = frame.scale_y = 1.0F;
  std::vector<camd_detection> items(static_cast<std::size_t>(host.needs().detections));
  camd_results results{sizeof(results), host.needs().detections, 0, items.data()};
  ASSERT_TRUE(frame_in_flight->process(frame, results).ok());
  EXPECT_EQ(results.count, kBoxes);
}

// ---- camd.counters/1

// "frames 3", in the order in which they were made, of the chain's first plug-in.
std::vector<std::string> numbers_of(PluginHost& host) {
  std::vector<std::string> lines;
  const std::vector<PluginNumbers> plugins = host.counters();
  for (const CounterValue& value : plugins.at(0).counters) {
    lines.push_back(
        fmt::format("{} {}", value.name, value.kind == CAMD_GAUGE ? value.level : static_cast<double>(value.count)));
  }
  return lines;
}

TEST(PluginCounters, AreReadWithTheNamesAndTheOrderInWhichAPluginMadeThem) {
  Chain chain;
  camd_counter *frames = nullptr, *waiting = nullptr;
  test::FakePlugin& plugin = chain.plugin();
  plugin.process = [&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    const auto& counters = test::extension<camd_counters>(plugin.host, CAMD_EXTENSION_COUNTERS);
    counters.add(frames, 1);
    counters.set(waiting, 2.5);
    return static_cast<int>(CAMD_OK);
  };
  plugin.when_set_up = [&] {
    const auto& counters = test::extension<camd_counters>(plugin.host, CAMD_EXTENSION_COUNTERS);
    camd_error error{};
    EXPECT_EQ(counters.make(plugin.host, CAMD_COUNTER, "frames", &frames, &error), CAMD_OK);
    EXPECT_EQ(counters.make(plugin.host, CAMD_GAUGE, "waiting_ms", &waiting, &error), CAMD_OK);
  };
  chain.start();
  EXPECT_EQ(chain.host.counters().at(0).name, "fake");
  EXPECT_THAT(numbers_of(chain.host), ElementsAre("frames 0", "waiting_ms 0"));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(chain.process(), "");
  EXPECT_THAT(numbers_of(chain.host), ElementsAre("frames 3", "waiting_ms 2.5"));
  EXPECT_TRUE(chain.host.finish().empty());
  EXPECT_THAT(numbers_of(chain.host), ElementsAre("frames 3", "waiting_ms 2.5"));  // for the last lines
}

TEST(PluginCounters, AreRefusedWithTheReason) {
  Chain chain;
  test::FakePlugin& plugin = chain.plugin();
  const auto make = [&](const char* name, int kind = CAMD_COUNTER) {
    const auto& counters = test::extension<camd_counters>(plugin.host, CAMD_EXTENSION_COUNTERS);
    camd_counter* made = nullptr;
    camd_error error{};
    camd_counter_kind spoilt{};
    std::memcpy(&spoilt, &kind, sizeof(spoilt));
    const std::int32_t code = counters.make(plugin.host, spoilt, name, &made, &error);
    EXPECT_EQ(made == nullptr, code != CAMD_OK);
    return fmt::format("{} {}", code, error.message);
  };
  const std::string bad_name =
      "4 a counter's name is a lower case letter, then lower case letters, digits and '_', 47 at most";
  plugin.when_set_up = [&] {
    for (const char* name : {"", "Frames", "2nd", "_x", "a b", "a\"b", "\xFF"}) EXPECT_EQ(make(name), bad_name);
    EXPECT_EQ(make(nullptr), bad_name);
    EXPECT_EQ(make(std::string(48, 'a').c_str()), bad_name);
    EXPECT_EQ(make(std::string(47, 'a').c_str()), "0 ");
    EXPECT_EQ(make("frames", 2), "4 a number is a CAMD_COUNTER or a CAMD_GAUGE");
    EXPECT_EQ(make("frames"), "0 ");
    EXPECT_EQ(make("frames", CAMD_GAUGE), "4 there is a counter 'frames' already");
    for (int i = 2; i < CAMD_MAX_COUNTERS; ++i) EXPECT_EQ(make(fmt::format("c{}", i).c_str()), "0 ");
    EXPECT_EQ(make("one_more"), "3 a plug-in has at most 32 counters");
  };
  chain.start();
  EXPECT_EQ(make("late"), "4 counters are made in create() or outputs(), not later");
}

TEST(PluginCounters, AddOnlyToCountersAndSetOnlyGaugesToFiniteNumbers) {
  CounterTable table;
  PluginCounters numbers(table);
  camd_counter *counter = nullptr, *gauge = nullptr;
  ASSERT_EQ(numbers.make(CAMD_COUNTER, "counter", &counter, nullptr), CAMD_OK);
  ASSERT_EQ(numbers.make(CAMD_GAUGE, "gauge", &gauge, nullptr), CAMD_OK);
  PluginCounters::set(gauge, -1.5);
  PluginCounters::set(gauge, std::numeric_limits<double>::infinity());
  PluginCounters::set(gauge, std::nan(""));
  PluginCounters::add(gauge, 1);
  PluginCounters::set(counter, 9);
  PluginCounters::add(counter, std::uint64_t{1} << 60U);
  PluginCounters::add(nullptr, 1);
  PluginCounters::set(nullptr, 1);
  const std::vector<CounterValue> values = numbers.read();
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].count, std::uint64_t{1} << 60U);
  EXPECT_EQ(values[1].level, -1.5);
}

TEST(PluginCounters, LoseNothingThatSeveralThreadsAdd) {
  CounterTable table;
  PluginCounters numbers(table);
  camd_counter* counter = nullptr;
  ASSERT_EQ(numbers.make(CAMD_COUNTER, "counter", &counter, nullptr), CAMD_OK);
  const auto add = [&] {
    for (int i = 0; i < 10'000; ++i) PluginCounters::add(counter, 1);
  };
  std::thread one(add), two(add);
  one.join();
  two.join();
  EXPECT_EQ(numbers.read().at(0).count, 20'000U);
}

// A plug-in that is asked for its gauges once a period.
struct Sampled {
  static std::int32_t sample(void* instance, camd_error* error) {
    ++samples;
    std::snprintf(error->message, sizeof(error->message), "cannot");
    return instance != nullptr && !failing ? std::int32_t{CAMD_OK} : std::int32_t{CAMD_ERROR_FAILED};
  }
  static const void* get_extension(const char* id) {
    return std::string(id) == CAMD_EXTENSION_COUNTERS ? &extension : nullptr;
  }
  static inline int samples = 0;
  static inline bool failing = false;
  static inline camd_plugin_counters extension{sizeof(camd_plugin_counters), &sample};
};

TEST(PluginCounters, AreSampledOncePerReadingButNeverBesideProcessNorAfterTheEnd) {
  PluginHost host({}, base::system_clock());
  test::FakePlugin plugin([&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    std::thread([&] { (void)host.counters(); }).join();
    return static_cast<int>(CAMD_OK);
  });
  plugin.outputs = 0;
  plugin.table.get_extension = &Sampled::get_extension;
  plugin.add_to(host);
  camd_model model{};
  model.struct_size = sizeof(model);
  host.declare(model);
  const FrameTensors tensors;
  const auto frame_in_flight = host.prepare(tensors);
  Sampled::samples = 0;
  (void)host.counters();
  EXPECT_EQ(Sampled::samples, 1);
  camd_frame frame{};
  camd_results results{};
  EXPECT_TRUE(frame_in_flight->process(frame, results).ok());
  EXPECT_EQ(Sampled::samples, 1);  // it was at work
  Sampled::failing = true;
  (void)host.counters();  // logged, nothing else
  EXPECT_EQ(Sampled::samples, 2);
  EXPECT_TRUE(host.finish().empty());
  (void)host.counters();
  EXPECT_EQ(Sampled::samples, 2);
  Sampled::failing = false;
}

// Opens its files the first time, and not the second.
struct Reopened {
  static std::int32_t reopen(void* /*instance*/, camd_error* error) {
    std::snprintf(error->message, sizeof(error->message), "no room");
    return ++times == 1 ? std::int32_t{CAMD_OK} : std::int32_t{CAMD_ERROR_FAILED};
  }
  static const void* get_extension(const char* id) {
    return std::string(id) == CAMD_EXTENSION_REOPEN ? &kExtension : nullptr;
  }
  static inline int times = 0;
  static constexpr camd_plugin_reopen kExtension{sizeof(camd_plugin_reopen), &reopen};
};

TEST(PluginHost, LetsPluginsOpenTheirFilesAnewAndNamesThoseThatCannot) {
  test::FakePlugin first(test::takes_it);
  test::FakePlugin indifferent(test::takes_it);
  test::FakePlugin last(test::takes_it);
  first.table.get_extension = last.table.get_extension = &Reopened::get_extension;
  PluginHost host({}, base::system_clock());
  for (test::FakePlugin* plugin : {&first, &indifferent, &last}) plugin->add_to(host);
  Reopened::times = 0;
  EXPECT_THAT(host.reopen(), ElementsAre("plug-in fake: no room"));
  EXPECT_EQ(Reopened::times, 2);
}

TEST(PluginHost, RefusesAnExtensionThatIsNotWhole) {
  test::FakePlugin plugin(test::takes_it);
  plugin.table.get_extension = [](const char*) -> const void* {
    static constexpr camd_plugin_counters kShort{sizeof(std::size_t), nullptr};
    return &kShort;
  };
  PluginHost host({}, base::system_clock());
  try {
    plugin.add_to(host);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_STREQ(error.what(), "plug-in fake: its extension camd.counters/1 lacks a function");
  }
}

TEST(PluginHost, OffersNoExtensionThatItDoesNotKnow) {
  Chain chain;
  const test::FakePlugin& plugin = chain.plugin();
  EXPECT_EQ(plugin.host->get_extension(plugin.host, "camd.counters/2"), nullptr);
  EXPECT_EQ(plugin.host->get_extension(plugin.host, ""), nullptr);
  EXPECT_EQ(plugin.host->get_extension(plugin.host, nullptr), nullptr);
}

// ---- camd.events/1

camd_event event_of(const char* name, std::initializer_list<std::pair<const char*, double>> numbers = {}) {
  camd_event event{};
  event.struct_size = sizeof(event);
  std::snprintf(event.name, sizeof(event.name), "%s", name);
  for (const auto& [number, value] : numbers) {
    camd_number& added = event.numbers[event.number_count++];
    std::snprintf(added.name, sizeof(added.name), "%s", number);
    added.value = value;
  }
  return event;
}

const camd_events& events_of(const test::FakePlugin& plugin) {
  return test::extension<camd_events>(plugin.host, CAMD_EXTENSION_EVENTS);
}

TEST(PluginEvents, AreSeenByThePluginsBehindInTheirOrderAndGoneInTheNextFrame) {
  Chain chain;
  int frames = 0;
  test::FakePlugin& first = chain.plugin();
  first.process = [&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    EXPECT_EQ(events_of(first).count(first.host), 0);
    if (frames++ == 0) {
      camd_event enter = event_of("enter", {{"dwell_s", 1.5}});
      enter.track_id = 7;
      std::snprintf(enter.zone, sizeof(enter.zone), "porch");
      EXPECT_EQ(events_of(first).add(first.host, &enter), CAMD_OK);
      const camd_event leave = event_of("leave");
      EXPECT_EQ(events_of(first).add(first.host, &leave), CAMD_OK);
    }
    return static_cast<int>(CAMD_OK);
  };
  std::vector<std::string> seen;
  test::FakePlugin& second = chain.plugin();
  second.process = [&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    for (std::int32_t i = 0; i < events_of(second).count(second.host); ++i) {
      const camd_event& event = *events_of(second).get(second.host, i);
      seen.push_back(fmt::format("{} {} {} {}", event.name, event.zone, event.track_id, event.number_count));
    }
    return static_cast<int>(CAMD_OK);
  };
  chain.start();
  ASSERT_EQ(chain.process(), "");
  EXPECT_THAT(seen, ElementsAre("enter porch 7 1", "leave  0 0"));
  seen.clear();
  ASSERT_EQ(chain.process(), "");
  EXPECT_TRUE(seen.empty());
}

TEST(PluginEvents, AreRefusedWithACodeWhereTheyBreakTheRulesOrAreTooMany) {
  Chain chain;
  test::FakePlugin& plugin = chain.plugin();
  plugin.process = [&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    const camd_events& events = events_of(plugin);
    const auto code = [&](const std::function<void(camd_event&)>& spoil) {
      camd_event event = event_of("enter", {{"a", 1}, {"b", 2}});
      spoil(event);
      return events.add(plugin.host, &event);
    };
    EXPECT_EQ(events.add(plugin.host, nullptr), CAMD_ERROR_INVALID);
    EXPECT_EQ(code([](camd_event& e) { e.struct_size = 8; }), CAMD_ERROR_INVALID);
    EXPECT_EQ(code([](camd_event& e) { e.name[0] = '\0'; }), CAMD_ERROR_INVALID);
    EXPECT_EQ(code([](camd_event& e) { std::memset(e.name, 'x', sizeof(e.name)); }), CAMD_ERROR_INVALID);
    EXPECT_EQ(code([](camd_event& e) { std::memset(e.zone, 'x', sizeof(e.zone)); }), CAMD_ERROR_INVALID);
    EXPECT_EQ(code([](camd_event& e) { e.number_count = -1; }), CAMD_ERROR_INVALID);
    EXPECT_EQ(code([](camd_event& e) { e.number_count = CAMD_EVENT_NUMBERS + 1; }), CAMD_ERROR_INVALID);
    EXPECT_EQ(code([](camd_event& e) { e.number_count = 3; }), CAMD_ERROR_INVALID);  // the third has no name
    EXPECT_EQ(code([](camd_event& e) { e.numbers[1].value = std::nan(""); }), CAMD_ERROR_INVALID);
    EXPECT_EQ(code([](camd_event& e) { e.numbers[1].name[0] = 'a'; }), CAMD_ERROR_INVALID);  // twice "a"
    EXPECT_EQ(code([](camd_event& e) { std::memset(e.numbers[0].name, 'x', 24); }), CAMD_ERROR_INVALID);
    EXPECT_EQ(code([](camd_event& e) { e.reserved = 1; }), CAMD_ERROR_INVALID);
    EXPECT_EQ(events.count(plugin.host), 0);
    for (int i = 0; i < CAMD_MAX_EVENTS; ++i) EXPECT_EQ(code([](camd_event&) {}), CAMD_OK);
    EXPECT_EQ(code([](camd_event&) {}), CAMD_ERROR_FULL);
    EXPECT_EQ(events.count(plugin.host), CAMD_MAX_EVENTS);
    EXPECT_EQ(events.get(plugin.host, -1), nullptr);
    EXPECT_EQ(events.get(plugin.host, CAMD_MAX_EVENTS), nullptr);
    return static_cast<int>(CAMD_OK);
  };
  chain.start();
  ASSERT_EQ(chain.process(), "");
}

TEST(PluginEvents, BelongToAFrameAndAreNoneOutsideOfProcess) {
  Chain chain;
  const test::FakePlugin& plugin = chain.plugin();
  chain.start();
  ASSERT_EQ(chain.process(), "");
  const camd_events& events = events_of(plugin);
  const camd_event event = event_of("enter");
  EXPECT_EQ(events.add(plugin.host, &event), CAMD_ERROR_INVALID);
  EXPECT_EQ(events.count(plugin.host), 0);
  EXPECT_EQ(events.get(plugin.host, 0), nullptr);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
