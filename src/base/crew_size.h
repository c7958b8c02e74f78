// How many threads a short job that comes again and again should take on a machine that others use too. Threads that
// meet at barriers all wait for the one that was put aside, so on a crowded machine one thread can be many times as
// fast as several. Whether it is, is tried out: no share of lost time says how much of it the barriers multiply.
#pragma once

namespace ei {

class CrewSize {
 public:
  explicit CrewSize(int threads) : threads_(threads) {}

  // Threads for a job that begins at this time: all, or one.
  int next(double now_s) const;
  // That job took `wall_s`, during which all threads together ran for `cpu_s`; waiting at a barrier counts as running.
  void record(int threads, double now_s, double wall_s, double cpu_s);

 private:
  int threads_;
  bool trial_ = false;  // the next job is done by one thread, to compare
  double crew_s_ = 0;   // what the job before the trial took with all threads
  double alone_until_ = 0;
  double no_trial_until_ = 0;
};

}  // namespace ei
