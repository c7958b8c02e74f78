#include "cli/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "text/utf8.h"

namespace ei::cli {

namespace {
constexpr size_t kMaxTextBytes = size_t{1} << 31;  // tokenizers count in 32 bits
constexpr size_t kReadBytes = size_t{1} << 16;

Result<std::string> read_all(int descriptor, const char* what, const std::string& path) {
  std::string text;
  for (;;) {
    const size_t used = text.size();
    text.resize(used + kReadBytes);
    const ssize_t count = ::read(descriptor, text.data() + used, kReadBytes);
    if (count < 0) {
      return make_error(ErrorKind::kRuntime, "cannot read %s %s: %s", what, path.c_str(), std::strerror(errno));
    }
    text.resize(used + static_cast<size_t>(count));
    if (count == 0) return text;
    if (text.size() >= kMaxTextBytes) {
      return make_error(ErrorKind::kUsage, "%s %s is too long: more than 2 GiB", what, path.c_str());
    }
  }
}

Result<std::string> read_bytes(const std::string& path, const char* what) {
  if (path == "-") return read_all(STDIN_FILENO, what, "(stdin)");
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return make_error(ErrorKind::kUsage, "cannot open %s %s: %s", what, path.c_str(), std::strerror(errno));
  }
  struct stat facts {};
  const bool is_folder = ::fstat(descriptor, &facts) == 0 && S_ISDIR(facts.st_mode);
  Result<std::string> text =
      is_folder ? Result<std::string>(make_error(ErrorKind::kUsage, "%s %s is a directory", what, path.c_str()))
                : read_all(descriptor, what, path);
  ::close(descriptor);
  return text;
}
}  // namespace

Status check_text(const std::string& text, const char* what) {
  size_t position = 0;
  if (text::valid_utf8(text, &position)) return {};
  return make_error(ErrorKind::kUsage, "%s is not valid UTF-8 (byte %zu)", what, position);
}

Result<std::string> read_text_file(const std::string& path, const char* what) {
  EI_ASSIGN_OR_RETURN(std::string text, read_bytes(path, what));
  EI_RETURN_IF_ERROR(check_text(text, (std::string(what) + " " + path).c_str()));
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // what some editors put in front of UTF-8
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

Result<std::string> read_prompt(const Settings& settings) {
  std::string prompt = settings.prompt.value_or("");
  if (settings.prompt && !settings.file.empty()) {
    EI_ASSIGN_OR_RETURN(std::string about, read_text_file(settings.file, "prompt file"));
    while (about.ends_with('\n')) about.pop_back();
    prompt = about.empty() || prompt.empty() ? about + prompt : about + "\n\n" + prompt;
  }
  if (!settings.prompt) {
    const bool piped = settings.file.empty() && ::isatty(STDIN_FILENO) == 0;
    if (settings.file.empty() && !piped) return Error{ErrorKind::kUsage, "no prompt: give -p TEXT or -f FILE"};
    EI_ASSIGN_OR_RETURN(prompt, read_text_file(piped ? "-" : settings.file, "prompt file"));
    if (prompt.ends_with('\n')) prompt.pop_back();
  }
  if (prompt.empty()) return Error{ErrorKind::kUsage, "the prompt is empty: give -p TEXT or -f FILE"};
  EI_RETURN_IF_ERROR(check_text(prompt, "the prompt"));
  return prompt;
}

}  // namespace ei::cli
