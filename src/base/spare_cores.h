// How many threads a long job should take on a machine that others use too: as many as there are cores left. Threads
// that meet at barriers wait for the one that has no core, so two programs that both take all cores can each be ten
// times as slow as one alone. The job comes in pieces, and what its threads ran in some of them says what is left.
#pragma once

namespace ei {

class SpareCores {
 public:
  explicit SpareCores(int threads) : threads_(threads) {}

  // A piece begins: how many threads do it? `cpu_s` is the time that all threads have run, waiting at barriers
  // included.
  int begin(double now_s, double cpu_s);
  void end(double now_s, double cpu_s);
  // In front of a first piece, or one behind a pause: the system says that so many cores are idle. That is a guess, for
  // others may have cores that are not ours: it holds for a moment, may be made again for two seconds, and where all
  // threads find a core then, no more for a while.
  void expect(double now_s, int idle);
  bool guess_ended(double now_s) const;  // time to ask the system again
  int left(double now_s) const { return now_s < fewer_until_ ? fewer_ : threads_; }

 private:
  int threads_;
  int employed_ = 0;  // in the piece that runs
  int fewer_ = 1;
  double fewer_until_ = 0;
  bool expected_ = false;  // nobody has looked since the last guess
  double guess_begin_s_ = 0;
  double doubted_until_ = 0;
  double end_s_ = 0;  // of the piece before
  // Pieces with all threads since the last look. The system brings the time of threads up to date every few
  // milliseconds only, so one short piece says nothing.
  bool looking_ = false;
  double look_begin_s_ = 0;
  double look_begin_cpu_s_ = 0;
};

}  // namespace ei
