// One thread or all, by what jobs took.
#include "base/crew_size.h"

#include <gtest/gtest.h>

namespace ei {
namespace {

constexpr int kThreads = 4;

// A machine on which a job takes so long with all threads and with one; others take a share of the threads' time.
struct Machine {
  double crew_s;
  double alone_s;
  double lost = 0;
};

struct Spent {
  int jobs_with_all = 0;
  int jobs_alone = 0;
};

Spent work(CrewSize& crew, const Machine& machine, double& now, double seconds) {
  Spent spent;
  for (const double end = now + seconds; now < end;) {
    const int threads = crew.next(now);
    const double wall = threads == 1 ? machine.alone_s : machine.crew_s;
    now += wall;
    crew.record(threads, now, wall, (1 - machine.lost) * threads * wall);
    ++(threads == 1 ? spent.jobs_alone : spent.jobs_with_all);
  }
  return spent;
}

TEST(CrewSize, IsAllThreadsOnAQuietMachine) {
  CrewSize crew(kThreads);
  double now = 100;
  EXPECT_EQ(work(crew, {.crew_s = 0.001, .alone_s = 0.004, .lost = 0.1}, now, 1).jobs_alone, 0);
}

TEST(CrewSize, IsOneWhereTheOthersWouldBeWaitedFor) {
  CrewSize crew(kThreads);
  double now = 100;
  const Machine crowded{.crew_s = 0.05, .alone_s = 0.004, .lost = 0.6};
  work(crew, crowded, now, 0.05);
  const Spent spent = work(crew, crowded, now, 5);
  EXPECT_GT(spent.jobs_alone, 1000);
  EXPECT_LT(spent.jobs_with_all, 12);  // a tenth of the time goes into looking again
  EXPECT_GT(spent.jobs_with_all, 5);
}

TEST(CrewSize, IsAllAgainWhenTheMachineCalmsDown) {
  CrewSize crew(kThreads);
  double now = 100;
  work(crew, {.crew_s = 0.05, .alone_s = 0.004, .lost = 0.6}, now, 1);
  work(crew, {.crew_s = 0.001, .alone_s = 0.004}, now, 0.5);
  EXPECT_EQ(work(crew, {.crew_s = 0.001, .alone_s = 0.004}, now, 1).jobs_alone, 0);
}

TEST(CrewSize, IsAllWhereOneIsSlowerEvenIfTimeIsLost) {
  CrewSize crew(kThreads);
  double now = 100;
  const Spent spent = work(crew, {.crew_s = 0.002, .alone_s = 0.004, .lost = 0.5}, now, 5);
  EXPECT_GT(spent.jobs_alone, 0);
  EXPECT_LT(spent.jobs_alone * 20, spent.jobs_with_all);
}

TEST(CrewSize, OfOneThreadIsOne) {
  CrewSize crew(1);
  double now = 100;
  EXPECT_EQ(work(crew, {.crew_s = 0.001, .alone_s = 0.001, .lost = 0.9}, now, 0.1).jobs_with_all, 0);
}

}  // namespace
}  // namespace ei
