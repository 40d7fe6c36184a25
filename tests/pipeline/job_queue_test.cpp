// The queue of jobs: what is done next, and who is woken for it. Most tests play all workers and sources on one thread,
// because the queue itself never blocks.
#include "pipeline/core/job_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <ostream>
#include <thread>
#include <utility>
#include <vector>

namespace camd::pipeline {

// For messages of failed tests.
void PrintTo(JobQueue::Next next, std::ostream* out) {
  *out << (next == JobQueue::Next::kJob ? "kJob" : next == JobQueue::Next::kSleep ? "kSleep" : "kEnd");
}
void PrintTo(Job::Kind kind, std::ostream* out) {
  constexpr const char* kNames[] = {"kNone", "kDispatch", "kComplete", "kPostprocess"};
  *out << kNames[static_cast<int>(kind)];
}

namespace CAMD_TEST_FILE {

using capture::CameraIndex;
using Kind = Job::Kind;
using Next = JobQueue::Next;

// A worker that is played by the test: it has a job, or sleeps until its semaphore is released.
struct Worker {
  explicit Worker(JobQueue& its_queue) : queue(its_queue) {}
  // Its job is done; what next?
  Next next() { return queue.next(wake_up, job); }
  // Its job, a dispatch, is done and had this outcome; what next?
  Next dispatched(bool with_frame = true, bool more = false) {
    job.dispatched = with_frame;
    job.more = more;
    return next();
  }
  bool woken() { return wake_up.try_acquire(); }

  JobQueue& queue;
  base::Semaphore wake_up;
  Job job;
};

// A source that does not want to dispatch itself.
void publish(JobQueue& queue, CameraIndex camera) {
  Job none;
  EXPECT_FALSE(queue.publish(camera, false, none));
  EXPECT_EQ(none.kind, Kind::kNone);
}

// What the job is, and of which camera.
std::pair<Kind, CameraIndex> what(const Job& job) { return {job.kind, job.camera}; }

TEST(JobQueue, SendsAWorkerToSleepWhereNothingIsToBeDone) {
  JobQueue queue({{2}, 1, 3});
  Worker worker(queue);
  EXPECT_EQ(worker.next(), Next::kSleep);
  EXPECT_FALSE(worker.woken());
}

TEST(JobQueue, LeadsAFrameThroughDispatchCompletionAndPostprocessing) {
  JobQueue queue({{2}, 1, 3});
  Worker worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(what(worker.job), std::make_pair(Kind::kDispatch, CameraIndex{0}));
  const int frame = worker.job.frame;
  ASSERT_EQ(worker.dispatched(), Next::kJob);
  EXPECT_EQ(what(worker.job), std::make_pair(Kind::kComplete, CameraIndex{0}));
  EXPECT_EQ(worker.job.frame, frame);
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(what(worker.job), std::make_pair(Kind::kPostprocess, CameraIndex{0}));
  EXPECT_EQ(worker.job.frame, frame);
  EXPECT_EQ(worker.next(), Next::kSleep);
}

TEST(JobQueue, GivesOutDispatchBeforePostprocessingBeforeCompletion) {
  JobQueue queue({{3}, 2, 4});
  Worker worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  ASSERT_EQ(worker.dispatched(true, true), Next::kJob);  // the camera has another frame, and the device has room
  EXPECT_EQ(worker.job.kind, Kind::kDispatch);
  ASSERT_EQ(worker.dispatched(), Next::kJob);  // the device is full
  EXPECT_EQ(worker.job.kind, Kind::kComplete);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);  // a frame to dispatch, one to postprocess and one to complete
  EXPECT_EQ(worker.job.kind, Kind::kDispatch);
  ASSERT_EQ(worker.dispatched(), Next::kJob);
  EXPECT_EQ(worker.job.kind, Kind::kPostprocess);
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.job.kind, Kind::kComplete);
}

TEST(JobQueue, CompletesAndPostprocessesInTheOrderOfDispatch) {
  JobQueue queue({{3}, 3, 4});
  Worker worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  std::vector<int> dispatched;
  for (const bool more : {true, true, false}) {
    ASSERT_EQ(worker.job.kind, Kind::kDispatch);
    dispatched.push_back(worker.job.frame);
    ASSERT_EQ(worker.dispatched(true, more), Next::kJob);
  }
  std::vector<int> completed, postprocessed;
  for (Next next = Next::kJob; next == Next::kJob; next = worker.next()) {
    (worker.job.kind == Kind::kComplete ? completed : postprocessed).push_back(worker.job.frame);
  }
  EXPECT_EQ(completed, dispatched);
  EXPECT_EQ(postprocessed, dispatched);
}

