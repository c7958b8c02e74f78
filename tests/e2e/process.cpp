#include "process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/check.h"
#include "base/clock.h"

namespace ei::e2e {

namespace {
constexpr unsigned kNobody = 65534;

// stdin from a file, so that a long input cannot block while the output fills its pipe.
int input_descriptor(const std::string& input) {
  std::FILE* file = std::tmpfile();
  EI_CHECK(file != nullptr);
  std::fwrite(input.data(), 1, input.size(), file);
  std::fflush(file);
  std::rewind(file);
  const int descriptor = ::dup(::fileno(file));
  std::fclose(file);
  ::lseek(descriptor, 0, SEEK_SET);
  return descriptor;
}

// A terminal that hands on what it gets as it is: {our end, the program's end}.
void open_terminal(int (&ends)[2]) {
  ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EI_CHECK(ends[0] >= 0 && ::grantpt(ends[0]) == 0 && ::unlockpt(ends[0]) == 0);
  ends[1] = ::open(::ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios modes{};
  EI_CHECK(ends[1] >= 0 && ::tcgetattr(ends[1], &modes) == 0);
  ::cfmakeraw(&modes);
  EI_CHECK(::tcsetattr(ends[1], TCSANOW, &modes) == 0);
}

[[noreturn]] void become(const Invocation& invocation, int in, int out, int err) {
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (!invocation.out_file.empty()) {
    const int file = ::open(invocation.out_file.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0) ::_exit(126);
  }
  for (const auto& [name, value] : invocation.variables) ::setenv(name.c_str(), value.c_str(), 1);
  if (invocation.as_nobody && ::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(126);
  if (invocation.address_space > 0) {
    const auto bytes = static_cast<rlim_t>(invocation.address_space);
    const rlimit limit{bytes, bytes};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(126);
  }
  if (invocation.file_size > 0) {
    const auto bytes = static_cast<rlim_t>(invocation.file_size);
    const rlimit limit{bytes, bytes};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(126);
  }
  ::signal(SIGINT, invocation.ignores_interrupts ? SIG_IGN : SIG_DFL);
  for (const int descriptor : invocation.closed) ::close(descriptor);
  std::vector<char*> words = {const_cast<char*>(EI_PROGRAM)};
  for (const std::string& word : invocation.arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execv(EI_PROGRAM, words.data());
  ::_exit(127);
}
}  // namespace

Process::Process(const Invocation& invocation) : start_s_(now_s()) {
  int out[2];
  int err[2];
  EI_CHECK(::pipe2(out, O_CLOEXEC) == 0);
  if (invocation.terminal) {
    open_terminal(err);
    winsize size{};
    size.ws_row = 25;
    size.ws_col = static_cast<unsigned short>(invocation.columns);
    EI_CHECK(::ioctl(err[0], TIOCSWINSZ, &size) == 0);
  } else {
    EI_CHECK(::pipe2(err, O_CLOEXEC) == 0);
  }
  if (invocation.pipe_bytes > 0) EI_CHECK(::fcntl(out[1], F_SETPIPE_SZ, invocation.pipe_bytes) > 0);
  const int in = input_descriptor(invocation.input);
  pid_ = ::fork();
  EI_CHECK(pid_ >= 0);
  if (pid_ == 0) become(invocation, in, out[1], err[1]);
  ::close(in);
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
  limit_s_ = invocation.limit_s;
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
}

bool Process::pump(double timeout_s) {
  pollfd waiting[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};  // a closed one has a descriptor of -1: ignored
  if (out_ < 0 && err_ < 0) return false;
  if (::poll(waiting, 2, static_cast<int>(timeout_s * 1000)) <= 0) return true;
  const auto take = [](const pollfd& state, int& descriptor, std::string& into) {
    if (state.revents == 0 || descriptor < 0) return;
    char buffer[4096];
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count > 0) {
      into.append(buffer, static_cast<size_t>(count));
      return;
    }
    ::close(descriptor);
    descriptor = -1;
  };
  take(waiting[0], out_, outcome_.out);
  take(waiting[1], err_, outcome_.err);
  return out_ >= 0 || err_ >= 0;
}

bool Process::wait_for(const std::string& text, const std::string& where) {
  const double limit = now_s() + limit_s_;
  while (where.find(text) == std::string::npos) {
    if (now_s() > limit || !pump(0.1)) return where.find(text) != std::string::npos;
  }
  return true;
}

bool Process::wait_for_out(const std::string& text) { return wait_for(text, outcome_.out); }
bool Process::wait_for_err(const std::string& text) { return wait_for(text, outcome_.err); }
void Process::send(int signal_number) const { ::kill(pid_, signal_number); }

void Process::send_at_once(std::initializer_list<int> signal_numbers) const {
  send(SIGSTOP);
  int status = 0;
  ::waitpid(pid_, &status, WUNTRACED);
  EI_CHECK(WIFSTOPPED(status));
  for (const int signal_number : signal_numbers) send(signal_number);
  send(SIGCONT);
}

void Process::interrupt(bool twice) const {
  if (twice) {
    send_at_once({SIGINT, SIGTERM});
  } else {
    send(SIGINT);
  }
}

bool Process::running() {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

double Process::cpu_seconds() const {
  clockid_t clock{};
  timespec time{};
  EI_CHECK(::clock_getcpuclockid(pid_, &clock) == 0 && ::clock_gettime(clock, &time) == 0);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool Process::wait_for_cpu(double seconds) {
  const double limit = now_s() + limit_s_;
  while (running() && cpu_seconds() < seconds) {
    if (now_s() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return running();
}

bool Process::wait_until_stuck() {
  const double limit = now_s() + limit_s_;
  const int room = ::fcntl(out_, F_GETPIPE_SZ);
  constexpr int kPieceBytes = 64;        // a write that does not fit waits as a whole
  constexpr double kStillSeconds = 1.5;  // a token takes milliseconds, on a busy machine a tenth of a second
  int waiting = 0;
  for (double still_since = now_s(); waiting < room - kPieceBytes || now_s() - still_since < kStillSeconds;) {
    if (now_s() > limit || !running()) return false;
    const int before = waiting;
    ::ioctl(out_, FIONREAD, &waiting);
    if (waiting != before) still_since = now_s();
    ::poll(nullptr, 0, 20);
  }
  return true;
}

void Process::close_stdout() {
  ::close(out_);
  out_ = -1;
}

Outcome Process::finish() {
  const double limit = now_s() + limit_s_;
  while (pump(0.1)) {
    if (now_s() > limit) ::kill(pid_, SIGKILL);
  }
  int status = 0;
  rusage used{};
  while (::wait4(pid_, &status, 0, &used) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  outcome_.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  outcome_.seconds = now_s() - start_s_;
  if (WIFEXITED(status)) outcome_.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome_.signal = WTERMSIG(status);
  return outcome_;
}

Outcome run(const Invocation& invocation) { return Process(invocation).finish(); }
Outcome run(std::vector<std::string> arguments) { return run(Invocation{.arguments = std::move(arguments)}); }

void expect_line(const Outcome& outcome, int code, const std::string& message) {
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("entropyinfer: ")) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
}

std::string model() { return std::string(EI_SOURCE_DIR) + "/assets/needle-14m-128k-q8_0.gguf"; }

namespace {
// A folder of this process that goes with it.
class ScratchFolder {
 public:
  ScratchFolder() : path_(std::filesystem::temp_directory_path() / ("entropyinfer_e2e_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};
}  // namespace

std::string write_file(const std::string& name, const std::string& text) {
  static const ScratchFolder folder;
  const std::string path = folder.path() / name;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  EI_CHECK(file != nullptr);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  return path;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string prose(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "The miller went down to the river and counted the boats again. ";
  return text;
}

}  // namespace ei::e2e
