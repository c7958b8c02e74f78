#include "server/api/named_texts.h"

namespace ei::server {

std::shared_ptr<const std::string> NamedTexts::find(const Json& part) {
  if (!part.is_object() || !part.contains("text_id") || !part["text_id"].is_string()) return nullptr;
  std::shared_ptr<const std::string> text = call_.api.shelf.find(part["text_id"].get<std::string>());
  const auto fail = [&](ApiError error) -> std::shared_ptr<const std::string> {
    fields_.fail(std::move(error));
    return nullptr;
  };
  if (text == nullptr)
    return fail({.status = 404,
                 .type = "not_found_error",
                 .message = "'text_id' names no text that is here, or no longer: send it to /texts again",
                 .param = "text_id"});
  bytes_ += static_cast<int64_t>(text->size());
  if (bytes_ > call_.api.options.http.body_bytes)
    return fail({.status = 413,
                 .message = "the texts that 'text_id' names are together larger than a body may be",
                 .param = "text_id"});
  if (bytes_ > call_.most_bytes) return fail({.status = kReadElsewhere});
  return text;
}

}  // namespace ei::server
