// What our validator accepts, libllama must survive: its vocabulary is loaded from the same bytes in a child process,
// and no signal may end that child. Also compares our table of tensor types with ggml's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>

#include "base/random.h"
#include "child.h"
#include "ggml.h"
#include "gguf/file.h"
#include "gguf/tensor_type.h"
#include "llama.h"
#include "malformed_files.h"
#include "mutate.h"
#include "random_vocabulary_file.h"
#include "walk.h"

namespace ei::fuzz {
namespace {

// Loads the vocabulary and uses it as the text room does. Runs in a child: a crash is the finding.
void load_and_use(const std::string& path) {
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = llama_model_load_from_file(path.c_str(), params);
  if (model == nullptr) return;  // a refusal is fine: it is reported as an error
  const llama_vocab* vocab = llama_model_get_vocab(model);
  const std::string text = "the Hello\n \xC3\xA9\xE4\xBD\xA0 123 <s></s>\x01\xFF";
  std::vector<llama_token> tokens(256);
  for (const bool special : {false, true}) {
    llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                   static_cast<int32_t>(tokens.size()), special, special);
  }
  std::string piece(1 << 16, '\0');
  for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); ++token) {
    llama_token_to_piece(vocab, token, piece.data(), static_cast<int32_t>(piece.size()), 0, true);
    llama_vocab_is_eog(vocab, token);
  }
  llama_model_chat_template(model, nullptr);
  llama_model_free(model);
}

constexpr int64_t kMemory = int64_t{2} << 30;

// All files in one child.
bool libllama_survives(const std::vector<std::string>& files, const std::string& path) {
  return child_survives(kMemory, [&] {
    for (const std::string& bytes : files) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
      load_and_use(path);
    }
  });
}

class Libllama : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  }
  ~Libllama() override { std::remove(path_.c_str()); }

  static bool accepted(const std::string& bytes) {
    return parse_copy(bytes, [](const auto&) {});
  }
  void expect_survival(const std::vector<NamedFile>& files) const {
    std::vector<std::string> all;
    all.reserve(files.size());
    for (const NamedFile& file : files) all.push_back(file.bytes);
    if (libllama_survives(all, path_)) return;
    for (const NamedFile& file : files) EXPECT_TRUE(libllama_survives({file.bytes}, path_)) << file.name;
    ADD_FAILURE() << "a batch of " << files.size() << " files ended the child";
  }

  // Makes files from seeds, keeps those that our validator accepts, and returns how many libllama was shown.
  int expect_survival_of_accepted(int files, uint64_t first_seed,
                                  const std::function<std::string(Random&)>& make) const {
    constexpr size_t kBatch = 128;
    std::vector<NamedFile> batch;
    int tried = 0;
    for (int i = 0; i < files; ++i) {
      const uint64_t seed = first_seed + static_cast<uint64_t>(i);
      Random random(seed);
      std::string bytes = make(random);
      if (accepted(bytes)) batch.push_back({"seed " + std::to_string(seed), std::move(bytes)});
      if (batch.size() < kBatch && i + 1 < files) continue;
      tried += static_cast<int>(batch.size());
      expect_survival(batch);
      batch.clear();
    }
    return tried;
  }

  const std::string path_ = testing::TempDir() + "ei_libllama_" + std::to_string(::getpid()) + ".gguf";
};

TEST_F(Libllama, ReadsOurValidFiles) {
  for (const NamedFile& file : valid_files()) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << file.bytes;
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    llama_model* model = llama_model_load_from_file(path_.c_str(), params);
    EXPECT_NE(model, nullptr) << file.name;
    llama_model_free(model);
  }
}

TEST_F(Libllama, SurvivesEveryMutatedFileThatWeAccept) {
  const std::vector<NamedFile> bases = valid_files();
  std::vector<Mutator> mutators;
  mutators.reserve(bases.size());
  for (const NamedFile& base : bases) mutators.emplace_back(base.bytes);
  const int tried = expect_survival_of_accepted(8'000, 7'000'000, [&](Random& random) {
    const Mutator& mutator = mutators[static_cast<size_t>(random.below(std::ssize(mutators)))];
    return mutator.mutate(random, bases[static_cast<size_t>(random.below(std::ssize(bases)))].bytes);
  });
  EXPECT_GT(tried, 300);
}

TEST_F(Libllama, SurvivesEveryOddVocabularyThatWeAccept) {
  EXPECT_GT(expect_survival_of_accepted(4'000, 8'000'000, random_vocabulary_file), 700);
}

// The harness must see what it looks for: libllama aborts on duplicate tokens.
TEST_F(Libllama, EndsTheChildOnAFileThatWeRefuse) {
  for (const NamedFile& file : malformed_files()) {
    if (file.name != "token-twice") continue;
    EXPECT_FALSE(libllama_survives({file.bytes}, path_));
  }
}

TEST_F(Libllama, AgreesWithOurTableOfTensorTypes) {
  for (int id = 0; id < GGML_TYPE_COUNT; ++id) {
    const auto type = static_cast<ggml_type>(id);
    const gguf::TensorType* ours = gguf::find_tensor_type(static_cast<uint32_t>(id));
    if (ggml_blck_size(type) == 0) {
      EXPECT_EQ(ours, nullptr) << id;
      continue;
    }
    ASSERT_NE(ours, nullptr) << ggml_type_name(type);
    EXPECT_EQ(ours->block_elements, ggml_blck_size(type)) << ours->name;
    EXPECT_EQ(ours->block_bytes, static_cast<int64_t>(ggml_type_size(type))) << ours->name;
    // What ggml can turn into floats can be a weight.
    EXPECT_EQ(ours->loadable, type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr) << ours->name;
  }
  EXPECT_EQ(gguf::find_tensor_type(GGML_TYPE_COUNT), nullptr);
}

}  // namespace
}  // namespace ei::fuzz
