// libllama as the oracle: the logits it computes for the same file and the same tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ei::testing {

// Its parameters of YaRN; -1: as the model says.
struct OracleYarn {
  float ext_factor = -1;
  float attn_factor = -1;
  float beta_fast = -1;
  float beta_slow = -1;
};

// How libllama computes; the logits of any two setups differ by its own rounding alone.
struct OracleSetup {
  int context = 512;
  bool f32_cache = false;  // keys and values in f32 (f16 otherwise, libllama's default)
  bool flash = false;      // attention in one fused kernel
  int threads = 1;         // each waits for the others by spinning: two on one core take ages
  OracleYarn yarn = {};
};

class LlamaOracle {
 public:
  static std::unique_ptr<LlamaOracle> load(const std::string& path, const OracleSetup& setup);
  // f32_cache: keys and values in f32 (f16 otherwise, libllama's default).
  static std::unique_ptr<LlamaOracle> load(const std::string& path, int context, bool f32_cache);
  ~LlamaOracle();

  int vocab() const;
  // Logits [tokens, vocab] of every position of a fresh sequence, read `batch` (at most 512) tokens at a time.
  std::vector<float> evaluate(std::span<const int32_t> tokens, int batch = 512);
  // Greedy continuation, stopping at nothing but the count.
  std::vector<int32_t> continue_greedily(std::span<const int32_t> tokens, int count);

 private:
  struct Impl;
  explicit LlamaOracle(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ei::testing