TEST(JobQueue, DispatchesTheCameraWhoseLastDispatchIsTheLongestAgo) {
  JobQueue queue({{8, 8, 8}, 8, 9});
  Worker worker(queue), first(queue), second(queue), third(queue);
  // While somebody sleeps, the queue hears of each frame at once.
  for (Worker* asleep : {&first, &second, &third}) ASSERT_EQ(asleep->next(), Next::kSleep);
  for (const CameraIndex camera : {2U, 0U, 1U}) publish(queue, camera);
  std::vector<CameraIndex> dispatched;
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(i == 0 ? worker.next() : worker.dispatched(true, true), Next::kJob);
    ASSERT_EQ(worker.job.kind, Kind::kDispatch);
    dispatched.push_back(worker.job.camera);
  }
  EXPECT_EQ(dispatched, (std::vector<CameraIndex>{2, 0, 1, 2, 0, 1}));
}

// 20 cameras whose frames come by turns, and a device that takes one for every three that come.
TEST(JobQueue, GivesEachCameraItsShareWhereTheyAskForMoreThanTheDeviceCanDo) {
  constexpr std::size_t kCameras = 20;
  JobQueue queue({std::vector<int>(kCameras, 2), 1, 4});
  Worker worker(queue);
  std::vector<int> dispatched(kCameras, 0);
  std::size_t published = 0;
  const auto publish_three = [&] {
    for (int i = 0; i < 3; ++i) publish(queue, static_cast<CameraIndex>(published++ % kCameras));
  };
  publish_three();
  ASSERT_EQ(worker.next(), Next::kJob);
  for (int i = 0; i < 700; ++i) {
    while (worker.job.kind != Kind::kDispatch) ASSERT_EQ(worker.next(), Next::kJob);
    ++dispatched[worker.job.camera];
    publish_three();
    ASSERT_EQ(worker.dispatched(), Next::kJob);
  }
  const auto [least, most] = std::minmax_element(dispatched.begin(), dispatched.end());
  EXPECT_LE(*most - *least, 1);
}

TEST(JobQueue, DispatchesOneFrameAtATime) {
  JobQueue queue({{8, 8}, 8, 9});
  Worker first(queue), second(queue);
  publish(queue, 0);
  publish(queue, 1);
  ASSERT_EQ(first.next(), Next::kJob);
  EXPECT_EQ(first.job.kind, Kind::kDispatch);
  EXPECT_EQ(second.next(), Next::kSleep);
}

TEST(JobQueue, CompletesOneFrameAtATime) {
  JobQueue queue({{8}, 8, 9});
  Worker first(queue), second(queue);
  publish(queue, 0);
  ASSERT_EQ(first.next(), Next::kJob);
  ASSERT_EQ(first.dispatched(true, true), Next::kJob);
  ASSERT_EQ(first.dispatched(true, false), Next::kJob);  // two frames on the device
  EXPECT_EQ(first.job.kind, Kind::kComplete);
  EXPECT_EQ(second.next(), Next::kSleep);
}

TEST(JobQueue, PostprocessesOneFrameOfACameraAtATime) {
  JobQueue queue({{2, 2}, 3, 4});
  Worker first(queue), second(queue), third(queue);
  publish(queue, 0);
  ASSERT_EQ(first.next(), Next::kJob);
  ASSERT_EQ(first.dispatched(true, true), Next::kJob);
  publish(queue, 1);
  ASSERT_EQ(first.dispatched(), Next::kJob);
  ASSERT_EQ(what(first.job), std::make_pair(Kind::kDispatch, CameraIndex{1}));
  ASSERT_EQ(first.dispatched(), Next::kJob);  // two frames of camera 0 and one of camera 1 are on the device
  ASSERT_EQ(first.job.kind, Kind::kComplete);
  ASSERT_EQ(first.next(), Next::kJob);
  ASSERT_EQ(what(first.job), std::make_pair(Kind::kPostprocess, CameraIndex{0}));
  ASSERT_EQ(second.next(), Next::kJob);
  ASSERT_EQ(what(second.job), std::make_pair(Kind::kComplete, CameraIndex{0}));
  ASSERT_EQ(second.next(), Next::kJob);  // the second frame of camera 0 waits for the first
  ASSERT_EQ(what(second.job), std::make_pair(Kind::kComplete, CameraIndex{1}));
  ASSERT_EQ(second.next(), Next::kJob);
  EXPECT_EQ(what(second.job), std::make_pair(Kind::kPostprocess, CameraIndex{1}));
  EXPECT_EQ(third.next(), Next::kSleep);
  ASSERT_EQ(first.next(), Next::kJob);
  EXPECT_EQ(what(first.job), std::make_pair(Kind::kPostprocess, CameraIndex{0}));
}

