// gguf::File: a validated, memory-mapped model file. open() checks everything (bounds, overflow, types, shapes, the
// vocabulary) before anything else touches the file: any byte string ends in an Error (kModel) or in a File whose
// every tensor lies inside the mapping. See docs/design.md, "Model files".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "gguf/overrides.h"
#include "gguf/tensor_type.h"

namespace ei::gguf {

// Metadata types with the ids of the format.
enum class ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

// An array stays in the mapping; strings are views into it.
struct Array {
  ValueType element = ValueType::kU8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;       // raw little-endian elements (numbers and bools)
  std::vector<std::string_view> strings;  // for string arrays
};

struct Value {
  ValueType type = ValueType::kU8;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, Array> data;
};

struct Tensor {
  std::string_view name;
  const TensorType* type = nullptr;
  std::vector<int64_t> shape;  // innermost first, as in the file; 1 to 4 extents, each >= 1
  const std::byte* data = nullptr;
  int64_t bytes = 0;

  int64_t cols() const { return shape[0]; }
  int64_t rows() const;  // product of the other extents
};

class File {
 public:
  // Overrides stand in place of what the file says, and are held to the same checks.
  // `copy`: the bytes are read into memory instead of being mapped.
  static Result<File> open(const std::string& path, const Overrides& overrides = {}, bool copy = false);
  // For tests and fuzzing: the same checks on bytes in memory, which must outlive the File.
  static Result<File> parse(std::span<const std::byte> bytes, std::string name, const Overrides& overrides = {});

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const;
  // The same error with the path in front, so that every line about a model says which.
  Error named(const Error& error) const;
  int64_t bytes() const;
  uint32_t version() const;

  const Value* find(std::string_view key) const;  // null when absent
  std::span<const std::pair<std::string_view, Value>> metadata() const;
  // Typed look-ups: nullopt when absent or of another type. Any integer type is accepted for integers if it fits.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;  // floats and integers
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> string(std::string_view key) const;
  const Array* array(std::string_view key) const;
  static std::optional<int64_t> integer_at(const Array& array, uint64_t index);

  const Tensor* tensor(std::string_view name) const;  // null when absent
  std::span<const Tensor> tensors() const;

  std::span<const std::byte> mapping() const;  // empty when it lies in memory of its own
  // Tells the system that these bytes of the mapping are no longer needed in memory (they can be read again).
  void release_pages(const Tensor& tensor) const;

 private:
  struct State;
  explicit File(std::unique_ptr<State> state);
  Status read(const Overrides& overrides);
  Status put(const Override& override);
  std::unique_ptr<State> state_;
};

// The vocabulary and everything libllama would abort on: token arrays of one length, no duplicates, ids in range,
// byte tokens present, scores and types of the right element type, merges well formed. Called by open().
Status check_vocabulary(const File& file);

}  // namespace ei::gguf
