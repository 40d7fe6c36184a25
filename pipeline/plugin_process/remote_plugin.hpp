// RemotePlugin: an instance in a worker process.
//
// A frame costs the host two copies of what was detected so far, in and out, and two wake-ups. Tensors are not copied
// where they lie in shared memory (allocate_shared()); others are copied there with each call and counted.
//
// What the worker answers is copied once and then checked as anything that comes from outside. A worker that keeps on
// writing changes nothing any more.
//
// Threads: as PluginInstance; died(), revive(), given_up() on the worker's thread.
// Invariants: nothing waits for the process without a bound. A frame that the plug-in had when its process ended, and
// each that it could not be given, is counted; what it left of them is not taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/plugin/plugin_outlet.hpp"
#include "pipeline/plugin/plugin_question.hpp"
#include "pipeline/plugin_process/protocol.hpp"
#include "pipeline/plugin_process/shared_memory.hpp"
#include "pipeline/plugin_process/worker.hpp"

namespace camd::pipeline {

// How long a plug-in in a process may take for what is no frame.
struct RemotePatience {
  base::Duration set_up = std::chrono::seconds(30);         // create(), with loading, and outputs()
  base::Duration others = std::chrono::milliseconds(1000);  // destroy(), reopen(), cameras
  // True: somebody wants to stop, and waits no longer than `others`. May be empty.
  std::function<bool()> stop_asked{};
};

// camd_host.reloads of an instance: at first, and the largest that there is, of which a restart gets the next.
struct RemoteReloads {
  std::uint32_t first = 0;
  std::shared_ptr<std::atomic<std::uint32_t>> latest;
};

class RemotePlugin final : public PluginInstance, public WorkerGuest {
 public:
  // Makes the process know this instance. `file` is what the worker loads where that is not the entry's own path.
  // `give_up` is called once, on the worker's thread, where the plug-in is given up. Throws Error(kPlugin).
  RemotePlugin(std::shared_ptr<Worker> worker, PluginSpec spec, const std::string& file, RemoteReloads reloads,
               RemotePatience patience, std::function<void()> give_up);
  ~RemotePlugin() override;
  RemotePlugin(const RemotePlugin&) = delete;
  RemotePlugin& operator=(const RemotePlugin&) = delete;

  // [blocks] Asks the plug-in about its configuration; there need be no instance. Throws Error(kPlugin).
  void check(PluginQuestion& question);
  // [blocks] Creates the instance in the worker. Once, before the rest. Throws Error(kPlugin).
  void create();
  void declare(const camd_model& model) override;
  [[nodiscard]] const PluginNeeds& needs() const noexcept override { return needs_; }
  [[nodiscard]] std::unique_ptr<PreparedFrame> prepare(const camd_tensors& tensors) override;
  [[nodiscard]] CallResult call(PreparedFrame* prepared, const camd_frame& frame, const camd_tensors& tensors,
                                camd_results& results, FrameEvents& events, camd_error& error,
                                bool& moved) noexcept override;
  void sample() override;
  [[nodiscard]] std::string reopen() override;
  [[nodiscard]] PluginNumbers numbers() const override;
  [[nodiscard]] bool knows_cameras() const noexcept override { return (extensions_ & wire::kOffersCameras) != 0; }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept override { return names_; }
  void rename(std::vector<std::string> names) override;
  [[nodiscard]] void* open(std::int32_t index, const std::string& name) override;
  [[nodiscard]] void* exchange(std::int32_t index, void* camera) noexcept override;
  [[nodiscard]] std::string close(void* camera) override;
  std::string destroy() noexcept override;
  [[nodiscard]] bool bounded() const noexcept override { return true; }
  [[nodiscard]] bool works_on(const FrameEvents& events) const noexcept override {
    return events_.load(std::memory_order_relaxed) == &events;
  }
  [[nodiscard]] bool works() const noexcept override { return false; }  // its process can be ended at any time
  [[nodiscard]] bool is(const PluginSpec& spec) const override;
  [[nodiscard]] bool is_current() const override;

  std::string died(const std::string& why) noexcept override;
  [[nodiscard]] std::string place() const override { return crash_place_; }
  void revive() override;
  void given_up(const std::string& why) noexcept override;

 private:
  class Prepared;
  struct Mapped {
    std::shared_ptr<const SharedRegion> region;
    int uses = 0;
  };
  struct File {
    std::uint64_t device = 0, inode = 0, size_bytes = 0;
    std::int64_t changed_ns = 0;
    friend bool operator==(const File&, const File&) = default;
  };
  enum class Wait : std::uint8_t { kDone, kDied, kLate, kNonsense };

