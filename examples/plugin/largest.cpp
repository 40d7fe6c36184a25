// Keeps each frame's largest detection, removes the others, and tells how many these were.
#include <camd/camd_plugin.hpp>

#include <stdexcept>
#include <string_view>

class Largest final : public camd::plugin::Postprocessor {
 public:
  Largest(camd::plugin::Host host, std::string_view config_json) : events_(host.events()) {
    if (config_json != "{}") throw std::invalid_argument("config: there is nothing to configure");
    host.log(CAMD_LOG_INFO, "largest: one detection a frame");
  }

  void process(const camd_frame&, const camd::plugin::Tensors&, camd::plugin::Results& results) override {
    const auto area = [](const camd_detection& d) { return d.box[2] * d.box[3]; };
    const camd_detection* largest = nullptr;
    for (const camd_detection& d : results) {
      if (largest == nullptr || area(d) > area(*largest)) largest = &d;
    }
    if (largest == nullptr) return;
    results[0] = *largest;
    const int others = results.size() - 1;
    int place = 0;
    results.remove_if([&](const camd_detection&) { return place++ > 0; });
    if (others > 0) events_.add(camd::plugin::Event("smaller_removed").number("count", others));
  }

 private:
  camd::plugin::Events events_;
};

CAMD_PLUGIN(Largest, "largest", "1.0.0", "keeps each frame's largest detection")
