// RequestWalk: a body through every route that takes one, up to where the model would begin. What the libFuzzer target
// and the test of the corpus share.
#pragma once

#include <memory>
#include <string>

#include "server/api/api.h"

namespace ei::fuzz {

class RequestWalk {
 public:
  // `model` is a file with the embedded model's vocabulary.
  explicit RequestWalk(const std::string& model);
  ~RequestWalk();
  // Empty where the model cannot be loaded: why.
  const std::string& failure() const { return failure_; }

  // What is wrong with how `body` was answered; empty: nothing. Every route answers it once, with a success, or with an
  // error of the request's that names what it is about.
  std::string complaint(const std::string& body);
  int64_t taken() const { return taken_; }  // answers that were no error, or would have come from the model
  int64_t submitted() const;                // tasks that were given to the scheduler, which drops them all

 private:
  std::string ask(const server::Api& api, const server::Route& route, const std::string& body);

  std::string failure_{};
  std::unique_ptr<Engine> engine_{};
  server::ServerOptions options_{};
  std::unique_ptr<server::Scheduler> scheduler_{};
  server::TextShelf shelf_{int64_t{1} << 20};
  int64_t taken_ = 0;
};

}  // namespace ei::fuzz