  [[nodiscard]] static File file_at(const std::string& path);
  void connect() CAMD_REQUIRES(mutex_);
  void ask_create() CAMD_REQUIRES(mutex_);
  [[nodiscard]] PluginNeeds ask_needs() CAMD_REQUIRES(mutex_);
  // One call that is no frame. Returns its code; the message is in `message_`. Throws Error(kPlugin) where the process
  // ends or takes longer than `patience`, and ends it then.
  std::int32_t request(wire::Op op, base::Duration patience, const std::string& what) CAMD_REQUIRES(mutex_);
  std::int32_t request(wire::Op op, const std::vector<char>& blob, base::Duration patience, const std::string& what)
      CAMD_REQUIRES(mutex_);
  void map(const std::shared_ptr<const SharedRegion>& region) CAMD_REQUIRES(mutex_);
  void send_region(const SharedRegion& region) CAMD_REQUIRES(mutex_);
  void send_prepared(const Prepared& prepared) CAMD_REQUIRES(mutex_);
  void forget(Prepared& prepared) noexcept;
  void unmap(std::uint32_t region) CAMD_REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t begin(wire::Op op) noexcept CAMD_REQUIRES(mutex_);
  [[nodiscard]] Wait wait(std::uint32_t number, base::TimePoint deadline) noexcept CAMD_REQUIRES(mutex_);
  void put_frame(const camd_frame& frame) CAMD_REQUIRES(mutex_);
  void put_picture(const camd_picture& picture) CAMD_REQUIRES(mutex_);
  // True: the process can read the planes where they are, and `orders_` say where.
  [[nodiscard]] bool shows_picture(const camd_picture& picture) CAMD_REQUIRES(mutex_);
  void copy_picture(const camd_picture& picture) CAMD_REQUIRES(mutex_);
  // Of pictures that are gone.
  void unmap_pictures() CAMD_REQUIRES(mutex_);
  [[nodiscard]] CallResult lost(camd_error& error, const std::string& why) noexcept;
  void note_error(const std::string& why) const;
  void keep_counters() CAMD_REQUIRES(counters_mutex_);
  void read_outlet() CAMD_REQUIRES(mutex_);
  [[nodiscard]] std::string place_of_crash() const;

  const std::shared_ptr<Worker> worker_;
  const PluginSpec spec_;
  const std::string prefix_;
  const std::string file_;
  const File loaded_;
  RemoteReloads reloads_;
  const RemotePatience patience_;
  const std::function<void()> give_up_;
  MemoryFile orders_file_, answers_file_;
  wire::Orders& orders_;
  wire::Answers& answers_;

  std::atomic<bool> ready_{false};  // the process runs and is set up
  std::atomic<bool> leaving_{false};
  std::atomic<FrameEvents*> events_{nullptr};
  std::atomic<std::uint64_t> frames_lost_{0}, deadline_missed_{0}, bytes_copied_{0};
  std::uint32_t extensions_ = 0;  // [setup]
  PluginNeeds needs_;             // [setup]
  std::string name_;              // [setup]
  std::string confinement_;       // [setup]
  std::vector<std::string> names_;

  mutable base::Mutex mutex_;  // a call at a time
  Descriptor socket_ CAMD_GUARDED_BY(mutex_);
  std::uint32_t number_ CAMD_GUARDED_BY(mutex_) = 0;
  std::string message_ CAMD_GUARDED_BY(mutex_);
  std::vector<char> model_ CAMD_GUARDED_BY(mutex_);  // what outputs() was told; empty before
  std::map<std::uint32_t, Mapped> regions_ CAMD_GUARDED_BY(mutex_);
  std::vector<Prepared*> prepared_ CAMD_GUARDED_BY(mutex_);
  std::uint32_t last_prepared_ CAMD_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> picture_regions_ CAMD_GUARDED_BY(mutex_);  // that are mapped for pictures
  std::shared_ptr<std::byte> picture_ CAMD_GUARDED_BY(mutex_);          // where pictures of other memory are copied to
  std::size_t picture_bytes_ CAMD_GUARDED_BY(mutex_) = 0;
  bool destroyed_ CAMD_GUARDED_BY(mutex_) = false;
  std::atomic<wire::Op> doing_{wire::Op::kNone};
  std::string crash_place_;  // the worker's thread

  mutable base::Mutex error_mutex_;
  mutable std::string last_error_ CAMD_GUARDED_BY(error_mutex_);
  mutable base::Mutex counters_mutex_;
  struct Known {
    std::string name;
    camd_counter_kind kind = CAMD_COUNTER;
    std::uint64_t before = 0;  // counted by processes that have ended
    std::uint64_t latest = 0;
    double level = 0;
  };
  // Made once each, so that names stay where they are.
  mutable std::vector<std::unique_ptr<Known>> known_ CAMD_GUARDED_BY(counters_mutex_);
  void read_counters() const CAMD_REQUIRES(counters_mutex_);
  PluginOutlet outlet_;                                                    // as the process that runs tells it
  std::vector<OutletRow> outlet_before_ CAMD_GUARDED_BY(counters_mutex_);  // of processes that have ended
};

}  // namespace camd::pipeline
