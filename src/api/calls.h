// What every call of the C interface does: structs of other versions in and out, errors as a status and a line, and no
// exception that leaves.
#pragma once

#include <entropyinfer/c_api.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <span>

#include "base/result.h"

namespace ei::api {

// Keeps the message for ei_last_error() of this thread.
EiStatus fail(const Error& error);

// Runs `body`, which returns a Status.
template <typename Body>
EiStatus guarded(const Body& body) {
  try {
    const Status status = body();
    return status.ok() ? EI_OK : fail(status.error());
  } catch (const std::bad_alloc&) {
    return fail({ErrorKind::kMemory, "out of memory"});
  } catch (const std::exception& error) {
    return fail({ErrorKind::kRuntime, one_line(error.what())});
  } catch (...) {
    return fail({ErrorKind::kRuntime, "an unknown exception"});
  }
}

inline Status need(const void* pointer, const char* what) {
  if (pointer != nullptr) return {};
  return make_error(ErrorKind::kUsage, "%s is null", what);
}

// The caller's struct, which may be of an older or a newer version; null: all defaults.
template <typename Struct>
Result<Struct> read_struct(const Struct* given, const char* name) {
  Struct own{};
  if (given == nullptr) return own;
  if (given->size < sizeof(size_t)) return make_error(ErrorKind::kUsage, "%s.size is not set to sizeof", name);
  std::memcpy(&own, given, std::min(given->size, sizeof own));
  // What a newer caller asks for and this library does not know must not pass unseen.
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const bool more = given->size > sizeof own &&
                    std::any_of(bytes + sizeof own, bytes + given->size, [](unsigned char byte) { return byte != 0; });
  if (more)
    return make_error(ErrorKind::kUsage, "%s has fields that this library (%s) does not know", name, ei_version());
  return own;
}

// Fills as much of the caller's struct as it has.
template <typename Struct>
Status write_struct(Struct own, Struct* given, const char* name) {
  EI_RETURN_IF_ERROR(need(given, name));
  if (given->size < sizeof(size_t)) return make_error(ErrorKind::kUsage, "%s.size is not set to sizeof", name);
  own.size = given->size;
  std::memcpy(static_cast<void*>(given), &own, std::min(given->size, sizeof own));
  return {};
}

// A list into the caller's memory, as much as fits.
template <typename Element>
Status write_list(std::span<const Element> list, Element* target, size_t capacity, size_t* count) {
  EI_RETURN_IF_ERROR(need(count, "count"));
  if (capacity > 0) EI_RETURN_IF_ERROR(need(target, "the target"));
  *count = list.size();
  std::copy_n(list.begin(), std::min(capacity, list.size()), target);
  return {};
}

// What the caller hands over as a list.
template <typename Element>
Result<std::span<const Element>> read_list(const Element* list, size_t count, const char* what) {
  if (count > 0) EI_RETURN_IF_ERROR(need(list, what));
  return std::span<const Element>(list, count);
}

}  // namespace ei::api
