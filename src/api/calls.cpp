#include "api/calls.h"

#include <string>

namespace ei::api {

namespace {
std::string& last_error() {
  thread_local std::string text;
  return text;
}
}  // namespace

EiStatus fail(const Error& error) {
  try {
    last_error() = error.message;
  } catch (const std::bad_alloc&) {
    last_error().clear();
  }
  return static_cast<EiStatus>(exit_code(error.kind));
}

}  // namespace ei::api

const char* ei_last_error(void) { return ei::api::last_error().c_str(); }
int ei_api_version(void) { return EI_API_VERSION; }
const char* ei_version(void) { return EI_LIBRARY_VERSION; }
