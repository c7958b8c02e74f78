// Where exceptions end that would leave a thread that all requests share: one of them fails, the others go on.
#pragma once

#include <exception>
#include <new>

#include "base/result.h"

namespace ei::server {

// What the request is told whose step threw it. Our own code throws nothing but for want of memory.
inline Error error_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {ErrorKind::kMemory, "out of memory for this request"};
  return {ErrorKind::kRuntime, error.what()};
}

// For a step whose failing nobody can be told of.
template <typename Step>
void contain(Step&& step) {
  try {
    step();
  } catch (const std::exception&) {
  }
}

}  // namespace ei::server
