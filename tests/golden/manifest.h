// A folder of golden vectors: its manifest, and the arrays the manifest points at.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ei::golden {

using Json = nlohmann::json;

// A ragged array: list i is indices[offsets[i] .. offsets[i + 1]).
struct Lists {
  std::vector<int32_t> offsets;
  std::vector<int32_t> indices;

  size_t size() const { return offsets.size() - 1; }
  std::vector<int32_t> list(size_t i) const;
};

class Manifest {
 public:
  // Reads the folder data/ beside this file, or the one that EI_GOLDEN_DIR names. Throws what is wrong: a test fails by
  // it.
  static Manifest open();

  const std::string& folder() const { return folder_; }
  const Json& cases() const { return json_.at("cases"); }
  double tolerance(const char* name) const { return json_.at("tolerance").at(name).get<double>(); }

  std::vector<float> floats(const Json& array) const;
  std::vector<int32_t> ints(const Json& array) const;  // a stored array or a plain JSON list
  Lists lists(const Json& lists) const;

 private:
  std::string bytes(const Json& array, std::string_view dtype) const;

  std::string folder_;
  Json json_;
};

}  // namespace ei::golden
