// How many threads a short job that comes again and again should take on a machine that others use too. Threads that
// meet at barriers all wait for the one that was put aside, so on a crowded machine one thread can be many times as
// fast as several. Whether it is, is tried out: no share of lost time says how much of it the barriers multiply.
#pragma once

#include <cstdint>

namespace ei {

class WorkerCount {
 public:
  explicit WorkerCount(int threads) : threads_(threads) {}

  // A job begins: how many threads do it? All, or one. `cpu_s` is the time that all threads have run, waiting at
  // barriers included.
  int begin(double now_s, double cpu_s);
  void end(double now_s, double cpu_s);
  // In front of a first job: so many cores are thought to be idle. Where that is not half of the threads, one does the
  // jobs of the next moment, and of two seconds if the guess is made again, and longer as long as the one does not find
  // a core all the time; where all threads find a core then, such a guess is not followed for a while.
  void expect(double now_s, int idle);
  bool guess_ended(double now_s) const;  // time to ask the system again

 private:
  void look_at_all(double now_s, double cpu_s);
  void look_at_one(double now_s, double cpu_s);

  int threads_;
  int employed_ = 0;    // in the job that runs
  double begin_s_ = 0;  // of that job
  bool trial_ = false;  // the next job is done by one thread, to compare
  double all_s_ = 0;    // what the job before the trial took with all threads
  double alone_until_ = 0;
  double no_trial_until_ = 0;
  bool expected_ = false;  // nobody has looked since the last guess
  double guess_begin_s_ = 0;
  double alone_begin_s_ = 0;  // of the look at jobs that one thread does; 0: none
  double alone_begin_cpu_s_ = 0;
  double doubted_until_ = 0;
  // Jobs with all threads since the last look. The system brings the time of threads up to date every few milliseconds
  // only, so one short job says nothing.
  int64_t jobs_ = 0;
  double window_begin_s_ = 0;
  double window_begin_cpu_s_ = 0;
};

}  // namespace ei