TEST(JobQueue, PostprocessesNoMoreFramesAtOnceThanItMay) {
  JobQueue queue({{2, 2, 2}, 3, 6, true, 2});
  EXPECT_EQ(queue.most_workers(), 4U);
  Worker workers[] = {Worker(queue), Worker(queue), Worker(queue), Worker(queue)};
  for (int i : {1, 2, 3}) ASSERT_EQ(workers[i].next(), Next::kSleep);
  for (const CameraIndex camera : {0U, 1U, 2U})
    publish(queue, camera);  // each wakes one: the queue hears of it at once
  ASSERT_EQ(workers[0].next(), Next::kJob);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(workers[0].dispatched(), Next::kJob);
  ASSERT_EQ(what(workers[0].job), std::make_pair(Kind::kComplete, CameraIndex{0}));
  ASSERT_EQ(workers[0].next(), Next::kJob);
  ASSERT_EQ(what(workers[0].job), std::make_pair(Kind::kPostprocess, CameraIndex{0}));
  ASSERT_EQ(workers[1].next(), Next::kJob);
  ASSERT_EQ(workers[1].next(), Next::kJob);
  ASSERT_EQ(what(workers[1].job), std::make_pair(Kind::kPostprocess, CameraIndex{1}));
  ASSERT_EQ(workers[2].next(), Next::kJob);
  ASSERT_EQ(what(workers[2].job), std::make_pair(Kind::kComplete, CameraIndex{2}));
  EXPECT_EQ(workers[2].next(), Next::kSleep);  // two are with their plug-ins
  ASSERT_EQ(workers[0].next(), Next::kJob);
  EXPECT_EQ(what(workers[0].job), std::make_pair(Kind::kPostprocess, CameraIndex{2}));
}

TEST(JobQueue, PostprocessesInTheOrderOfCompletion) {
  JobQueue queue({{2, 2}, 2, 4, true, 1});
  Worker first(queue), second(queue), third(queue);
  for (Worker* asleep : {&second, &third}) ASSERT_EQ(asleep->next(), Next::kSleep);
  publish(queue, 1);
  publish(queue, 0);
  ASSERT_EQ(first.next(), Next::kJob);
  ASSERT_EQ(first.dispatched(), Next::kJob);
  ASSERT_EQ(first.dispatched(), Next::kJob);
  ASSERT_EQ(what(first.job), std::make_pair(Kind::kComplete, CameraIndex{1}));
  ASSERT_EQ(first.next(), Next::kJob);
  ASSERT_EQ(what(first.job), std::make_pair(Kind::kPostprocess, CameraIndex{1}));
  ASSERT_EQ(second.next(), Next::kJob);
  ASSERT_EQ(what(second.job), std::make_pair(Kind::kComplete, CameraIndex{0}));
  ASSERT_EQ(second.next(), Next::kSleep);
  ASSERT_EQ(first.next(), Next::kJob);
  EXPECT_EQ(what(first.job), std::make_pair(Kind::kPostprocess, CameraIndex{0}));
}

TEST(JobQueue, KeepsTheDeviceToItsDepthAndACameraToItsLimit) {
  JobQueue queue({{1, 2}, 2, 4});
  Worker worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  ASSERT_EQ(worker.dispatched(true, true), Next::kJob);
  ASSERT_EQ(worker.job.kind, Kind::kComplete);  // camera 0 is at its limit
  publish(queue, 1);
  Worker other(queue);
  ASSERT_EQ(other.next(), Next::kJob);
  ASSERT_EQ(what(other.job), std::make_pair(Kind::kDispatch, CameraIndex{1}));
  EXPECT_EQ(other.dispatched(true, true), Next::kSleep);  // the device is full
  ASSERT_EQ(worker.next(), Next::kJob);                   // there is room again, for camera 1 only
  EXPECT_EQ(what(worker.job), std::make_pair(Kind::kDispatch, CameraIndex{1}));
}

