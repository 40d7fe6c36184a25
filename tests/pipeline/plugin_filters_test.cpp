// Filters of outputs that plug-ins ask for: which are refused, and which a chain goes through.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/run/plugin_host.hpp"
#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using test::refusal;

// Of FakeEngine's outputs, scores [1,2] and boxes [1,4]: two cells with a score and two numbers of a box each.
camd_filter filter_of_two_cells() {
  camd_filter filter{2, 1, 0.5F, {0, 1, 0, 1, 0, 0}, 2, {}};
  filter.values[0] = filter.scores;
  filter.values[1] = {1, 2, 0, 2, 0, 1};
  return filter;
}

TEST(PluginFilters, RefusesFiltersThatReachBeyondTheirOutputs) {
  const auto refused = [](const std::function<void(camd_filter&)>& change) {
    return refusal([&](test::FakePlugin& p) {
      p.outputs = 2;
      p.filters = {filter_of_two_cells(), filter_of_two_cells()};
      change(p.filters[1]);
    });
  };
  const std::string begin = "plug-in fake: filter 1 of outputs() ";
  EXPECT_EQ(refused([](camd_filter&) {}), "");
  EXPECT_EQ(refused([](camd_filter& f) { f.cells = 3; }), begin + "reaches beyond output 'scores' of 2 elements");
  EXPECT_EQ(refused([](camd_filter& f) { f.anchors = 0; }),
            begin + "has 2 cells of 0 anchors, allowed are 1 to 16777216 places");
  EXPECT_EQ(refused([](camd_filter& f) { f.cells = std::int64_t{1} << 62; }),
            begin + "has 4611686018427387904 cells of 1 anchors, allowed are 1 to 16777216 places");
  EXPECT_EQ(refused([](camd_filter& f) { f.floor = std::numeric_limits<float>::infinity(); }),
            begin + "has a floor that is not finite");
  EXPECT_EQ(refused([](camd_filter& f) { f.value_count = 0; }), begin + "has a value_count of 0, allowed are 1 to 6");
  EXPECT_EQ(refused([](camd_filter& f) { f.value_count = 7; }), begin + "has a value_count of 7, allowed are 1 to 6");
  EXPECT_EQ(refused([](camd_filter& f) { f.scores.output = 2; }), begin + "names output 2, the model has 2");
  EXPECT_EQ(refused([](camd_filter& f) { f.values[1].output = -1; }), begin + "names output -1, the model has 2");
  const std::string boxes = begin + "reaches beyond output 'boxes' of 4 elements";
  EXPECT_EQ(refused([](camd_filter& f) { f.values[1].first = 1; }), boxes);
  EXPECT_EQ(refused([](camd_filter& f) { f.values[1].first = -1; }), boxes);
  EXPECT_EQ(refused([](camd_filter& f) { f.values[1].channels = 3; }), boxes);
  EXPECT_EQ(refused([](camd_filter& f) { f.values[1].channels = 0; }), boxes);
  EXPECT_EQ(refused([](camd_filter& f) { f.values[1].cell_step = -2; }), boxes);
  EXPECT_EQ(refused([](camd_filter& f) { f.values[1].channel_step = std::numeric_limits<std::int64_t>::max(); }),
            boxes);
  EXPECT_EQ(refused([](camd_filter& f) { f.values[1].first = std::numeric_limits<std::int64_t>::min(); }), boxes);
}

TEST(PluginFilters, RefusesFiltersOfWhatIsNotReadOnTheHost) {
  EXPECT_EQ(refusal([](test::FakePlugin& p) { p.filters = {filter_of_two_cells()}; }),
            "plug-in fake: filter 0 of outputs() names output 'boxes', which is not wanted as HOST");
  EXPECT_EQ(refusal([](test::FakePlugin& p) {
              p.outputs = 2;
              p.filters.assign(CAMD_MAX_FILTERS + 1, filter_of_two_cells());
            }),
            "plug-in fake: outputs() left 33 filters, 0 to 32 can be had");
}

// The filters that a chain goes through whose plug-ins read so many outputs, with a filter or without.
std::size_t filters_of_chain(std::initializer_list<std::pair<int, bool>> plugins) {
  const auto device = device::make_host_device(base::system_clock());
  test::FakeEngine engine(*device, [](const infer::PictureView&) { return base::Status(); });
  std::vector<std::unique_ptr<test::FakePlugin>> fakes;
  PluginHost chain({}, base::system_clock());
  for (const auto& [outputs, filtered] : plugins) {
    fakes.push_back(std::make_unique<test::FakePlugin>(test::takes_it));
    fakes.back()->outputs = outputs;
    if (filtered) fakes.back()->filters = {filter_of_two_cells()};
    fakes.back()->add_to(chain);
  }
  test::declare(chain, engine);
  return chain.needs().filters.size();
}

TEST(PluginFilters, OutputsAreFilteredWhereNobodyReadsThemAsAWhole) {
  EXPECT_EQ(filters_of_chain({{2, true}}), 1U);
  EXPECT_EQ(filters_of_chain({{2, true}, {2, true}}), 2U);
  EXPECT_EQ(filters_of_chain({{2, true}, {0, false}}), 1U);
  EXPECT_EQ(filters_of_chain({{2, true}, {1, false}}), 0U);
  EXPECT_EQ(filters_of_chain({{2, false}, {2, true}}), 0U);
  EXPECT_EQ(filters_of_chain({{2, true}, {2, true}, {1, false}}), 0U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
