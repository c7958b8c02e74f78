// What the opaque handles of the C interface hold.
#pragma once

#include <entropyinfer/c_api.h>

#include <memory>
#include <string>

#include "base/cancel.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/session.h"

struct EiEngine {
  std::shared_ptr<const ei::Engine> engine;
};

struct EiSession {
  std::shared_ptr<const ei::Engine> engine;  // outlives the session, whoever frees its handle first
  ei::CancelToken cancel;
  std::unique_ptr<ei::Session> session;
  ei::GenerateResult answer;  // what an EiAnswer points to
};

namespace ei::api {

// An interruption is over when the call that it ended returns.
class CancelScope {
 public:
  explicit CancelScope(EiSession& session) : session_(session) {}
  ~CancelScope() { session_.cancel.reset(); }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  EiSession& session_;
};

}  // namespace ei::api
