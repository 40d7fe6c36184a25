#include "apps/http/pictures.hpp"

#include "pipeline/core/plugin_picture.hpp"
#include "plugins/jpeg/jpeg.hpp"

namespace camd::http {
namespace {

constexpr int kQuality = 80;

}  // namespace

std::shared_ptr<const Jpeg> Pictures::ask(const std::string& camera, capture::CameraIndex slot, int most_width) {
  const base::TimePoint now = clock_.now();
  const base::MutexLock lock(mutex_);
  Kept& one = kept_[{camera, most_width}];
  one.asked = now;
  take_over(now);
  if (one.jpeg != nullptr && now - one.jpeg->delivered <= kFreshFor) return one.jpeg;
  tap_.order_picture(slot);
  return nullptr;
}

// Pictures that have come become JPEGs of each width that is asked for.
void Pictures::take_over(base::TimePoint now) {
  std::erase_if(kept_, [now](const auto& one) { return now - one.second.asked > kForgottenAfter; });
  // The lock is held while tap_ calls back.
  tap_.take_pictures([this](const pipeline::TappedPicture& picture) CAMD_NO_THREAD_SAFETY_ANALYSIS {
    for (auto one = kept_.lower_bound({picture.camera, 0}); one != kept_.end() && one->first.first == picture.camera;
         ++one) {
      auto jpeg = std::make_shared<Jpeg>();
      jpeg->bytes = plugins::jpeg_of(pipeline::plugin_picture(picture.layout, picture.pixels), picture.layout.width,
                                     picture.layout.height, one->first.second, kQuality);
      jpeg->sequence = picture.sequence;
      jpeg->width = picture.layout.width;
      jpeg->height = picture.layout.height;
      jpeg->delivered = picture.delivered;
      one->second.jpeg = std::move(jpeg);
    }
  });
}

}  // namespace camd::http
