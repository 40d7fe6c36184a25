// The tracks of one camera: which box of a frame is which object.
//
// BoT-SORT without appearance (Aharon et al., "BoT-SORT: Robust Associations Multi-Pedestrian Tracking", 2022), with
// four changes that scripts/measure_tracks.py showed to pay. A box that is out of sight shrinks no more. Boxes grow
// with the time since the frame before, and what is left then is paired with larger boxes once more, both as in C-BIoU
// (Yang et al., "Hard to Track Objects with Irregular Motions and Similar Appearances?", 2023). And where most tracks
// are missed at once, the camera has moved: the shift that most of them share is taken out. All times are times, so
// that frames that were dropped are only a longer step.
//
// Threads: one caller at a time.
// Invariants: update() [no-alloc]: all memory is taken by the constructor. The same frames give the same result. At
// most
//   `capacity` tracks exist and at most as many boxes of a frame take part.
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/track/assignment.hpp"
#include "plugins/track/motion.hpp"

namespace camd::plugins::track {

struct Options {
  float high = 0.6F;                     // boxes with a lower score only continue a track
  float low = 0.1F;                      // boxes with a lower score are left alone
  float start = 0.7F;                    // boxes with at least this score begin a track
  float sure = 0.9F;                     // a track with such a box counts at once
  int confirm = 3;                       // others count when they were seen in so many frames
  float overlap = 0.3F;                  // least overlap, times score, of a box with where its track is expected
  float low_overlap = 0.5F;              // least overlap of a box between `low` and `high`
  float far_overlap = 0.2F;              // least overlap of what is left: both have grown, the more the longer unseen
  std::int64_t keep_ns = 2'000'000'000;  // how long a track that is out of sight is kept
  int capacity = 128;
  bool by_class = true;  // boxes of one class continue only tracks of that class
};

struct Seen {
  Box box{};
  float score = 0.0F;
  int class_id = 0;
  std::uint64_t track_id = 0;  // written by update(); 0 for none, or one that is not confirmed yet
};

enum class Change : std::uint8_t { kStarted, kConfirmed, kLost, kFound, kEnded };

// Something that happened to a track in a frame.
struct Happening {
  Change change = Change::kStarted;
  std::uint64_t track_id = 0;
  int class_id = 0;
  std::int64_t age_ns = 0;   // since it was first seen
  std::int64_t away_ns = 0;  // since it was last seen
  bool confirmed = false;
};

class Tracker {
 public:
  explicit Tracker(const Options& options);

  // One frame, taken `step_ns` after the one before (0 for the first and for a clock that stands or goes back). Writes
  // seen[i].track_id. `next_id` is the number that the next new track gets; it is counted up.
  void update(std::int64_t step_ns, std::vector<Seen>& seen, std::uint64_t& next_id);

  // What the last update() did, in order. A track that ends has its last words here.
  [[nodiscard]] const std::vector<Happening>& happenings() const noexcept { return happenings_; }
  // Tracks that are confirmed and not ended, in sight or not.
  [[nodiscard]] int confirmed() const noexcept;
  // Boxes that could have begun a track, or taken part at all, if there had been room.
  [[nodiscard]] std::uint64_t left_out() const noexcept { return left_out_; }
  // Ends all tracks; returns that.
  const std::vector<Happening>& clear();

 private:
  struct Track {
    std::uint64_t id = 0;
    int class_id = 0;
    int hits = 0;
    bool is_confirmed = false;
    bool in_sight = true;  // seen in the frame before
    bool matched = false;  // in this frame
    std::int64_t born_ns = 0, seen_ns = 0;
    Motion motion{};
    Box expected{};  // in this frame
  };

  template <class Wanted, class Able, class Gain>
  void pair(Wanted&& wanted, Able&& able, Gain&& gain, float least);
  void follow_camera();
  void found(Track& track, Seen& seen);
  void end(const Track& track);
  void note(Change change, const Track& track);

  Options options_;
  std::int64_t now_ns_ = 0;
  std::vector<Track> tracks_;
  std::vector<Seen>* seen_ = nullptr;
  std::vector<char> taken_;  // by box
  std::vector<int> rows_, columns_;
  std::vector<float> cost_;
  Assignment assignment_;
  std::vector<Happening> happenings_;
  std::uint64_t left_out_ = 0;
};

}  // namespace camd::plugins::track