TEST(JobQueue, HasWorkForABoundedNumberOfWorkersHoweverManyCamerasThereAre) {
  EXPECT_EQ(JobQueue({std::vector<int>(10, 2), 2, 13}).most_workers(), 12U);
  EXPECT_EQ(JobQueue({std::vector<int>(512, 2), 2, 67, true, 64}).most_workers(), 66U);
}

TEST(JobQueue, NeverDispatchesACameraOfAnotherLane) {
  JobQueue queue({{0, 2}, 1, 2});
  EXPECT_EQ(queue.most_workers(), 3U);
  Worker worker(queue);
  publish(queue, 0);
  EXPECT_EQ(worker.next(), Next::kSleep);
}

TEST(JobQueue, GivesAFrameInFlightBackWhereThereWasNothingToDispatch) {
  JobQueue queue({{2}, 1, 1});
  Worker worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.dispatched(false), Next::kSleep);
  publish(queue, 0);
  ASSERT_TRUE(worker.woken());
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.job.kind, Kind::kDispatch);
}

TEST(JobQueue, UsesEveryFrameInFlightOnceAndThenTheOneThatCameBackLast) {
  JobQueue queue({{2}, 2, 3});
  Worker worker(queue);
  std::vector<int> used;
  const auto pass = [&] {
    publish(queue, 0);
    ASSERT_EQ(worker.next(), Next::kJob);
    ASSERT_EQ(worker.job.kind, Kind::kDispatch);
    used.push_back(worker.job.frame);
    ASSERT_EQ(worker.dispatched(), Next::kJob);
    ASSERT_EQ(worker.next(), Next::kJob);
    ASSERT_EQ(worker.next(), Next::kSleep);
    (void)worker.woken();
  };
  for (int i = 0; i < 5; ++i) pass();
  EXPECT_EQ(used, (std::vector<int>{2, 1, 0, 0, 0}));
}

// One that was taken for nothing before any frame had it lay below the warm ones, and was first used long after the
// start: there a GPU makes memory and a graph for it.
TEST(JobQueue, UsesEveryFrameInFlightOnceAlsoWhereADispatchFoundNothing) {
  JobQueue queue({{2}, 2, 3});
  Worker worker(queue);
  std::vector<int> used;
  const auto pass = [&](bool with_frame) {
    publish(queue, 0);
    ASSERT_EQ(worker.next(), Next::kJob);
    ASSERT_EQ(worker.job.kind, Kind::kDispatch);
    used.push_back(worker.job.frame);
    if (!with_frame) {
      ASSERT_EQ(worker.dispatched(false), Next::kSleep);
      (void)worker.woken();
      return;
    }
    ASSERT_EQ(worker.dispatched(), Next::kJob);
    ASSERT_EQ(worker.next(), Next::kJob);
    ASSERT_EQ(worker.next(), Next::kSleep);
    (void)worker.woken();
  };
  for (const bool with_frame : {false, true, false, true, true, true}) pass(with_frame);
  EXPECT_EQ(used, (std::vector<int>{2, 2, 1, 1, 0, 0}));
}

TEST(JobQueue, WakesTheWorkerThatFellAsleepLast) {
  JobQueue queue({{2}, 1, 3});
  Worker first(queue), second(queue), third(queue);
  for (Worker* worker : {&first, &second, &third}) ASSERT_EQ(worker->next(), Next::kSleep);
  publish(queue, 0);
  EXPECT_TRUE(third.woken());
  EXPECT_FALSE(second.woken());
  EXPECT_FALSE(first.woken());
}

TEST(JobQueue, WakesNobodyForWhatTheWorkerItselfGoesOnWith) {
  JobQueue queue({{2}, 1, 3});
  Worker asleep(queue), worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  ASSERT_EQ(asleep.next(), Next::kSleep);
  ASSERT_EQ(worker.dispatched(), Next::kJob);
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.next(), Next::kSleep);
  EXPECT_FALSE(asleep.woken());
}

