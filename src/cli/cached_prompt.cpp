#include "cli/cached_prompt.h"

#include <filesystem>

#include "base/units.h"
#include "report/report_file.h"

namespace ei::cli {

Result<int64_t> CachedPrompt::load(std::span<const int32_t> prompt) {
  if (path().empty()) return 0;
  if (std::error_code error; !std::filesystem::exists(path(), error)) {
    EI_RETURN_IF_ERROR(report::ReportFile(path()).check());  // better said before the prompt is read
    return 0;
  }
  EI_ASSIGN_OR_RETURN(found_, load_prompt(session_, path(), prompt, &context_.interrupts.stop_now()));
  whole_ = found_.kept + 1 == static_cast<int64_t>(prompt.size()) && found_.saved > found_.kept;
  if (!found_.why.empty()) context_.console.note("nothing taken from " + path() + ": " + found_.why);
  return found_.kept;
}

Status CachedPrompt::save() const {
  if (path().empty() || whole_) return {};
  if (!session_.store().exact()) {
    context_.console.note("not written to " + path() + ": the cache was compressed behind the prompt");
    return {};
  }
  EI_RETURN_IF_ERROR(save_prompt(session_, path(), &context_.interrupts.stop_now()));
  say_replaced();
  return {};
}

Status CachedPrompt::save_part() const {
  const int64_t read = session_.position();
  if (path().empty() || read <= found_.kept || !session_.store().exact()) return {};
  if (read <= found_.saved) {
    context_.console.note(path() + " stays as it is: it holds " + counted(found_.saved, "token") +
                          ", more than were read");
    return {};
  }
  EI_RETURN_IF_ERROR(save_prompt(session_, path()));
  context_.console.note("wrote " + counted(read, "token") + " to " + path() + ": the same command goes on from there");
  say_replaced();
  return {};
}

void CachedPrompt::say_replaced() const {
  if (found_.saved <= found_.kept) return;
  context_.console.note(str_format("%s is replaced: of its %s %lld were taken", path().c_str(),
                                   counted(found_.saved, "token").c_str(), static_cast<long long>(found_.kept)));
}

}  // namespace ei::cli
