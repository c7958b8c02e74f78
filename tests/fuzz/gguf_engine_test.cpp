// Hostile files through the whole engine: Engine::load, with libllama's vocabulary and the weights behind it, and a few
// tokens where it loads. An error or a result, never a signal, never memory for a lie.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/random.h"
#include "child.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "malformed_files.h"
#include "model/config.h"
#include "mutate.h"
#include "tools/random_model.h"

namespace ei::fuzz {
namespace {

constexpr int64_t kMemory = int64_t{1} << 30;  // addresses; the files have some tens of kilobytes
constexpr int64_t kVocabulary = 288;
#ifdef EI_SANITIZED
constexpr int kMutations = 500;
#else
constexpr int kMutations = 2'000;
#endif

// Loads the file and feeds a few tokens.
Status load_and_run(const std::string& path) {
  EngineOptions options;
  options.model_path = path;
  options.backend_options.threads = 1;
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::load(options));
  SessionOptions few;
  few.context = 16;
  few.key_type = few.value_type = DType::kF16;
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, engine->new_session(few));
  EI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                      engine->tokenizer().tokenize("the mill\n", {.add_bos_eos = true, .parse_special = true}));
  EI_RETURN_IF_ERROR(session->prefill(tokens));
  EI_RETURN_IF_ERROR(session->decode(tokens.back()));
  engine->tokenizer().detokenize(tokens, true);
  return {};
}

class HostileModel : public testing::Test {
 protected:
  ~HostileModel() override {
    std::remove(path_.c_str());
    std::remove(told_path_.c_str());
  }

  // A loadable model of the family, with weights of several types.
  std::string small_model(const std::string& family) const {
    RandomModelSpec spec;
    spec.family = family;
    spec.layers = 1;
    spec.width = 64;
    spec.heads = 2;
    spec.kv_heads = 1;
    spec.head_dim = 32;
    spec.ffn = 64;
    spec.vocab = kVocabulary;
    spec.context = 64;
    spec.types = {"Q4_0", "F16", "Q8_0", "F32"};
    EXPECT_TRUE(make_random_model(spec, path_).ok());
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  struct Outcome {
    int ran = 0;          // files that loaded and ran
    std::string strange;  // the first error that blames neither the model nor memory, and its file
    std::string last_error;
  };
  // Nothing when the child did not end well.
  std::optional<Outcome> run_in_child(const std::vector<NamedFile>& files, bool may_lack_memory) const {
    const bool well = child_survives(kMemory, [&] {
      Outcome outcome;
      for (const NamedFile& file : files) {
        std::ofstream(path_, std::ios::binary | std::ios::trunc) << file.bytes;
        const Status status = load_and_run(path_);
        if (status.ok()) {
          ++outcome.ran;
        } else {
          outcome.last_error = status.error().message;
          const ErrorKind kind = status.error().kind;
          const bool expected = kind == ErrorKind::kModel || (kind == ErrorKind::kMemory && may_lack_memory);
          const bool named = outcome.last_error.starts_with(path_ + ": ");
          if ((!expected || !named) && outcome.strange.empty())
            outcome.strange = file.name + ", exit code " + std::to_string(exit_code(kind)) + ": " + outcome.last_error;
        }
      }
      std::ofstream(told_path_) << outcome.ran << '\n' << outcome.strange << '\n' << outcome.last_error;
    });
    if (!well) return std::nullopt;
    Outcome outcome;
    std::ifstream told(told_path_);
    told >> outcome.ran;
    told.ignore();
    std::getline(told, outcome.strange);
    std::getline(told, outcome.last_error);
    return outcome;
  }

  // What fails says that the model is at fault (exit code 3), or memory (4) where that can be, and names the file.
  Outcome expect_survival(const std::vector<NamedFile>& files, bool may_lack_memory = false) const {
    if (std::optional<Outcome> outcome = run_in_child(files, may_lack_memory)) {
      EXPECT_EQ(outcome->strange, "");
      return *outcome;
    }
    for (const NamedFile& file : files) EXPECT_TRUE(run_in_child({file}, may_lack_memory).has_value()) << file.name;
    ADD_FAILURE() << "a batch of " << files.size() << " files ended the child";
    return {};
  }

  void expect_mutations_survive(int mutations, uint64_t first_seed) const {
    constexpr int kBatch = 200;
    std::vector<std::string> bases;
    for (const std::string_view family : model::architecture_names()) bases.push_back(small_model(std::string(family)));
    std::vector<Mutator> mutators(bases.begin(), bases.end());
    int ran = 0;
    std::vector<NamedFile> batch;
    for (int i = 0; i < mutations; ++i) {
      const uint64_t seed = first_seed + static_cast<uint64_t>(i);
      Random random(seed);
      const std::string& other = bases[static_cast<size_t>(random.below(std::ssize(bases)))];
      batch.push_back(
          {"seed " + std::to_string(seed), mutators[static_cast<size_t>(i) % mutators.size()].mutate(random, other)});
      if (batch.size() < kBatch && i + 1 < mutations) continue;
      ran += expect_survival(batch, /*may_lack_memory=*/true).ran;
      batch.clear();
    }
    EXPECT_GT(ran, mutations / 20) << "too much damage: nothing behind the loader is exercised";
    EXPECT_LT(ran, mutations * 3 / 4) << "too little damage";
  }

  const std::string path_ = testing::TempDir() + "ei_hostile_" + std::to_string(::getpid()) + ".gguf";
  const std::string told_path_ = path_ + ".told";
};

TEST_F(HostileModel, UndamagedItRuns) {
  for (const std::string_view family : model::architecture_names()) {
    const Outcome outcome = expect_survival({{std::string(family), small_model(std::string(family))}});
    EXPECT_EQ(outcome.ran, 1) << family << outcome.last_error;
  }
}

TEST_F(HostileModel, EndsInAnErrorOrInALoadWhenMutated) { expect_mutations_survive(kMutations, 9'000'000); }

// ctest -L slow
TEST_F(HostileModel, DISABLED_EndsInAnErrorOrInALoadWhenMutatedManyTimes) {
  expect_mutations_survive(50'000, 10'000'000);
}

TEST_F(HostileModel, EndsInAnErrorWhenCutShort) {
  const std::string whole = small_model("llama");
  std::vector<NamedFile> cut;
  for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 100)
    cut.push_back({"cut at " + std::to_string(size), whole.substr(0, size)});
  cut.push_back({"cut at the last byte", whole.substr(0, whole.size() - 1)});
  EXPECT_EQ(expect_survival(cut).ran, 0);
}

TEST_F(HostileModel, EndsInAnErrorWhenMalformedByName) { EXPECT_EQ(expect_survival(malformed_files()).ran, 0); }

}  // namespace
}  // namespace ei::fuzz