TEST(JobQueue, WakesOneWorkerForAJobThatIsLeftBehind) {
  JobQueue queue({{3}, 2, 4});
  Worker first(queue), second(queue), worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  ASSERT_EQ(first.next(), Next::kSleep);
  ASSERT_EQ(second.next(), Next::kSleep);
  ASSERT_EQ(worker.dispatched(true, true), Next::kJob);  // dispatches again, and leaves one to complete
  EXPECT_TRUE(second.woken());
  EXPECT_FALSE(first.woken());
}

TEST(JobQueue, LetsASourcePassByBusyWorkersWhoFindItsFrameLater) {
  JobQueue queue({{2}, 1, 3});
  Worker worker(queue);
  Job job;
  EXPECT_FALSE(queue.publish(0, true, job));  // nobody sleeps: it leaves the dispatch to whoever looks next
  EXPECT_FALSE(queue.publish(0, true, job));
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.job.kind, Kind::kDispatch);
  ASSERT_EQ(worker.dispatched(), Next::kJob);
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.next(), Next::kSleep);  // two frames were published between two looks: one dispatch
}

TEST(JobQueue, GivesTheDispatchToASourceThatFindsASleeper) {
  JobQueue queue({{2}, 1, 3});
  Worker worker(queue);
  ASSERT_EQ(worker.next(), Next::kSleep);
  Job job;
  ASSERT_TRUE(queue.publish(0, true, job));
  EXPECT_EQ(what(job), std::make_pair(Kind::kDispatch, CameraIndex{0}));
  EXPECT_FALSE(worker.woken());  // not before the device has work
  job.dispatched = true;
  queue.finish(job);
  ASSERT_TRUE(worker.woken());
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.job.kind, Kind::kComplete);
}

TEST(JobQueue, WakesNobodyWhereASourceFoundNothingToDispatch) {
  JobQueue queue({{2}, 1, 3});
  Worker worker(queue);
  ASSERT_EQ(worker.next(), Next::kSleep);
  Job job;
  ASSERT_TRUE(queue.publish(0, true, job));
  queue.finish(job);
  EXPECT_FALSE(worker.woken());
}

TEST(JobQueue, LeavesAFrameToTheOneThatDispatches) {
  JobQueue queue({{2, 2}, 3, 4});
  Worker asleep(queue), worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  ASSERT_EQ(asleep.next(), Next::kSleep);
  Job job;
  EXPECT_FALSE(queue.publish(1, true, job));
  EXPECT_FALSE(asleep.woken());
  ASSERT_EQ(worker.dispatched(), Next::kJob);
  EXPECT_EQ(what(worker.job), std::make_pair(Kind::kDispatch, CameraIndex{1}));
}

TEST(JobQueue, EndsEveryWorkerOnceItIsDrained) {
  JobQueue queue({{2}, 1, 3});
  Worker first(queue), second(queue);
  ASSERT_EQ(first.next(), Next::kSleep);
  ASSERT_EQ(second.next(), Next::kSleep);
  queue.drain();
  for (Worker* worker : {&first, &second}) {
    EXPECT_TRUE(worker->woken());
    EXPECT_EQ(worker->next(), Next::kEnd);
  }
}

TEST(JobQueue, FinishesWhatWasPublishedBeforeItEnds) {
  JobQueue queue({{2}, 1, 3});
  Worker asleep(queue), worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  ASSERT_EQ(asleep.next(), Next::kSleep);
  queue.drain();
  ASSERT_TRUE(asleep.woken());
  EXPECT_EQ(asleep.next(), Next::kSleep);  // a frame is on its way
  ASSERT_EQ(worker.dispatched(), Next::kJob);
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.job.kind, Kind::kPostprocess);
  EXPECT_EQ(worker.next(), Next::kEnd);
  EXPECT_TRUE(asleep.woken());
  EXPECT_EQ(asleep.next(), Next::kEnd);
}

