// One thread or all, by what jobs took.
#include "base/worker_count.h"

#include <gtest/gtest.h>

namespace ei {
namespace {

constexpr int kThreads = 4;

// A machine on which a job takes so long with all threads and with one; others take a share of the threads' time.
struct Machine {
  double all_s;
  double alone_s;
  double lost = 0;
};

struct Spent {
  int jobs_with_all = 0;
  int jobs_alone = 0;
};

// The clock of a simulated machine, and its record of what threads ran, brought up to date every four milliseconds.
struct Clock {
  double now = 100;
  double ran = 0;
  double shown = 0;
  double shown_at = 100;

  void pass(double seconds, double running) {
    now += seconds;
    ran += seconds * running;
    if (now - shown_at < 0.004) return;
    shown = ran;
    shown_at = now;
  }
};

Spent work(WorkerCount& workers, const Machine& machine, Clock& clock, double seconds) {
  Spent spent;
  for (const double end = clock.now + seconds; clock.now < end;) {
    const int threads = workers.begin(clock.now, clock.shown);
    clock.pass(threads == 1 ? machine.alone_s : machine.all_s, (1 - machine.lost) * threads);
    workers.end(clock.now, clock.shown);
    clock.pass(0.0001, threads);  // sampling; the others look out for work
    ++(threads == 1 ? spent.jobs_alone : spent.jobs_with_all);
  }
  return spent;
}

TEST(WorkerCount, IsAllThreadsOnAQuietMachine) {
  WorkerCount workers(kThreads);
  Clock clock;
  EXPECT_EQ(work(workers, {.all_s = 0.001, .alone_s = 0.004, .lost = 0.1}, clock, 1).jobs_alone, 0);
}

TEST(WorkerCount, IsOneWhereTheOthersWouldBeWaitedFor) {
  WorkerCount workers(kThreads);
  Clock clock;
  const Machine crowded{.all_s = 0.05, .alone_s = 0.004, .lost = 0.6};
  work(workers, crowded, clock, 0.05);
  const Spent spent = work(workers, crowded, clock, 5);
  EXPECT_GT(spent.jobs_alone, 1000);
  EXPECT_LT(spent.jobs_with_all, 12);  // a tenth of the time goes into looking again
  EXPECT_GT(spent.jobs_with_all, 5);
}

TEST(WorkerCount, IsAllAgainWhenTheMachineCalmsDown) {
  WorkerCount workers(kThreads);
  Clock clock;
  work(workers, {.all_s = 0.05, .alone_s = 0.004, .lost = 0.6}, clock, 1);
  work(workers, {.all_s = 0.001, .alone_s = 0.004}, clock, 0.5);
  EXPECT_EQ(work(workers, {.all_s = 0.001, .alone_s = 0.004}, clock, 1).jobs_alone, 0);
}

TEST(WorkerCount, IsAllWhereOneIsSlowerEvenIfTimeIsLost) {
  WorkerCount workers(kThreads);
  Clock clock;
  const Spent spent = work(workers, {.all_s = 0.002, .alone_s = 0.004, .lost = 0.5}, clock, 5);
  EXPECT_GT(spent.jobs_alone, 0);
  EXPECT_LT(spent.jobs_alone * 20, spent.jobs_with_all);
}

// A cache that has been compressed: jobs become short, and giving the memory back looks as if others took the time.
TEST(WorkerCount, IsAllWhenJobsBecomeShorter) {
  WorkerCount workers(kThreads);
  Clock clock;
  work(workers, {.all_s = 0.017, .alone_s = 0.06}, clock, 0.3);
  clock.pass(0.1, 1);
  EXPECT_LT(work(workers, {.all_s = 0.0007, .alone_s = 0.001}, clock, 0.1).jobs_alone, 3);
}

TEST(WorkerCount, IsOneFromTheFirstJobWhereHalfOfTheCoresAreNotIdle) {
  Clock clock;
  WorkerCount workers(kThreads);
  workers.expect(clock.now, 3);
  EXPECT_EQ(workers.begin(clock.now, clock.shown), kThreads) << "one thread would be slower than four on three cores";
  workers.end(clock.now, clock.shown);
  workers.expect(clock.now, 1);
  const Spent first = work(workers, {.all_s = 0.5, .alone_s = 0.002, .lost = 0.9}, clock, 0.2);
  EXPECT_EQ(first.jobs_with_all, 0);
  EXPECT_GT(first.jobs_alone, 90);
  clock.now += 0.1;
  EXPECT_TRUE(workers.guess_ended(clock.now));
  workers.expect(clock.now, kThreads);
  EXPECT_FALSE(workers.guess_ended(clock.now)) << "the others have gone";
  EXPECT_EQ(workers.begin(clock.now, clock.shown), kThreads);
}

// Beside many others a job with all threads may take minutes, and one thread that is put aside knows of them.
TEST(WorkerCount, IsOneAsLongAsTheOneIsPutAside) {
  for (const bool put_aside : {true, false}) {
    Clock clock;
    WorkerCount workers(kThreads);
    workers.expect(clock.now, 0);
    int with_all = 0;
    for (int round = 0; round < 40; ++round) {
      const Machine machine{.all_s = 60, .alone_s = 0.1, .lost = put_aside ? 0.8 : 0.0};
      with_all += work(workers, machine, clock, 0.26).jobs_with_all;
      if (workers.guess_ended(clock.now)) workers.expect(clock.now, 0);
    }
    EXPECT_EQ(with_all > 0, !put_aside);
  }
}

TEST(WorkerCount, AWrongGuessIsNotMadeAgainSoon) {
  Clock clock;
  WorkerCount workers(kThreads);
  workers.expect(clock.now, 0);
  work(workers, {.all_s = 0.0005, .alone_s = 0.002}, clock, 0.5);
  workers.expect(clock.now, 0);
  EXPECT_EQ(work(workers, {.all_s = 0.0005, .alone_s = 0.002}, clock, 0.2).jobs_alone, 0);
  clock.now += 70;
  workers.expect(clock.now, 0);
  EXPECT_EQ(workers.begin(clock.now, clock.shown), 1);
}

TEST(WorkerCount, OfOneThreadIsOne) {
  WorkerCount workers(1);
  Clock clock;
  EXPECT_EQ(work(workers, {.all_s = 0.001, .alone_s = 0.001, .lost = 0.9}, clock, 0.1).jobs_with_all, 0);
}

}  // namespace
}  // namespace ei
