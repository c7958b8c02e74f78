// SlotWork: something asked of a slot - to save what it holds, to restore it or to give it up - and how far it is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/result.h"
#include "server/cache/prefix_cache.h"

namespace ei::server {

struct SlotWork {
  enum class Kind : uint8_t { kSave, kRestore, kErase };
  // Calls come on the compute thread.
  using Done = std::function<void(const Result<int64_t>& tokens)>;

  Kind kind = Kind::kErase;
  int slot = 0;
  std::string path{};  // of the file
  std::shared_ptr<CancelToken> gone = std::make_shared<CancelToken>();
  Done done{};

  std::optional<HeldText> text{};  // that is written, or was read
  std::optional<Error> error{};
};

}  // namespace ei::server