// With threads: a wake-up that is lost leaves the source waiting, and this test does not end.
TEST(JobQueue, LosesNoWakeUpBetweenSourcesAndWorkers) {
  constexpr int kCameras = 2, kFramesOfEach = 2000;
  JobQueue queue({{2, 2}, 2, 5});
  std::atomic<int> published[kCameras] = {};  // that nobody has dispatched
  base::Semaphore postprocessed[kCameras];
  std::atomic<int> delivered{0};
  const auto dispatch = [&](Job& job) {
    std::atomic<int>& waiting = published[job.camera];
    job.dispatched = waiting > 0;
    if (job.dispatched) --waiting;
    job.more = waiting > 0;
  };
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < queue.most_workers(); ++i) {
    workers.emplace_back([&] {
      base::Semaphore wake_up;
      Job job;
      for (;;) {
        switch (queue.next(wake_up, job)) {
          case Next::kEnd: return;
          case Next::kSleep: wake_up.acquire(); continue;
          case Next::kJob: break;
        }
        if (job.kind == Kind::kDispatch) dispatch(job);
        if (job.kind == Kind::kPostprocess) {
          ++delivered;
          postprocessed[job.camera].release();
        }
      }
    });
  }
  std::vector<std::thread> sources;
  for (CameraIndex camera = 0; camera < kCameras; ++camera) {
    sources.emplace_back([&, camera] {
      for (int i = 0; i < kFramesOfEach; ++i) {
        ++published[camera];
        Job job;
        if (queue.publish(camera, camera == 0, job)) {
          dispatch(job);
          queue.finish(job);
        }
        postprocessed[camera].acquire();
      }
    });
  }
  for (std::thread& source : sources) source.join();
  queue.drain();
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(delivered, kCameras * kFramesOfEach);
}

// ---- Cameras that come and go

TEST(JobQueue, DispatchesNothingOfACameraBeforeItIsAdopted) {
  JobQueue queue({{2}, 1, 3, false});
  Worker worker(queue);
  publish(queue, 0);
  EXPECT_EQ(worker.next(), Next::kSleep);
  queue.adopt(0);  // what was published before counts
  EXPECT_TRUE(worker.woken());
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(what(worker.job), std::make_pair(Kind::kDispatch, CameraIndex{0}));
}

TEST(JobQueue, HoldsPostprocessingOfAnAdoptedCameraBackUntilItsRelease) {
  JobQueue queue({{2}, 1, 3, false});
  Worker worker(queue);
  queue.adopt(0);
  ASSERT_EQ(worker.next(), Next::kJob);
  ASSERT_EQ(worker.dispatched(), Next::kJob);
  EXPECT_EQ(worker.job.kind, Kind::kComplete);
  EXPECT_EQ(worker.next(), Next::kSleep);
  EXPECT_TRUE(queue.busy(0));
  queue.release(0);
  EXPECT_TRUE(worker.woken());
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.job.kind, Kind::kPostprocess);
}

TEST(JobQueue, FinishesWhatACameraThatLeavesHasUnderWayAndTakesNothingNew) {
  JobQueue queue({{2}, 2, 3});
  base::Semaphore done;
  Worker worker(queue);
  publish(queue, 0);
  ASSERT_EQ(worker.next(), Next::kJob);
  queue.watch(&done);
  EXPECT_TRUE(queue.dispatching(0));
  queue.leave(0);
  publish(queue, 0);
  ASSERT_EQ(worker.dispatched(true, true), Next::kJob);
  EXPECT_TRUE(done.try_acquire());
  EXPECT_FALSE(queue.dispatching(0));
  EXPECT_EQ(worker.job.kind, Kind::kComplete);
  ASSERT_EQ(worker.next(), Next::kJob);
  EXPECT_EQ(worker.job.kind, Kind::kPostprocess);
  EXPECT_TRUE(queue.busy(0));
  EXPECT_EQ(worker.next(), Next::kSleep);
  EXPECT_FALSE(queue.busy(0));
  queue.drain();
  EXPECT_TRUE(worker.woken());
  EXPECT_EQ(worker.next(), Next::kEnd);
}

// A source may be dispatching when a queue that its camera has left is drained.
TEST(JobQueue, EndsItsWorkersWhenASourceFinishesTheLastJobOfADrainedQueue) {
  JobQueue queue({{2}, 1, 3});
  Worker worker(queue);
  EXPECT_EQ(worker.next(), Next::kSleep);
  Job job;
  ASSERT_TRUE(queue.publish(0, true, job));
  queue.leave(0);
  queue.drain();
  EXPECT_TRUE(worker.woken());
  EXPECT_EQ(worker.next(), Next::kSleep);  // the job is not done
  queue.finish(job);                       // without a frame
  EXPECT_TRUE(worker.woken());
  EXPECT_EQ(worker.next(), Next::kEnd);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
