// The outbox: order, ledger, bounds and the spool, with a connection that tests hold in their hands.
#include "plugins/outbox/outbox.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plugins/outbox/spool.hpp"
#include "tests/plugins/harness.hpp"

namespace camd::plugins {
namespace CAMD_TEST_FILE {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

// The other side. A test says when it is up, and how many messages it acknowledges.
struct Far {
  std::mutex mutex;
  std::condition_variable changed;
  bool up = true;
  bool lose = false;  // the next work() finds the connection lost
  bool deaf = false;  // each message ends the connection
  std::size_t window = 4;
  std::size_t may_acknowledge = 1'000'000;
  std::string refuse;                 // the payload that it does not want
  std::vector<std::string> received;  // payloads, in their order, those that came again too
  int opened = 0;
  bool woken = false;
  int wakes = 0;
  bool hold = false;     // work() does not return
  bool working = false;  // it has begun

  void set(const std::function<void(Far&)>& change) {
    const std::lock_guard lock(mutex);
    change(*this);
    woken = true;
    changed.notify_all();
  }
  // [blocks] until the other side has got so many.
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return received.size() >= count; });
    return received;
  }
};

class FarConnection final : public Connection {
 public:
  explicit FarConnection(Far& far) : far_(far) {}
  [[nodiscard]] std::string name() const override { return "far"; }
  void open() override {
    const std::lock_guard lock(far_.mutex);
    ++far_.opened;
    far_.changed.notify_all();
    if (!far_.up) throw std::runtime_error("connection refused");
    ready_ = true;
  }
  [[nodiscard]] bool ready() const override { return ready_; }
  [[nodiscard]] std::size_t window() const override { return far_.window; }
  void send(std::uint64_t id, const Message& message) override {
    const std::lock_guard lock(far_.mutex);
    if (!far_.up) throw std::runtime_error("connection reset");
    sent_.emplace_back(id, message.payload);
    far_.received.push_back(message.payload);
    far_.changed.notify_all();
  }
  void work(Answers& answers, milliseconds most) override {
    std::vector<std::pair<std::uint64_t, bool>> told;
    {
      std::unique_lock lock(far_.mutex);
      far_.working = true;
      far_.changed.notify_all();
      far_.changed.wait(lock, [&] { return !far_.hold; });
      const auto may_tell = [&] { return !sent_.empty() && far_.may_acknowledge > 0; };
      far_.changed.wait_for(lock, most, [&] { return far_.woken || !far_.up || far_.lose || may_tell(); });
      far_.woken = false;
      if (far_.deaf && !sent_.empty()) throw std::runtime_error("HTTP 401");
      if (!far_.up || std::exchange(far_.lose, false)) throw std::runtime_error("connection reset");
      while (may_tell()) {
        told.emplace_back(sent_.front().first, sent_.front().second != far_.refuse);
        sent_.pop_front();
        --far_.may_acknowledge;
      }
    }
    for (const auto& [id, good] : told) {
      if (good) {
        answers.acknowledged(id);
      } else {
        answers.refused(id, "not wanted");
      }
    }
  }
  void wake() noexcept override {
    const std::lock_guard lock(far_.mutex);
    far_.woken = true;
    ++far_.wakes;
    far_.changed.notify_all();
  }
  void close(bool /*politely*/) noexcept override {
    ready_ = false;
    sent_.clear();
  }

 private:
  Far& far_;
  bool ready_ = false;
  std::deque<std::pair<std::uint64_t, std::string>> sent_;
};

class OutboxTest : public testing::InFolder {
 protected:
  OutboxTest() {
    options.retry_min = options.retry_max = milliseconds(1);
    options.linger = milliseconds(0);
    options.spool_after = milliseconds(0);
  }
  void make() {
    box = std::make_unique<Outbox>(options, std::make_unique<FarConnection>(far), folder_.string(),
                                   [this](camd_log_level, const std::string& line) {
                                     const std::lock_guard lock(log_mutex);
                                     log.push_back(line);
                                   });
    box->add_camera("door");
  }
  void put(const std::string& payload, const char* camera = "door") { box->put(camera, "t", payload, false); }
  // [blocks] until the ledger of "door" says so.
  OutboxTotals wait_until(const std::function<bool(const OutboxTotals&)>& is) const {
    for (;;) {
      const OutboxTotals now = totals();
      EXPECT_TRUE(now.balanced());
      if (is(now)) return now;
      std::this_thread::yield();
    }
  }
  OutboxTotals totals(const std::string& camera = "door") const {
    for (const OutboxRow& row : box->totals()) {
      if (row.camera == camera) return row.totals;
    }
    return {};
  }
  static std::uint64_t dropped(const OutboxTotals& totals, OutboxDrop why) {
    return totals.dropped.at(static_cast<std::size_t>(why));
  }

