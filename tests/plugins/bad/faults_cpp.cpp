// The plug-in of faults.c in C++, as an author would write it: {"how": "NAME", "at": N, "camera": "NAME"}; also
// "throw".
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "plugins/camd_plugin.hpp"
#include "tests/plugins/bad/harm.h"

namespace {

class Faults final : public camd::plugin::Postprocessor {
 public:
  Faults(camd::plugin::Host, std::string_view config_json) {
    const auto config = nlohmann::json::parse(config_json);
    how_ = config.value("how", "");
    camera_ = config.value("camera", "");
    at_ = config.value("at", ~std::uint64_t{0});
  }
  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    if (model.output_count > 0) needs.output(0, CAMD_NEED_HOST);
  }
  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    if (frame.sequence == at_ && (camera_.empty() || camera_ == frame.camera)) {
      if (how_ == "throw") throw std::runtime_error("no good");
      // The list's length is not a C++ author's to write: this takes what lies behind the wrapper.
      camd_error error{};
      std::int32_t count = 0;
      if (do_harm(how_.c_str(), "", tensors.output(0)->data, &count, &error) != CAMD_OK) {
        throw std::runtime_error(error.message);
      }
      while (count-- > 0) {
        if (results.add() == nullptr) throw std::runtime_error("the list is full");
      }
    }
    if (camd_detection* made = results.add()) made->class_id = static_cast<std::int32_t>(getpid());
  }

 private:
  std::string how_, camera_;
  std::uint64_t at_ = 0;
};

}  // namespace

CAMD_PLUGIN(Faults, "faults_cpp", "1.0.0", "does one harm")
