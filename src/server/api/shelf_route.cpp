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

}  // namespace ei::server
