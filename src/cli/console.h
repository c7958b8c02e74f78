// The terminal: messages on stderr (and in the log file), answers on stdout, colour only where it is welcome.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/settings.h"

namespace ei::cli {

class Console {
 public:
  // Opens the log file and looks at the terminals and at NO_COLOR and TERM.
  static Result<Console> open(const Settings& settings);

  bool stderr_is_terminal() const { return stderr_terminal_; }
  bool color() const { return color_; }

  // One line on stderr. The log gets it too, without colour.
  void note(const std::string& line) const;
  // The same, on stderr with -v only.
  void detail(const std::string& line) const;
  void warn(const std::string& line) const;
  // "entropyinfer: message"
  void fail(const std::string& message) const;

  // Text on stderr that what follows on stdout may go on with; a line of the log.
  void lead(const std::string& text) const;
  // Text on stderr without a line of its own (progress bar, prompts); not logged.
  void status(std::string_view text) const;
  std::string dim(const std::string& text) const;   // greyed where colour is on
  std::string bold(const std::string& text) const;  // bold where colour is on

  // Generated text or JSON. False once stdout takes no more, which is said unless a reader closed it; nothing is
  // printed then.
  bool print(std::string_view text);
  bool print_line(std::string_view text);
  bool stdout_closed() const { return stdout_closed_; }

 private:
  Console() = default;
  void log(const std::string& text) const;

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  bool stderr_terminal_ = false;
  bool color_ = false;
  bool verbose_ = false;
  bool stdout_closed_ = false;
  std::unique_ptr<std::FILE, CloseFile> log_;
};

// Of the terminal that stderr is; 80 where it does not say.
int64_t terminal_columns();

}  // namespace ei::cli
