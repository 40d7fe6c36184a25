// Who is where in one camera's picture: who is in which zone since when, and who has crossed which line.
//
// Threads: one caller at a time.
// Invariants: see() and forget() [no-alloc]: all memory is taken by the constructor. The same sights give the same
//   happenings. Nothing changes before it has held for `settle_ns`: an anchor that trembles on a rim is counted once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plugins/zones/shapes.hpp"

namespace camd::plugins::zones {

constexpr std::size_t kClasses = 256;  // counted apart; classes above share the last place

enum class Kind : std::uint8_t { kEntered, kLeft, kDwelt, kCrossed };

struct Happening {
  Kind kind = Kind::kEntered;
  int shape = 0;  // index of the zone, or of the line for kCrossed
  std::uint64_t track_id = 0;
  int class_id = 0;
  std::int64_t inside_ns = 0;  // kLeft, kDwelt: for how long it was in the zone
  bool out_of_sight = false;   // kLeft: it was not seen any more
  int direction = 0;           // kCrossed: 1 from the left of the line to its right, seen along it; else -1
};

struct Options {
  std::int64_t settle_ns = 200'000'000;
  std::int64_t dwell_ns = 0;               // 0: nobody is told of
  std::int64_t forget_ns = 2'000'000'000;  // after which one that is not seen has left
  int capacity = 256;
};

class Presence {
 public:
  // Those of `shapes` that this camera has are looked at. `shapes` outlives this.
  Presence(const Shapes& shapes, const char* camera, const Options& options);

  // One sight of an object. Times are above 0 and only grow. Appends to happenings().
  void see(std::int64_t now_ns, std::uint64_t track_id, int class_id, Place anchor);
  // After the sights of a frame: who was not seen for too long has left where it was.
  void forget(std::int64_t now_ns);
  // Everybody leaves: the picture is another one.
  void clear();

  [[nodiscard]] const std::vector<Happening>& happenings() const noexcept { return happenings_; }
  void begin_frame() noexcept { happenings_.clear(); }
  [[nodiscard]] int inside(int zone) const { return inside_[static_cast<std::size_t>(zone)]; }
  // How many have entered a zone (direction 0) or crossed a line (1 or -1) since the start, of one class or, with -1,
  // all.
  [[nodiscard]] std::uint64_t count(bool line, int shape, int direction, int class_id) const;
  // Sights of objects that there was no room for.
  [[nodiscard]] std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  // What is settled, and since when the opposite is seen (0: it is not).
  struct InZone {
    bool inside = false;
    std::int64_t since_ns = 0, other_since_ns = 0;
  };
  struct AtLine {
    int side = 0;          // 0: not known yet
    bool through = false;  // the opposite side was reached through the line, not around its end
    std::int64_t other_since_ns = 0;
  };
  struct Person {
    std::uint64_t track_id = 0;
    int class_id = 0;
    bool told_dwell[kMostShapes] = {};
    std::int64_t seen_ns = 0;
    Place anchor{};
    std::array<InZone, kMostShapes> zones{};
    std::array<AtLine, kMostShapes> lines{};
  };
  using Counts = std::array<std::uint64_t, kClasses>;

  void look_at_zone(Person& person, std::size_t zone, bool inside, std::int64_t now_ns);
  void look_at_line(Person& person, std::size_t line, Place anchor, std::int64_t now_ns);
  void leave(Person& person, std::int64_t now_ns, bool out_of_sight);

  const Shapes& shapes_;
  Options options_;
  std::vector<char> has_zone_, has_line_;
  std::vector<Person> people_;
  std::vector<int> inside_;
  std::vector<Counts> entered_, right_, left_;
  std::vector<Happening> happenings_;
  std::uint64_t left_out_ = 0;
};

}  // namespace camd::plugins::zones
