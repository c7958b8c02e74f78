// Sanity of the KV methods on the embedded model: with the question in the prompt and a fifth of the cache left, no
// method finds more needles than full attention, and none fewer than any slots at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "engine/prompt.h"
#include "eval/exam.h"
#include "eval/items/source.h"
#include "eval/run/generation.h"
#include "parity/parity_models.h"
#include "policy/registry.h"

namespace ei::testing {
namespace {

constexpr int64_t kLength = 2048;
constexpr int64_t kNeedles = 10;

// Every KV method with a fifth of the text, compressing as soon as the question has been read.
std::vector<eval::MethodSpec> all_methods() {
  std::vector<eval::MethodSpec> specs;
  const auto add = [&](std::string_view name, const policy::KvOptions& kv) {
    eval::MethodSpec spec;
    spec.label = name;
    spec.reading = "full";
    spec.session.kv = kv;
    const auto method = policy::make_kv_method(kv, {});
    spec.samples = method != nullptr && method->needs().queries == policy::QuerySource::kSampled;
    specs.push_back(std::move(spec));
  };
  for (const policy::KvEntry& entry : policy::kv_rules()) {
    policy::KvOptions kv = entry.preset;
    if (kv.rule != policy::KvRule::kKeepAll) kv.budget_share = 0.2;
    kv.gap = -1;
    if (kv.queries == policy::QuerySource::kSampled) kv.window = 32;  // recent slots alone: as many as the others keep
    add(entry.name, kv);
  }
  policy::KvOptions pages = policy::find_method("quest")->kv;
  pages.read = static_cast<int32_t>(kLength / 5);
  add("quest", pages);
  return specs;
}

Result<eval::ItemSource> needles(const Engine& engine) {
  eval::SourceOptions options{.tasks = {"num"},
                              .lengths = {kLength},
                              .samples = kNeedles,
                              .depths = kNeedles,
                              .seed = 3,
                              .tokenizer = &engine.tokenizer(),
                              .frame = {}};
  std::optional<text::ChatTemplate> chat;
  options.has_template = !engine.tokenizer().chat_template().empty();
  if (options.has_template) {
    EI_ASSIGN_OR_RETURN(chat, choose_template({}, engine.tokenizer()));
  }
  EI_ASSIGN_OR_RETURN(options.frame, eval::make_chat_frame(engine.tokenizer(), chat));
  return eval::ItemSource::open(std::move(options));
}

TEST(Needles, FullFindsAtLeastWhatAnyMethodFindsAndThatAtLeastWhatRandomFinds) {
  BackendOptions backend;
  backend.threads = 1;
  const std::unique_ptr<Engine> engine = load_engine(EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf", "cpu", backend);
  ASSERT_NE(engine, nullptr);
  const auto source = needles(*engine);
  ASSERT_TRUE(source.ok()) << source.error().message;
  const std::vector<eval::MethodSpec> methods = all_methods();
  std::map<std::string, double> found;
  for (const eval::ItemRef& ref : source->refs()) {
    const auto item = source->make(ref);
    ASSERT_TRUE(item.ok()) << item.error().message;
    const auto prompt = source->prompt(*item);
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    const auto results = eval::answer_item(*engine, *item, *prompt, methods, {.context = kLength});
    ASSERT_TRUE(results.ok()) << results.error().message;
    for (const eval::ItemResult& result : *results) {
      found[result.method] += result.score;
      const bool whole = result.method == "full" || result.method == "quest";
      EXPECT_EQ(result.compressions, whole ? 0 : 1) << result.method;
    }
  }
  for (const auto& [name, count] : found) {
    std::printf("%-12s %g of %lld\n", name.c_str(), count, static_cast<long long>(kNeedles));
    EXPECT_LE(count, found["full"]) << name;
    EXPECT_GE(count, found["random"]) << name;
  }
  EXPECT_GE(found["full"], 0.9 * kNeedles) << "a task that full attention does not solve measures nothing";
  EXPECT_LT(found["random"], found["full"]);
}

}  // namespace
}  // namespace ei::testing
