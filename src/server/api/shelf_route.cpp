// /texts: a text to be named in later requests.
#include "server/api/api.h"
#include "text/utf8.h"

namespace ei::server {

void route_leave_text(const Call& call) {
  const std::string& text = call.request.body;
  if (text.empty()) return call.refuse({.message = "the body has no text"});
  if (size_t offset = 0; !text::valid_utf8(text, &offset))
    return call.refuse({.message = str_format("the text is not valid UTF-8 at byte %zu", offset)});
  const std::string name = call.api.shelf.put(text);
  if (name.empty()) return call.refuse({.status = 413, .message = "the text is larger than this server keeps"});
  call.send(Json{{"id", name}, {"object", "text"}, {"bytes", text.size()}});
}

const std::string* shelved_text(Fields& fields, TextShelf& shelf, const Json& part) {
  if (!part.is_object() || !part.contains("text_id") || !part["text_id"].is_string()) return nullptr;
  const std::string* text = shelf.find(part["text_id"].get<std::string>());
  if (text == nullptr)
    fields.fail({.status = 404,
                 .type = "not_found_error",
                 .message = "'text_id' names no text that is here, or no longer: send it to /texts again",
                 .param = "text_id"});
  return text;
}

}  // namespace ei::server
