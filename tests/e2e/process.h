// Runs the program the way a user does and keeps what it printed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace ei::e2e {

struct Outcome {
  int code = -1;    // exit code; -1 when a signal ended it
  int signal = 0;   // the signal, else 0
  std::string out;  // stdout
  std::string err;  // stderr
  double seconds = 0;
  double cpu_seconds = 0;  // of all its threads: what other programs of the machine do not change
};

struct Invocation {
  std::vector<std::string> arguments;
  std::string input = {};                                           // stdin
  std::vector<std::pair<std::string, std::string>> variables = {};  // EI_ARG_* and the like
  bool as_nobody = false;                                           // drop root first, where the test has it
  int pipe_bytes = 0;                                               // how much of stdout waits unread; 0: the system's
  int64_t address_space = 0;                                        // bytes, as ulimit -v; 0: no limit
  bool terminal = false;                                            // stderr is a terminal instead of a pipe
  std::string out_file = {};                                        // stdout goes there instead of into the pipe
  std::vector<int> closed = {};                                     // descriptors that are not open at all
  int64_t file_size = 0;                                            // bytes, as ulimit -f; 0: no limit
  int columns = 0;                                                  // of the terminal; 0: it does not say
  bool ignores_interrupts = false;                                  // as in the background of a script
  double limit_s = 600;                                             // killed, or no longer waited for, after that
};

// A running program: stdin is closed behind its input, stdout and stderr are pipes.
class Process {
 public:
  explicit Process(const Invocation& invocation);
  ~Process();  // kills what still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads on until stdout (or stderr) holds `text`; false when the program ends or the time is up first.
  bool wait_for_out(const std::string& text);
  bool wait_for_err(const std::string& text);
  // Reads nothing until the program is stuck writing to a full stdout; false when that does not happen.
  bool wait_until_stuck();
  bool running();
  double cpu_seconds() const;  // of all its threads, so far
  // Until it has computed so long: a clock that stands still while others compute. False when it ended before.
  bool wait_for_cpu(double seconds);
  void send(int signal_number) const;
  // Delivers all of these before the program runs on; they must differ, because equal ones become one.
  void send_at_once(std::initializer_list<int> signal_numbers) const;
  // Ctrl-C, or twice, as close together as can be.
  void interrupt(bool twice) const;
  void close_stdout();
  // Reads everything and waits for the end.
  Outcome finish();

 private:
  bool pump(double timeout_s);  // false at the end of both pipes
  bool wait_for(const std::string& text, const std::string& where);

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  double start_s_ = 0;
  double limit_s_ = 0;
  Outcome outcome_;
};

Outcome run(const Invocation& invocation);
Outcome run(std::vector<std::string> arguments);

// One line on stderr that holds `message`, nothing on stdout, that exit code, no signal.
void expect_line(const Outcome& outcome, int code, const std::string& message);

std::string model();                                                       // the model that ships with the program
std::string write_file(const std::string& name, const std::string& text);  // in a folder of this test run; its path
std::string contents(const std::string& path);                             // of a file, byte for byte
std::string prose(size_t bytes);                                           // at least so much of one dull sentence

}  // namespace ei::e2e
