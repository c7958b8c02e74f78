// What the files of the Python module share.
#pragma once

#include <entropyinfer/entropyinfer.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ei_python {

namespace nb = nanobind;

// One type per kind, so that Python can tell them apart.
template <EiStatus kKind>
struct Raised : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void raise(const entropyinfer::Error& error);

template <typename T>
T taken(entropyinfer::Result<T> result) {
  if (!result.ok()) raise(result.error());
  return *std::move(result);
}
inline void check(const entropyinfer::Status& status) {
  if (!status.ok()) raise(status.error());
}

// Values as a numpy array that owns them.
template <typename T>
nb::ndarray<nb::numpy, T> array_of(std::vector<T> values, std::initializer_list<size_t> shape) {
  auto* held = new std::vector<T>(std::move(values));
  const nb::capsule owner(held, [](void* list) noexcept { delete static_cast<std::vector<T>*>(list); });
  return nb::ndarray<nb::numpy, T>(held->data(), shape, owner);
}

// The plans of a session (core_plans.cpp).
void bind_plans(nb::class_<entropyinfer::Session>& session);

}  // namespace ei_python
