// camd_plugin.hpp: exceptions become codes, messages stay whole characters, tensors are checked before they are read.
#include "plugins/camd_plugin.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "harness.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

// Does at each step what its configuration says.
class Puppet final : public camd::plugin::Postprocessor {
 public:
  Puppet(camd::plugin::Host host, std::string_view config_json) : wish_(config_json) {
    if (wish_ == "throw in create") throw std::invalid_argument("config.path: is needed");
    if (wish_ == "throw a number") throw 7;
    host.log(CAMD_LOG_INFO, "made at " + std::to_string(host.now_mono_ns()));
    values_ = host.counter(wish_ == "bad counter" ? "a b" : "values");
    samples_ = host.gauge("level");
    events_ = host.events();
  }
  void outputs(const camd_model&, camd::plugin::Needs& needs) override {
    if (wish_ == "undeclared output") needs.output(9, CAMD_NEED_HOST);
    if (wish_ == "many detections") needs.detections(4096);
    needs.output(0, CAMD_NEED_HOST);
  }
  void process(const camd_frame&, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    if (wish_ == "throw in process") throw std::runtime_error("two\nlines");
    const auto view = camd::plugin::host_tensor<float>(tensors.output(0), "cls");
    for (const float value : view) {
      camd_detection* added = results.add();
      if (added != nullptr) added->score = value;
    }
    results.remove_if([](const camd_detection& d) { return d.score < 0.0F; });
    values_.add(3);
    if (wish_ == "nameless event") events_.add(camd::plugin::Event(""));
    while (wish_ == "many events" && events_.add(camd::plugin::Event("enter"))) {
    }
  }
  void sample() override {
    if (wish_ == "throw in sample") throw std::runtime_error("no gauge");
    samples_.set(4.5);
  }
  void reopen() override {
    if (wish_ == "throw in reopen") throw std::runtime_error("out.txt: Permission denied");
    values_.add(100);
  }
  void finish() override {
    if (wish_ == "throw in finish") throw std::runtime_error("out.mp4: No space left on device");
  }

 private:
  std::string wish_;
  camd::plugin::Counter values_;
  camd::plugin::Gauge samples_;
  camd::plugin::Events events_;
};

// Has no sample() of its own.
class Plain final : public camd::plugin::Postprocessor {
 public:
  Plain(camd::plugin::Host, std::string_view) {}
  void process(const camd_frame&, const camd::plugin::Tensors&, camd::plugin::Results&) override {}
};
constexpr camd_plugin kPlain = camd::plugin::make_table<Plain>("plain", "1.0", "does nothing");

class Forgetful final : public camd::plugin::Postprocessor {
 public:
  static constexpr bool kStateless = true;
  Forgetful(camd::plugin::Host, std::string_view) {}
  void process(const camd_frame&, const camd::plugin::Tensors&, camd::plugin::Results&) override {}
};
constexpr camd_plugin kForgetful = camd::plugin::make_table<Forgetful>("forgetful", "1.0", "keeps nothing");

constexpr camd_plugin kPuppet = camd::plugin::make_table<Puppet>("puppet", "1.0", "does as it is told");

FakeModel one_output() {
  FakeModel model(4, 4);
  model.output("cls", {1, 3}, {0.25F, -1.0F, 0.5F});
  return model;
}

TEST(Adaptor, FillsTheTableWithVersionAndSize) {
  EXPECT_EQ(kPuppet.abi_version, CAMD_PLUGIN_ABI_VERSION);
  EXPECT_EQ(kPuppet.struct_size, sizeof(camd_plugin));
  EXPECT_STREQ(kPuppet.name, "puppet");
}

TEST(Adaptor, RunsAFrameThroughTheDerivedClass) {
  FakeModel model = one_output();
  Instance puppet(&kPuppet);
  puppet.host.now_ns = 42;
  ASSERT_EQ(puppet.create(""), CAMD_OK);
  EXPECT_EQ(puppet.host.lines, std::vector<std::string>{"2 made at 42"});
  ASSERT_EQ(puppet.outputs(model), CAMD_OK);
  EXPECT_EQ(puppet.needs[0], CAMD_NEED_HOST);
  ASSERT_EQ(puppet.process(model), CAMD_OK);
  ASSERT_EQ(puppet.found().size(), 2U);
  EXPECT_EQ(puppet.found()[0].score, 0.25F);
  EXPECT_EQ(puppet.found()[1].score, 0.5F);
  EXPECT_EQ(puppet.destroy(), CAMD_OK);
}

