#include "parity/llama_oracle.h"

#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>

namespace ei::testing {

namespace {
constexpr int kBatch = 512;
}

struct LlamaOracle::Impl {
  llama_model* model = nullptr;
  llama_context* context = nullptr;

  ~Impl() {
    if (context != nullptr) llama_free(context);
    if (model != nullptr) llama_model_free(model);
  }

  // Feeds tokens at `first`...; keeps the logits of all of them (or of the last only).
  void feed(std::span<const int32_t> tokens, int first, bool all, std::vector<float>& out, size_t most = kBatch) {
    const auto vocab = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
    for (size_t done = 0; done < tokens.size();) {
      const size_t count = std::min(most, tokens.size() - done);
      llama_batch batch = llama_batch_init(static_cast<int32_t>(count), 0, 1);
      batch.n_tokens = static_cast<int32_t>(count);
      for (size_t i = 0; i < count; ++i) {
        batch.token[i] = tokens[done + i];
        batch.pos[i] = first + static_cast<int32_t>(done + i);
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = all || done + i + 1 == tokens.size();
      }
      llama_decode(context, batch);
      for (size_t i = 0; i < count; ++i) {
        if (batch.logits[i] == 0) continue;
        const float* row = llama_get_logits_ith(context, static_cast<int32_t>(i));
        out.insert(out.end(), row, row + vocab);
      }
      llama_batch_free(batch);
      done += count;
    }
  }
};

LlamaOracle::LlamaOracle(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LlamaOracle::~LlamaOracle() = default;

std::unique_ptr<LlamaOracle> LlamaOracle::load(const std::string& path, int context, bool f32_cache) {
  return load(path, {.context = context, .f32_cache = f32_cache});
}

std::unique_ptr<LlamaOracle> LlamaOracle::load(const std::string& path, const OracleSetup& setup) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  if (ggml_backend_reg_count() == 0) ggml_backend_load_all();  // a portable build loads its CPU variant at run time
  auto impl = std::make_unique<Impl>();
  impl->model = llama_model_load_from_file(path.c_str(), llama_model_default_params());
  if (impl->model == nullptr) return nullptr;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(setup.context);
  params.n_batch = kBatch;
  params.n_ubatch = kBatch;
  params.n_threads = setup.threads;
  params.n_threads_batch = setup.threads;
  params.flash_attn_type = setup.flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.swa_full = true;
  params.yarn_ext_factor = setup.yarn.ext_factor;
  params.yarn_attn_factor = setup.yarn.attn_factor;
  params.yarn_beta_fast = setup.yarn.beta_fast;
  params.yarn_beta_slow = setup.yarn.beta_slow;
  if (setup.f32_cache) {
    params.type_k = GGML_TYPE_F32;
    params.type_v = GGML_TYPE_F32;
  }
  impl->context = llama_init_from_model(impl->model, params);
  if (impl->context == nullptr) return nullptr;
  return std::unique_ptr<LlamaOracle>(new LlamaOracle(std::move(impl)));
}

int LlamaOracle::vocab() const { return llama_vocab_n_tokens(llama_model_get_vocab(impl_->model)); }

std::vector<float> LlamaOracle::evaluate(std::span<const int32_t> tokens, int batch) {
  llama_memory_clear(llama_get_memory(impl_->context), true);
  std::vector<float> logits;
  impl_->feed(tokens, 0, /*all=*/true, logits, static_cast<size_t>(batch));
  return logits;
}

std::vector<int32_t> LlamaOracle::continue_greedily(std::span<const int32_t> tokens, int count) {
  llama_memory_clear(llama_get_memory(impl_->context), true);
  std::vector<int32_t> generated;
  std::vector<float> logits;
  impl_->feed(tokens, 0, /*all=*/false, logits);
  for (int i = 0; i < count; ++i) {
    const auto best = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    generated.push_back(best);
    logits.clear();
    impl_->feed({&best, 1}, static_cast<int>(tokens.size()) + i, /*all=*/false, logits);
  }
  return generated;
}

}  // namespace ei::testing
