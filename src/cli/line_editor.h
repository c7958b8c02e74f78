// LineEditor: what the user types. At a terminal with editing and history where libedit was there at build time; lines
// that arrive together (a paste) are one message. Elsewhere a line a message.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/console.h"

namespace ei::cli {

class LineEditor {
 public:
  LineEditor(const Console& console, bool terminal);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // For signal handlers that leave the process: what the shell shows next begins on a line of its own.
  static void leave_prompt();

  // The next message, without its line end; a backslash at the end of a line continues it on the next. Nullopt at the
  // end of the input.
  std::optional<std::string> read_message();

 private:
  struct Editor;  // libedit's
  std::optional<std::string> read_line(bool first);

  const Console& console_;
  const bool terminal_;
  std::unique_ptr<Editor> editor_;  // null: plain lines
};

// While it lives, what is typed at the terminal is not shown, so that it stays out of bars and answers; it is there
// when the next message is read.
class HiddenTyping {
 public:
  explicit HiddenTyping(bool terminal);
  ~HiddenTyping();
  HiddenTyping(const HiddenTyping&) = delete;
  HiddenTyping& operator=(const HiddenTyping&) = delete;

  // Shows again what is typed; for signal handlers that leave the process.
  static void undo();
};

}  // namespace ei::cli
