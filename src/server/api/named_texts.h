// NamedTexts: the texts left at /texts that one request names, {"text_id": ID}.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/api/api.h"

namespace ei::server {

class NamedTexts {
 public:
  NamedTexts(Fields& fields, const Call& call)
      : fields_(fields), call_(call), bytes_(static_cast<int64_t>(call.request.body.size())) {}

  // Null when `part` is no such thing, or with an error in the fields: the text is not there (404), the request's texts
  // are more than a body may have (413), or more than is read on this thread.
  std::shared_ptr<const std::string> find(const Json& part);

 private:
  Fields& fields_;
  const Call& call_;
  int64_t bytes_;  // of the body and of what it has named
};

}  // namespace ei::server