TEST(Adaptor, TurnsAnExceptionInTheConstructorIntoAConfigError) {
  Instance puppet(&kPuppet);
  EXPECT_EQ(puppet.create("throw in create"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(puppet.error(), "config.path: is needed");
  EXPECT_EQ(puppet.instance, nullptr);
}

TEST(Adaptor, TurnsAnythingElseThrownIntoAnErrorToo) {
  Instance puppet(&kPuppet);
  EXPECT_EQ(puppet.create("throw a number"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(puppet.error(), "an exception that is not a std::exception was thrown");
}

TEST(Adaptor, RefusesAnOutputThatTheModelDoesNotDeclare) {
  FakeModel model = one_output();
  Instance puppet(&kPuppet);
  ASSERT_EQ(puppet.create("undeclared output"), CAMD_OK);
  EXPECT_EQ(puppet.outputs(model), CAMD_ERROR_CONFIG);
  EXPECT_EQ(puppet.error(), "undeclared output 9: the model has 1");
}

TEST(Adaptor, TurnsAnExceptionInProcessIntoOneFailedFrameWithAOneLineMessage) {
  FakeModel model = one_output();
  Instance puppet(&kPuppet);
  ASSERT_EQ(puppet.create("throw in process"), CAMD_OK);
  ASSERT_EQ(puppet.outputs(model), CAMD_OK);
  EXPECT_EQ(puppet.process(model), CAMD_ERROR_FAILED);
  EXPECT_EQ(puppet.error(), "two lines");
}

TEST(Adaptor, ReportsWhatCouldNotBeFinishedAndFreesTheInstance) {
  Instance puppet(&kPuppet);
  ASSERT_EQ(puppet.create("throw in finish"), CAMD_OK);
  EXPECT_EQ(puppet.destroy(), CAMD_ERROR_FAILED);
  EXPECT_EQ(puppet.error(), "out.mp4: No space left on device");
}

TEST(Adaptor, DestroysNothingWithoutComplaint) {
  camd_error error{};
  EXPECT_EQ(kPuppet.destroy(nullptr, &error), CAMD_OK);
}

TEST(Adaptor, AddsNoDetectionBeyondTheCapacity) {
  FakeModel model = one_output();
  Instance puppet(&kPuppet);
  ASSERT_EQ(puppet.create(""), CAMD_OK);
  ASSERT_EQ(puppet.outputs(model), CAMD_OK);
  puppet.results.capacity = 1;
  ASSERT_EQ(puppet.process(model), CAMD_OK);
  EXPECT_EQ(puppet.found().size(), 1U);
}

TEST(Adaptor, SetsAllOfANewDetectionToZero) {
  camd_detection stale;
  std::memset(&stale, 0xFF, sizeof(stale));
  camd_results list{sizeof(list), 1, 0, &stale};
  const camd_detection* added = camd::plugin::Results(&list).add();
  ASSERT_EQ(added, &stale);
  std::array<unsigned char, sizeof(stale)> bytes{};
  std::memcpy(bytes.data(), added, sizeof(stale));
  EXPECT_EQ(bytes, (std::array<unsigned char, sizeof(stale)>{}));
}

TEST(Adaptor, AsksForRoomForDetections) {
  FakeModel model = one_output();
  Instance puppet(&kPuppet);
  ASSERT_EQ(puppet.create("many detections"), CAMD_OK);
  ASSERT_EQ(puppet.outputs(model), CAMD_OK);
  EXPECT_EQ(puppet.need.detections, 4096);
}

TEST(Adaptor, CountsAndShowsLevels) {
  FakeModel model = one_output();
  Instance puppet(&kPuppet);
  ASSERT_EQ(puppet.create(""), CAMD_OK);
  ASSERT_EQ(puppet.outputs(model), CAMD_OK);
  ASSERT_EQ(puppet.process(model), CAMD_OK);
  ASSERT_EQ(puppet.process(model), CAMD_OK);
  EXPECT_EQ(puppet.host.number_lines(), (std::vector<std::string>{"values 6", "level 0"}));
  const auto* counters = static_cast<const camd_plugin_counters*>(kPuppet.get_extension(CAMD_EXTENSION_COUNTERS));
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(counters->sample(puppet.instance, &puppet.problem), CAMD_OK);
  EXPECT_EQ(puppet.host.number_lines(), (std::vector<std::string>{"values 6", "level 4.5"}));
}

TEST(Adaptor, OffersToBeSampledOnlyWhereTheClassSamples) {
  EXPECT_EQ(kPlain.get_extension(CAMD_EXTENSION_COUNTERS), nullptr);
  EXPECT_NE(kPuppet.get_extension(CAMD_EXTENSION_COUNTERS), nullptr);
  EXPECT_EQ(kPuppet.get_extension(CAMD_EXTENSION_EVENTS), nullptr);
}

TEST(Adaptor, TurnsAnExceptionInSampleIntoAnError) {
  Instance puppet(&kPuppet);
  ASSERT_EQ(puppet.create("throw in sample"), CAMD_OK);
  const auto* counters = static_cast<const camd_plugin_counters*>(kPuppet.get_extension(CAMD_EXTENSION_COUNTERS));
  EXPECT_EQ(counters->sample(puppet.instance, &puppet.problem), CAMD_ERROR_FAILED);
  EXPECT_EQ(puppet.error(), "no gauge");
}

TEST(Adaptor, SaysThatAClassKeepsNothingWhereTheClassSaysSo) {
  EXPECT_EQ(kPlain.get_extension(CAMD_EXTENSION_STATELESS), nullptr);
  const void* said = kForgetful.get_extension(CAMD_EXTENSION_STATELESS);
  ASSERT_NE(said, nullptr);
  EXPECT_EQ(static_cast<const camd_plugin_stateless*>(said)->struct_size, sizeof(camd_plugin_stateless));
}

TEST(Adaptor, OpensFilesAnewWhereTheClassDoes) {
  EXPECT_EQ(kPlain.get_extension(CAMD_EXTENSION_REOPEN), nullptr);
  Instance puppet(&kPuppet);
  ASSERT_EQ(puppet.create(""), CAMD_OK);
  EXPECT_EQ(puppet.reopen(), CAMD_OK);
  EXPECT_EQ(puppet.host.number_lines().at(0), "values 100");
  Instance careless(&kPuppet);
  ASSERT_EQ(careless.create("throw in reopen"), CAMD_OK);
  EXPECT_EQ(careless.reopen(), CAMD_ERROR_FAILED);
  EXPECT_EQ(careless.error(), "out.txt: Permission denied");
}

TEST(Adaptor, ThrowsWhatCamdSaysOfACounterThatItRefuses) {
  Instance puppet(&kPuppet);
  EXPECT_EQ(puppet.create("bad counter"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(puppet.error(), "'a b' is no name");
}

TEST(Adaptor, AddsEventsUntilTheFrameIsFullAndThrowsForABadOne) {
  FakeModel model = one_output();
  Instance puppet(&kPuppet);
  ASSERT_EQ(puppet.create("many events"), CAMD_OK);
  ASSERT_EQ(puppet.outputs(model), CAMD_OK);
  ASSERT_EQ(puppet.process(model), CAMD_OK);
  EXPECT_EQ(puppet.host.events.size(), static_cast<std::size_t>(CAMD_MAX_EVENTS));
  Instance careless(&kPuppet);
  ASSERT_EQ(careless.create("nameless event"), CAMD_OK);
  ASSERT_EQ(careless.outputs(model), CAMD_OK);
  EXPECT_EQ(careless.process(model), CAMD_ERROR_FAILED);
  EXPECT_EQ(careless.error(),
            "event '' was refused: it needs a name and finite numbers, and a process() to be added in");
}

TEST(Adaptor, WorksWithACamdThatKnowsNoExtension) {
  FakeModel model = one_output();
  Instance puppet(&kPuppet);
  puppet.host.has_extensions = false;
  ASSERT_EQ(puppet.create("many events"), CAMD_OK);
  ASSERT_EQ(puppet.outputs(model), CAMD_OK);
  EXPECT_EQ(puppet.process(model), CAMD_OK);
  EXPECT_TRUE(puppet.host.numbers.empty());
  EXPECT_TRUE(puppet.host.events.empty());
}

TEST(EventText, IsCutAtACharacterAndItsNumbersAreCounted) {
  camd::plugin::Event event(std::string(46, 'a') + "ä");
  event.zone("porch").track(7).number("dwell_s", 1.5);
  EXPECT_EQ(std::string(event.get().name), std::string(46, 'a'));
  EXPECT_STREQ(event.get().zone, "porch");
  EXPECT_EQ(event.get().track_id, 7U);
  EXPECT_EQ(event.get().number_count, 1);
  for (int i = 1; i < CAMD_EVENT_NUMBERS; ++i) event.number("more", i);
  EXPECT_THROW(event.number("one too many", 0), std::length_error);
  EXPECT_EQ(event.get().number_count, CAMD_EVENT_NUMBERS);
}

TEST(ErrorText, IsCutBeforeACharacterThatDoesNotFit) {
  camd_error error{};
  // 511 bytes fit; the two bytes of the umlaut would be bytes 511 and 512.
  camd::plugin::set_error(&error, std::string(510, 'a') + "ä");
  EXPECT_EQ(std::string(error.message), std::string(510, 'a'));
  camd::plugin::set_error(&error, std::string(509, 'a') + "ä!");
  EXPECT_EQ(std::string(error.message), std::string(509, 'a') + "ä");
}

TEST(ErrorText, OfExactlyTheRoomThatThereIsStaysWhole) {
  camd_error error{};
  camd::plugin::set_error(&error, std::string(511, 'a'));
  EXPECT_EQ(std::string(error.message), std::string(511, 'a'));
}

TEST(ErrorText, MayHaveNowhereToGo) { camd::plugin::set_error(nullptr, "nobody listens"); }

class HostTensor : public ::testing::Test {
 protected:
  std::array<float, 6> values{1, 2, 3, 4, 5, 6};
  std::array<std::int64_t, 2> shape{2, 3};
  std::array<std::int64_t, 2> strides{3, 1};
  DLTensor tensor{values.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape.data(), nullptr, 0};

  std::string refusal(const DLTensor* of) {
    try {
      static_cast<void>(camd::plugin::host_tensor<float>(of, "box"));
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "";
  }
};

TEST_F(HostTensor, GivesShapeAndElements) {
  const auto view = camd::plugin::host_tensor<float>(&tensor, "box");
  EXPECT_EQ(view.size(), 6);
  EXPECT_EQ(view.ndim(), 2);
  EXPECT_EQ(view.dim(1), 3);
  EXPECT_EQ(view[5], 6.0F);
}

TEST_F(HostTensor, ReadsFromTheByteOffset) {
  tensor.byte_offset = 4;
  shape = {1, 3};
  EXPECT_EQ(camd::plugin::host_tensor<float>(&tensor, "box")[0], 2.0F);
}

TEST_F(HostTensor, ReadsPageLockedMemory) {
  tensor.device.device_type = kDLCUDAHost;
  EXPECT_EQ(refusal(&tensor), "");
}

TEST_F(HostTensor, TakesStridesThatSayCompact) {
  tensor.strides = strides.data();
  EXPECT_EQ(refusal(&tensor), "");
  strides = {1, 2};
  EXPECT_EQ(refusal(&tensor), "tensor 'box': is not compact and row-major");
}

TEST_F(HostTensor, RefusesDeviceMemory) {
  tensor.device.device_type = kDLCUDA;
  EXPECT_EQ(refusal(&tensor), "tensor 'box': is in memory that the CPU cannot read (DLPack device type 2)");
}

TEST_F(HostTensor, RefusesAnotherType) {
  tensor.dtype = {kDLFloat, 16, 1};
  EXPECT_EQ(refusal(&tensor), "tensor 'box': holds DLPack type 2 of 16 bits, wanted 2 of 32");
}

TEST_F(HostTensor, RefusesWhatWasNotAskedFor) {
  EXPECT_EQ(refusal(nullptr), "tensor 'box': not there: ask for it with CAMD_NEED_HOST in outputs()");
  tensor.data = nullptr;
  EXPECT_EQ(refusal(&tensor), "tensor 'box': has no data: ask for it with CAMD_NEED_HOST in outputs()");
}

TEST_F(HostTensor, RefusesAnotherShapeThanDeclared) {
  const std::array<std::int64_t, 2> declared{3, 2};
  try {
    static_cast<void>(camd::plugin::host_tensor<float>(&tensor, "box", declared.data(), 2));
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "tensor 'box': is [2,3], wanted [3,2]");
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