  Far far;
  OutboxOptions options;
  std::unique_ptr<Outbox> box;
  std::mutex log_mutex;
  std::vector<std::string> log;
};

TEST_F(OutboxTest, SendsInOrderAndCountsWhatTheOtherSideHas) {
  make();
  box->start();
  for (const char* one : {"1", "2", "3", "4", "5", "6"}) put(one);
  const OutboxTotals end = wait_until([](const OutboxTotals& t) { return t.acknowledged == 6; });
  EXPECT_EQ(end.taken, 6U);
  EXPECT_EQ(end.waiting, 0U);
  EXPECT_THAT(far.received, ElementsAre("1", "2", "3", "4", "5", "6"));
}

TEST_F(OutboxTest, WakesASenderThatSleepsOnceForManyMessages) {
  far.hold = true;
  make();
  box->start();
  {
    std::unique_lock lock(far.mutex);
    far.changed.wait(lock, [this] { return far.working; });
  }
  for (const char* one : {"1", "2", "3"}) put(one);
  far.set([](Far& f) {
    EXPECT_EQ(f.wakes, 1);
    f.hold = false;
  });
  static_cast<void>(wait_until([](const OutboxTotals& t) { return t.acknowledged == 3; }));
}

TEST_F(OutboxTest, KeepsWhatIsNotAcknowledgedWaiting) {
  far.may_acknowledge = 2;
  make();
  box->start();
  for (const char* one : {"1", "2", "3", "4", "5", "6", "7"}) put(one);
  const OutboxTotals now = wait_until([](const OutboxTotals& t) { return t.acknowledged == 2; });
  EXPECT_EQ(now.taken, 7U);
  EXPECT_EQ(now.waiting, 5U);
  EXPECT_THAT(far.wait_for(6), ElementsAre("1", "2", "3", "4", "5", "6"));  // a window of four further ones
}

TEST_F(OutboxTest, SendsAgainInOrderWhatALostConnectionHadNotAcknowledged) {
  far.may_acknowledge = 1;
  make();
  box->start();
  for (const char* one : {"1", "2", "3"}) put(one);
  static_cast<void>(far.wait_for(3));
  static_cast<void>(wait_until([](const OutboxTotals& t) { return t.acknowledged == 1; }));
  far.set([](Far& f) {
    f.lose = true;
    f.may_acknowledge = 100;
  });
  static_cast<void>(wait_until([](const OutboxTotals& t) { return t.acknowledged == 3; }));
  EXPECT_THAT(far.received, ElementsAre("1", "2", "3", "2", "3"));
}

TEST_F(OutboxTest, DropsTheOldestThatIsNotOnItsWayWhenFull) {
  options.capacity = 3;
  make();
  for (const char* one : {"1", "2", "3", "4", "5"}) put(one);
  EXPECT_EQ(dropped(totals(), OutboxDrop::kFull), 2U);
  box->start();
  static_cast<void>(wait_until([](const OutboxTotals& t) { return t.acknowledged == 3; }));
  EXPECT_THAT(far.received, ElementsAre("3", "4", "5"));
}

TEST_F(OutboxTest, KeepsTheOldestWhenToldSo) {
  options.capacity = 3;
  options.full = OutboxOptions::Full::kOldest;
  make();
  for (const char* one : {"1", "2", "3", "4", "5"}) put(one);
  box->start();
  const OutboxTotals end = wait_until([](const OutboxTotals& t) { return t.acknowledged == 3; });
  EXPECT_EQ(dropped(end, OutboxDrop::kFull), 2U);
  EXPECT_THAT(far.received, ElementsAre("1", "2", "3"));
}

