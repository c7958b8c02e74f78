#include "cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "cli/option_values.h"

namespace ei::cli {

namespace {
bool wants_color(const std::string& choice, bool terminal) {
  if (choice == "on") return true;
  if (choice == "off" || !terminal) return false;
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  return term != nullptr && std::strcmp(term, "dumb") != 0;
}

// A dumb terminal cannot redraw a line, so it is treated as none.
bool is_terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::strcmp(term, "dumb") == 0;
  return ::isatty(descriptor) == 1 && !dumb;
}

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

// Without the escape sequences: ESC [ ... and the letter that ends one.
std::string plain(const std::string& text) {
  std::string kept;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\033[") != 0) {
      kept += text[i];
      continue;
    }
    for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~');) ++i;
  }
  return kept;
}
}  // namespace

int64_t terminal_columns() {
  constexpr int64_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

Result<Console> Console::open(const Settings& settings) {
  Console console;
  console.stderr_terminal_ = is_terminal(STDERR_FILENO);
  console.color_ = wants_color(settings.color, console.stderr_terminal_);
  console.verbose_ = settings.verbose;
  if (!settings.log_file.empty()) {
    console.log_.reset(std::fopen(settings.log_file.c_str(), "ae"));
    if (console.log_ == nullptr) {
      return make_error(ErrorKind::kUsage, "cannot open log file %s: %s", settings.log_file.c_str(),
                        std::strerror(errno));
    }
  }
  return console;
}

void Console::log(const std::string& text) const {
  if (log_ == nullptr) return;
  char stamp[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (gmtime_r(&now, &parts) != nullptr) std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &parts);
  for (const std::string& line : split(plain(text), '\n')) std::fprintf(log_.get(), "%s %s\n", stamp, line.c_str());
  std::fflush(log_.get());
}

void Console::note(const std::string& line) const {
  log(line);
  write_stderr(line + "\n");
}

void Console::detail(const std::string& line) const {
  log(line);
  if (verbose_) write_stderr(line + "\n");
}

void Console::warn(const std::string& line) const { note("warning: " + one_line(line)); }
void Console::fail(const std::string& message) const { note("entropyinfer: " + one_line(message)); }
void Console::status(std::string_view text) const { write_stderr(text); }

void Console::lead(const std::string& text) const {
  if (text.empty()) return;
  log(text.substr(0, text.find_last_not_of(" \n") + 1));
  write_stderr(text);
}

std::string Console::dim(const std::string& text) const { return color_ ? "\033[2m" + text + "\033[0m" : text; }
std::string Console::bold(const std::string& text) const { return color_ ? "\033[1m" + text + "\033[0m" : text; }

bool Console::print(std::string_view text) {
  if (stdout_closed_) return false;
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  // A closed pipe is the reader's choice; a full disk is not.
  if (!written && errno != EPIPE) fail(str_format("cannot write to standard output: %s", std::strerror(errno)));
  stdout_closed_ = !written;
  return written;
}

bool Console::print_line(std::string_view text) { return print(std::string(text) + "\n"); }

}  // namespace ei::cli
