// libFuzzer target: any bytes as the body of a request are read or refused with a field named, and what is taken for
// messages can be written out again. Seeds: none needed, JSON is found quickly.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/api/api.h"
#include "server/api/fields.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ei::server;
  const Body body = parse_body(std::string(reinterpret_cast<const char*>(data), size));
  if (body.error) {
    if (body.error->status != 400 || body.error->to_response().body.empty()) std::abort();
    return 0;
  }
  Fields fields(body.json);
  fields.whole("n", 1, 1, 128);
  fields.number("temperature", 0, -1000, 1000);
  fields.texts("stop", 64);
  TextShelf shelf;
  const auto messages = read_messages(fields, shelf);
  for (const auto& message : messages)
    if (!message.more.empty() && Json::parse(message.more, nullptr, false).is_discarded()) std::abort();
  if (fields.error() && fields.error()->param.empty()) std::abort();
  return 0;
}