TEST_F(OutboxTest, BoundsTheBytesInMemoryAndRefusesWhatIsTooBig) {
  options.memory_bytes = 100'000;
  make();
  put(std::string(25'001, 'x'));
  EXPECT_EQ(dropped(totals(), OutboxDrop::kTooBig), 1U);
  for (int i = 0; i < 10; ++i) put(std::string(20'000, 'y'));
  const OutboxTotals now = totals();
  EXPECT_TRUE(now.balanced());
  EXPECT_EQ(now.taken, 11U);
  EXPECT_GE(now.waiting, 2U);
  EXPECT_LE(now.waiting, 5U);  // 100,000 bytes
}

TEST_F(OutboxTest, CountsWhatTheOtherSideRefuses) {
  far.refuse = "2";
  make();
  box->start();
  for (const char* one : {"1", "2", "3"}) put(one);
  const OutboxTotals end = wait_until([](const OutboxTotals& t) { return t.waiting == 0 && t.taken == 3; });
  EXPECT_EQ(end.acknowledged, 2U);
  EXPECT_EQ(dropped(end, OutboxDrop::kRefused), 1U);
}

TEST_F(OutboxTest, TellsALostConnectionOnceAndTriesAgain) {
  far.up = false;
  make();
  box->start();
  put("1");
  {
    std::unique_lock lock(far.mutex);
    far.changed.wait(lock, [&] { return far.opened >= 5; });
  }
  far.set([](Far& f) { f.up = true; });
  static_cast<void>(wait_until([](const OutboxTotals& t) { return t.acknowledged == 1; }));
  const std::lock_guard lock(log_mutex);
  EXPECT_THAT(log, ElementsAre("far: connection refused; tried again until it is back", "far: connected"));
}

// A server that takes every connection and wants another password.
TEST_F(OutboxTest, TellsASideThatTakesConnectionsAndNoMessageOnce) {
  far.deaf = true;
  make();
  box->start();
  put("a");
  static_cast<void>(far.wait_for(4));
  far.set([](Far& now) { now.deaf = false; });
  static_cast<void>(wait_until([](const OutboxTotals& now) { return now.acknowledged == 1; }));
  box->stop();
  const std::lock_guard lock(log_mutex);
  EXPECT_THAT(log, ElementsAre("far: connected", "far: HTTP 401; tried again until it is back", "far: connected"));
}

TEST_F(OutboxTest, DropsWhatIsLeftAtTheEndAsShutdown) {
  far.up = false;
  make();
  box->start();
  for (const char* one : {"1", "2"}) put(one);
  box->stop();
  const OutboxTotals end = totals();
  EXPECT_EQ(end.waiting, 0U);
  EXPECT_EQ(dropped(end, OutboxDrop::kShutdown), 2U);
}

TEST_F(OutboxTest, SendsWhatIsLeftAtTheEndIfThereIsTime) {
  options.linger = std::chrono::seconds(60);  // ends when all is acknowledged
  make();
  box->start();
  for (int i = 0; i < 100; ++i) put(std::to_string(i));
  box->stop();
  EXPECT_EQ(totals().acknowledged, 100U);
}

TEST_F(OutboxTest, KeepsTheRowOfACameraThatHasGoneUntilItsMessagesHave) {
  far.up = false;
  make();
  put("1");
  box->add_camera("gate");
  put("2", "gate");
  box->remove_camera("door");
  EXPECT_EQ(totals("door").waiting, 1U);
  far.set([](Far& f) { f.up = true; });
  box->start();
  for (;;) {
    if (totals("").acknowledged == 1) break;
    std::this_thread::yield();
  }
  EXPECT_EQ(totals("door").taken, 0U);
}

// ---- With a spool

TEST_F(OutboxTest, SpoolsWhileThereIsNoConnectionAndSendsInOrderAfterwards) {
  options.spool = path("spool");
  far.up = false;
  make();
  box->start();
  for (int i = 0; i < 5; ++i) put("spooled " + std::to_string(i));
  const OutboxTotals down = wait_until([](const OutboxTotals& t) { return t.spooled == 5; });
  EXPECT_EQ(down.waiting, 0U);
  far.set([](Far& f) { f.up = true; });
  static_cast<void>(wait_until([](const OutboxTotals& t) { return t.acknowledged == 5; }));
  put("live");
  static_cast<void>(wait_until([](const OutboxTotals& t) { return t.acknowledged == 6; }));
  EXPECT_THAT(far.received, ElementsAre("spooled 0", "spooled 1", "spooled 2", "spooled 3", "spooled 4", "live"));
}

// As a broker that has stopped answering: what is on its way has its places for long, and nothing may be lost.
TEST_F(OutboxTest, SpoolsWhatComesWhileTheOtherSideTakesMessagesAndAcknowledgesNone) {
  options.spool = folder_.string() + "/spool";
  options.capacity = 8;
  options.spool_after = std::chrono::hours(1);
  far.window = 1000;
  far.may_acknowledge = 0;
  make();
  box->start();
  std::vector<std::string> all;
  for (std::uint64_t i = 0; i < 50; ++i) {
    all.push_back(std::to_string(i));
    put(all.back());
    // Room again: on its way, or on disk.
    static_cast<void>(wait_until([&](const OutboxTotals& now) { return now.waiting <= 6; }));
  }
  EXPECT_EQ(totals().dropped_for(OutboxDrop::kFull), 0U);
  EXPECT_GE(totals().spooled, 44U);
  far.set([](Far& now) { now.may_acknowledge = 1000; });
  static_cast<void>(wait_until([](const OutboxTotals& now) { return now.acknowledged == 50; }));
  EXPECT_EQ(far.wait_for(50), all);
}

// As a host that does not answer, or a client's library that ends its threads: the connection keeps the sender.
TEST_F(OutboxTest, SpoolsWhatComesWhileTheConnectionKeepsItsThread) {
  options.spool = path("spool");
  options.capacity = 8;
  options.spool_after = std::chrono::hours(1);
  make();
  far.hold = true;
  box->start();
  {
    std::unique_lock lock(far.mutex);
    far.changed.wait(lock, [&] { return far.working; });
  }
  std::vector<std::string> all;
  for (std::uint64_t i = 0; i < 50; ++i) {
    all.push_back(std::to_string(i));
    put(all.back());
    static_cast<void>(wait_until([&](const OutboxTotals& now) { return now.waiting <= 2; }));
  }
  EXPECT_EQ(dropped(totals(), OutboxDrop::kFull), 0U);
  far.set([](Far& now) { now.hold = false; });
  static_cast<void>(wait_until([](const OutboxTotals& now) { return now.acknowledged == 50; }));
  EXPECT_EQ(far.wait_for(50), all);
}

TEST_F(OutboxTest, SendsWhatWasOnItsWayBeforeWhatWasSpooledMeanwhile) {
  options.spool = path("spool");
  options.capacity = 8;
  options.spool_after = std::chrono::hours(1);
  far.may_acknowledge = 0;
  make();
  box->start();
  std::vector<std::string> wanted{"0", "1", "2", "3"};  // all that may be on their way
  for (std::uint64_t i = 0; i < 12; ++i) {
    wanted.push_back(std::to_string(i));
    put(wanted.back());
    static_cast<void>(wait_until([&](const OutboxTotals& now) { return now.waiting <= 6; }));
    if (i < 4) static_cast<void>(far.wait_for(i + 1));
  }
  static_cast<void>(wait_until([&](const OutboxTotals& now) { return now.spooled >= 5; }));
  far.set([](Far& now) {
    now.lose = true;
    now.may_acknowledge = 1000;
  });
  static_cast<void>(wait_until([](const OutboxTotals& now) { return now.acknowledged == 12; }));
  EXPECT_EQ(far.wait_for(16), wanted);
}

TEST_F(OutboxTest, SpoolsAtTheEndWhatWaitsBehindAConnectionThatKeepsItsThread) {
  options.spool = path("spool");
  options.spool_after = std::chrono::hours(1);
  make();
  far.hold = true;
  box->start();
  {
    std::unique_lock lock(far.mutex);
    far.changed.wait(lock, [&] { return far.working; });
  }
  for (const char* one : {"1", "2"}) put(one);
  box->stop();
  EXPECT_EQ(totals().spooled, 2U);
  EXPECT_EQ(dropped(totals(), OutboxDrop::kShutdown), 0U);
  // The thread that was left behind ends; the next run sends what it spooled.
  make();
  box->start();
  far.set([](Far& now) { now.hold = false; });
  static_cast<void>(wait_until([](const OutboxTotals& now) { return now.acknowledged == 2; }));
  EXPECT_THAT(far.received, ElementsAre("1", "2"));
}

TEST_F(OutboxTest, FindsWhatAnEarlierRunSpooled) {
  options.spool = path("spool");
  far.up = false;
  make();
  box->start();
  put("1");
  put("2", "gate");
  box->stop();
  EXPECT_EQ(totals().spooled, 1U);
  far.set([](Far& f) { f.up = true; });
  make();
  box->remove_camera("door");
  box->start();
  static_cast<void>(far.wait_for(2));
  for (;;) {
    // Cameras that this run does not have are told of together, once nothing of theirs is left.
    if (totals("").acknowledged == 2) break;
    std::this_thread::yield();
  }
  EXPECT_THAT(far.received, ElementsAre("1", "2"));
}

TEST_F(OutboxTest, SecondOfOneIdentityWaitsUntilTheFirstHasStopped) {
  make();
  const std::unique_ptr<Outbox> first = std::move(box);
  first->start();
  first->put("door", "t", "first", false);
  static_cast<void>(far.wait_for(1));
  make();
  box->start();
  put("second");
  first->put("door", "t", "first again", false);
  static_cast<void>(far.wait_for(2));
  first->stop();
  EXPECT_THAT(far.wait_for(3), ElementsAre("first", "first again", "second"));
}

class SpoolTest : public testing::InFolder {
 protected:
  Spool open(std::uint64_t max_bytes = 1 << 20) {
    found.clear();
    return {path("s"), max_bytes, [this](const std::string& camera) {
              found.push_back(camera);
              return static_cast<std::uint32_t>(found.size());
            }};
  }
  static SpoolRecord record(const std::string& payload) { return {"door", {"topic", payload, true}}; }
  std::vector<std::string> read_all(Spool& spool, bool confirm) {
    std::vector<std::string> payloads;
    SpoolRecord read;
    std::uint64_t number = 0;
    std::uint32_t tag = 0;
    for (;;) {
      switch (spool.read(read, number, tag)) {
        case Spool::Read::kNothing: return payloads;
        case Spool::Read::kDamaged: payloads.emplace_back("(damaged)"); break;
        case Spool::Read::kRecord:
          EXPECT_EQ(read.camera, "door");
          EXPECT_EQ(read.message.topic, "topic");
          EXPECT_TRUE(read.message.retain);
          payloads.push_back(read.message.payload);
      }
      if (confirm) spool.confirm(number);
    }
  }
  std::vector<std::string> found;
};

TEST_F(SpoolTest, GivesRecordsInOrderAndAgainUntilTheyAreConfirmed) {
  Spool spool = open();
  for (const char* one : {"1", "2", "3"}) spool.append(record(one), 7);
  EXPECT_THAT(read_all(spool, false), ElementsAre("1", "2", "3"));
  EXPECT_FALSE(spool.has_unread());
  spool.confirm(1);  // out of order
  spool.rewind();
  EXPECT_THAT(read_all(spool, true), ElementsAre("1", "3"));
  EXPECT_EQ(spool.bytes(), 0U);
}

TEST_F(SpoolTest, KeepsWhatWasNotConfirmedOverARestart) {
  {
    Spool spool = open();
    for (const char* one : {"1", "2", "3"}) spool.append(record(one), 7);
    spool.confirm(0);
  }
  Spool spool = open();
  EXPECT_THAT(found, ElementsAre("door", "door"));
  EXPECT_THAT(read_all(spool, true), ElementsAre("2", "3"));
}

TEST_F(SpoolTest, CutsOffATornLastRecord) {
  {
    Spool spool = open();
    for (const char* one : {"1", "2"}) spool.append(record(one), 7);
  }
  const std::string file = path("s/0000000001.spool");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  Spool spool = open();
  EXPECT_THAT(read_all(spool, true), ElementsAre("1"));
}

TEST_F(SpoolTest, TellsARecordThatWasDamagedMeanwhile) {
  Spool spool = open();
  for (const char* one : {"111", "222", "333"}) spool.append(record(one), 7);
  std::fstream file(path("s/0000000001.spool"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(24 + 4 + 5);  // the first payload: behind header, camera and topic
  file.put('x');
  file.close();
  EXPECT_THAT(read_all(spool, true), ElementsAre("(damaged)", "222", "333"));
}

TEST_F(SpoolTest, BeginsAFileEveryFourMebibytesAndRemovesThoseThatAreDone) {
  Spool spool = open(std::uint64_t{64} << 20U);
  for (int i = 0; i < 3; ++i) spool.append(record(std::string(3 << 20U, 'x')), 7);
  EXPECT_THAT(listing("s"), ElementsAre("0000000001.spool", "0000000002.spool", "0000000003.spool", "lock"));
  static_cast<void>(read_all(spool, true));
  spool.save();
  EXPECT_THAT(listing("s"), ElementsAre("confirmed", "lock"));
}

TEST_F(SpoolTest, DropsItsOldestFileWithEveryRecordInIt) {
  Spool spool = open(std::uint64_t{9} << 20U);
  for (int i = 0; i < 4; ++i) spool.append(record(std::string(2 << 20U, 'x')), static_cast<std::uint32_t>(i));
  EXPECT_FALSE(spool.fits(record(std::string(2 << 20U, 'x'))));
  std::vector<std::uint32_t> tags;
  EXPECT_TRUE(spool.drop_oldest([&](std::uint32_t tag) { tags.push_back(tag); }));
  EXPECT_THAT(tags, ElementsAre(0U));
  EXPECT_TRUE(spool.fits(record(std::string(2 << 20U, 'x'))));
}

TEST_F(SpoolTest, RefusesAFolderThatAnotherHas) {
  const Spool spool = open();
  try {
    static_cast<void>(open());
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), path("s") + ": another camd spools there");
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins
