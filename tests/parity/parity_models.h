// Engines, sessions and random models as the parity tests use them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tools/random_model.h"

namespace ei::testing {

// A random model in a temporary file that is gone with the object.
class RandomModelFile {
 public:
  explicit RandomModelFile(const RandomModelSpec& spec);
  ~RandomModelFile();
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The small shape of `family` that the tests use: two or three layers, windows and global layers where it has them.
RandomModelSpec small_spec(const std::string& family, const std::string& type);
std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t seed);

// Where `make models` puts this one.
std::string downloaded(const std::string& name);

// Every family in these weight types, for parameterised tests.
struct FamilyCase {
  std::string family;
  std::string type;
};
void PrintTo(const FamilyCase& test, std::ostream* out);  // NOLINT(readability-identifier-naming): GoogleTest's name
std::vector<FamilyCase> family_cases(std::span<const char* const> types);
std::string case_name(const ::testing::TestParamInfo<FamilyCase>& test);

// Null (and a failed expectation) when the model does not load.
std::unique_ptr<Engine> load_engine(const std::string& path, const std::string& backend, BackendOptions options,
                                    gguf::Overrides overrides = {});
// Logits [tokens, vocab] of every position of a fresh session.
std::vector<float> our_logits(const Engine& engine, std::span<const int32_t> tokens, int64_t batch,
                              std::optional<DType> kv_type);
// Greedy continuation, stopping at nothing but the count.
std::vector<int32_t> our_greedy(const Engine& engine, std::span<const int32_t> tokens, int64_t batch,
                                std::optional<DType> kv_type, int count);

}  // namespace ei::testing
