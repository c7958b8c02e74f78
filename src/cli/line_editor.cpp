#include "cli/line_editor.h"

#include <langinfo.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#ifdef EI_HAVE_LIBEDIT
#include <histedit.h>
#endif

#include "cli/chat_commands.h"

namespace ei::cli {

namespace {
constexpr int kPasteMilliseconds = 50;  // a line that follows so soon was not typed
constexpr int kRemembered = 1000;       // lines

bool more_is_waiting() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, kPasteMilliseconds) == 1 && (input.revents & POLLIN) != 0;
}

std::optional<std::string> plain_line() {
  char* buffer = nullptr;
  size_t capacity = 0;
  const ssize_t length = ::getline(&buffer, &capacity, stdin);
  std::optional<std::string> line;
  if (length >= 0) line.emplace(buffer, static_cast<size_t>(length));
  std::free(buffer);
  return line;
}

// The terminal as it was, where typing is hidden.
termios shown_typing{};
std::atomic<bool> typing_hidden{false};
std::atomic<bool> prompt_shown{false};  // the cursor stands behind it
}  // namespace

#ifdef EI_HAVE_LIBEDIT
namespace {
// libedit drops what the locale has no characters for; texts are UTF-8, whatever the environment names.
bool takes_utf8() {
  for (const char* locale : {"", "C.UTF-8", "C.utf8", "en_US.UTF-8"})
    if (std::setlocale(LC_CTYPE, locale) != nullptr && std::string_view(::nl_langinfo(CODESET)) == "UTF-8") return true;
  std::setlocale(LC_CTYPE, "C");
  return false;
}
}  // namespace

struct LineEditor::Editor {
  explicit Editor(bool color) : bold(color) {
    if (!takes_utf8()) return;
    edit = el_init("entropyinfer", stdin, stderr, stderr);
    past = history_init();
    if (edit == nullptr || past == nullptr) return;
    HistEvent event;
    history(past, &event, H_SETSIZE, kRemembered);
    history(past, &event, H_SETUNIQUE, 1);
    el_set(edit, EL_CLIENTDATA, this);
    el_set(edit, EL_PROMPT_ESC, prompt_of, '\1');
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_SIGNAL, 1);  // the terminal is put in order before our handler leaves the process
    el_set(edit, EL_HIST, history, past);
    el_source(edit, nullptr);  // the user's ~/.editrc
    // Ctrl-C as a key, in both maps of vi too. What is set before the terminal's own keys are known is forgotten.
    el_set(edit, EL_PREP_TERM, 1);
    el_set(edit, EL_PREP_TERM, 0);
    el_set(edit, EL_SETTY, "-d", "intr=", nullptr);
    el_set(edit, EL_ADDFN, "give-up", "forget the message, or leave", give_up);
    el_set(edit, EL_BIND, "^C", "give-up", nullptr);
    el_set(edit, EL_BIND, "-a", "^C", "give-up", nullptr);
  }
  ~Editor() {
    if (edit != nullptr) el_end(edit);
    if (past != nullptr) history_end(past);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  static char* prompt_of(EditLine* edit) {
    Editor* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    static char texts[2][2][24] = {{". ", "> "}, {"\1\033[1m\1. \1\033[0m\1", "\1\033[1m\1> \1\033[0m\1"}};
    return texts[self->bold ? 1 : 0][self->first ? 1 : 0];
  }

  // Ctrl-C: as a shell does it, what is typed is forgotten; where nothing is, it is the signal.
  static unsigned char give_up(EditLine* edit, int) {
    Editor* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    const LineInfo* typed = el_line(edit);
    if (self->first && typed->lastchar == typed->buffer) {
      ::raise(SIGINT);
      return CC_NORM;
    }
    self->given_up = true;
    el_cursor(edit, static_cast<int>(typed->lastchar - typed->cursor));
    el_insertstr(edit, "^C");
    el_push(edit, "\n");
    return CC_REFRESH;
  }

  std::optional<std::string> line(bool first_of_message) {
    first = first_of_message;
    given_up = false;
    int length = 0;
    const char* text = el_gets(edit, &length);
    if (text == nullptr || length <= 0) return std::nullopt;
    return std::string(text, static_cast<size_t>(length));
  }
  void remember(const std::string& message) const {
    HistEvent event;
    history(past, &event, H_ENTER, message.c_str());
  }

  EditLine* edit = nullptr;
  History* past = nullptr;
  bool first = true;
  bool bold = false;
  bool given_up = false;
};
#else
struct LineEditor::Editor {};
#endif

LineEditor::LineEditor(const Console& console, bool terminal) : console_(console), terminal_(terminal) {
#ifdef EI_HAVE_LIBEDIT
  if (!terminal || !console.stderr_is_terminal()) return;
  editor_ = std::make_unique<Editor>(console.color());
  if (editor_->edit == nullptr || editor_->past == nullptr) editor_.reset();
#endif
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read_line(bool first) {
  std::optional<std::string> line;
  prompt_shown.store(terminal_ && console_.stderr_is_terminal());
#ifdef EI_HAVE_LIBEDIT
  if (editor_ != nullptr) line = editor_->line(first);
#endif
  if (editor_ == nullptr) {
    if (terminal_) console_.status(console_.bold(first ? "> " : ". "));
    line = plain_line();
  }
  line ? prompt_shown.store(false) : leave_prompt();
  if (line && line->ends_with('\n')) line->pop_back();
  if (line && line->ends_with('\r')) line->pop_back();
  return line;
}

std::optional<std::string> LineEditor::read_message() {
  std::string message;
  for (bool first = true;; first = false) {
    std::optional<std::string> line = read_line(first);
    if (!line) return first ? std::nullopt : std::optional(message);
#ifdef EI_HAVE_LIBEDIT
    if (editor_ != nullptr && editor_->given_up) return "";
#endif
    const bool continued = line->ends_with('\\');
    if (continued) line->pop_back();
    message += *line;
    // Typed while the model answered, a command and what follows it arrive together and are not one message.
    const bool stands_alone = first && is_chat_command(message);
    if (continued || (terminal_ && !stands_alone && more_is_waiting())) {
      message += '\n';
      continue;
    }
#ifdef EI_HAVE_LIBEDIT
    if (editor_ != nullptr && !message.empty()) editor_->remember(message);
#endif
    return message;
  }
}

void LineEditor::leave_prompt() {
  if (prompt_shown.exchange(false)) static_cast<void>(::write(STDERR_FILENO, "\n", 1) == 0);
}

HiddenTyping::HiddenTyping(bool terminal) {
  if (!terminal || ::tcgetattr(STDIN_FILENO, &shown_typing) != 0) return;
  termios hidden = shown_typing;
  hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL);
  typing_hidden.store(true);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &hidden);
}

HiddenTyping::~HiddenTyping() { undo(); }

void HiddenTyping::undo() {
  if (typing_hidden.exchange(false)) ::tcsetattr(STDIN_FILENO, TCSANOW, &shown_typing);
}

}  // namespace ei::cli
