#include <entropyinfer/entropyinfer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace {
constexpr const char* kModel = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";

const entropyinfer::Engine& library_engine() {
  static const entropyinfer::Engine loaded = [] {
    entropyinfer::EngineOptions options;
    options.model = kModel;
    return *entropyinfer::Engine::load(options);
  }();
  return loaded;
}

entropyinfer::Session library_session(const entropyinfer::SessionOptions& options = {}) {
  auto session = library_engine().new_session(options);
  EXPECT_TRUE(session.ok()) << session.error().message;
  return *std::move(session);
}

entropyinfer::Tokens some_tokens(int32_t count) {
  entropyinfer::Tokens tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(10 + i * 7919 % 3000);
  return tokens;
}
}  // namespace

TEST(CApi, NullsAndForgottenSizesAreErrorsWithALine) {
  EiEngine* engine = nullptr;
  EXPECT_EQ(ei_engine_load(nullptr, &engine), EI_USAGE);
  EXPECT_STREQ(ei_last_error(), "EiEngineOptions.model is null");
  EiEngineOptions options{};
  options.model = kModel;
  EXPECT_EQ(ei_engine_load(&options, &engine), EI_USAGE);
  EXPECT_STREQ(ei_last_error(), "EiEngineOptions.size is not set to sizeof");
  options.size = sizeof options;
  EXPECT_EQ(ei_engine_load(&options, nullptr), EI_USAGE);
  EXPECT_EQ(ei_session_prefill(nullptr, nullptr, 0, nullptr, nullptr), EI_USAGE);
  EXPECT_EQ(ei_generate(nullptr, nullptr, 0, nullptr, nullptr), EI_USAGE);
  EXPECT_EQ(ei_session_logits(nullptr, nullptr), nullptr);
  ei_engine_free(nullptr);
  ei_session_free(nullptr);
  ei_session_cancel(nullptr);
}

TEST(CApi, AStructOfAnOlderProgramIsTakenAndOneOfANewerIsNotMisread) {
  EiEngineOptions options{};
  options.size = offsetof(EiEngineOptions, device);  // as if device and threads had come later
  options.model = kModel;
  options.device = "no such device";
  EiEngine* engine = nullptr;
  ASSERT_EQ(ei_engine_load(&options, &engine), EI_OK) << ei_last_error();
  EiModelInfo info{};
  info.size = offsetof(EiModelInfo, layers);
  info.layers = -5;
  ASSERT_EQ(ei_engine_info(engine, &info), EI_OK);
  EXPECT_STREQ(info.architecture, "llama");
  EXPECT_EQ(info.layers, -5);
  ei_engine_free(engine);

  struct Newer {
    EiEngineOptions known;
    int64_t added;
  } newer{};
  newer.known.size = sizeof newer;
  newer.known.model = kModel;
  ASSERT_EQ(ei_engine_load(&newer.known, &engine), EI_OK) << ei_last_error();
  ei_engine_free(engine);
  newer.added = 1;
  EXPECT_EQ(ei_engine_load(&newer.known, &engine), EI_USAGE);
}

TEST(CApi, ErrorsHaveTheKindAndTheWordsOfTheEngine) {
  const auto missing = entropyinfer::Engine::load({"nowhere.gguf"});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("nowhere.gguf"), std::string::npos);
  const auto refused = [](auto change) {
    entropyinfer::SessionOptions options;
    change(options);
    const auto session = library_engine().new_session(options);
    return session.ok() ? std::string("taken") : session.error().message;
  };
  EXPECT_NE(refused([](auto& o) { o.method = "magic"; }).find("magic"), std::string::npos);
  EXPECT_EQ(refused([](auto& o) { o.method_options = "wand=1"; }), "no method has an option 'wand'");
  EXPECT_EQ(refused([](auto& o) { o.method_options = "wand"; }), "options of a method are name=value, not 'wand'");
  EXPECT_NE(refused([](auto& o) { o.key_type = "q9"; }).find("'q9'"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.method_options = "base-budget=512"; }).find("no meaning"), std::string::npos);
}

TEST(CApi, ListsSayHowLongTheyAreAndAreCutToTheRoom) {
  const char* text = "a text of several words";
  const auto whole = library_engine().tokenize(text);
  ASSERT_TRUE(whole.ok());
  EiEngineOptions options{};
  options.size = sizeof options;
  options.model = kModel;
  EiEngine* engine = nullptr;
  ASSERT_EQ(ei_engine_load(&options, &engine), EI_OK);
  int32_t tokens[3] = {-7, -7, -7};
  size_t count = 0;
  ASSERT_EQ(ei_tokenize(engine, text, std::strlen(text), EI_ADD_BOS_EOS, tokens, 2, &count), EI_OK);
  EXPECT_EQ(count, whole->size());
  EXPECT_EQ(tokens[1], (*whole)[1]);
  EXPECT_EQ(tokens[2], -7);
  EXPECT_EQ(ei_tokenize(engine, "\xff", 1, 0, tokens, 3, &count), EI_USAGE);
  ei_engine_free(engine);
  const std::string longer(5000, 'x');
  const auto tokenized = library_engine().tokenize(longer, 0);
  ASSERT_TRUE(tokenized.ok());
  EXPECT_EQ(*library_engine().detokenize(*tokenized), longer);
}

TEST(CApi, MethodsAndDevicesAreNamed) {
  const auto methods = entropyinfer::methods();
  const auto named = [&](const char* name) {
    return std::any_of(methods.begin(), methods.end(), [&](const auto& method) { return method.name == name; });
  };
  EXPECT_TRUE(named("full") && named("entropyinfer"));
  for (const auto& method : methods) EXPECT_FALSE(method.summary.empty()) << method.name;
  EXPECT_EQ(entropyinfer::devices().front().name, "cpu");
  EXPECT_EQ(ei_api_version(), EI_API_VERSION);
}

TEST(LibrarySession, LogitsOfAllPositionsEndWithThoseOfThePrompt) {
  const entropyinfer::Tokens tokens = some_tokens(40);
  auto one = library_session();
  ASSERT_TRUE(one.prefill(tokens).ok());
  auto all = library_session();
  std::vector<float> last;
  int64_t rows = 0;
  ASSERT_TRUE(all.evaluate(tokens,
                           [&](int64_t position, const float* logits, size_t vocab) {
                             EXPECT_EQ(position, rows++);
                             last.assign(logits, logits + vocab);
                             return true;
                           })
                  .ok());
  EXPECT_EQ(rows, 40);
  EXPECT_EQ(last, one.logits());
  EXPECT_EQ(last.size(), static_cast<size_t>(library_engine().info().vocab));
  EXPECT_TRUE(one.truncate(10).ok());
  EXPECT_EQ(one.position(), 10);
  EXPECT_FALSE(one.truncate(11).ok());
}

TEST(LibrarySession, KeepsItsTextUnlessItsMemoryIsGivenBack) {
  entropyinfer::SessionOptions options;
  options.method = "snapkv";
  options.method_options = "kv-budget=64";
  entropyinfer::GenerateOptions wanted;
  wanted.max_tokens = 3;
  wanted.ignore_eos = true;
  auto whole = library_session(options);
  options.kv_free = true;
  auto freed = library_session(options);
  for (auto* session : {&whole, &freed}) {
    ASSERT_TRUE(session->generate(some_tokens(300), wanted).ok());
    EXPECT_EQ(session->stats().compressions, 1);
  }
  EXPECT_LT(freed.stats().kv_bytes, whole.stats().kv_bytes / 2);
  EXPECT_TRUE(whole.truncate(200).ok());
  const auto refused = freed.truncate(200);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, EI_USAGE);
}

TEST(LibrarySession, AnAnswerIsStreamedWholeAndCanBeStopped) {
  const entropyinfer::Tokens prompt = some_tokens(20);
  auto session = library_session();
  entropyinfer::GenerateOptions options;
  options.max_tokens = 12;
  options.ignore_eos = true;
  std::string streamed;
  options.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  const auto answer = session.generate(prompt, options);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->text, streamed);
  EXPECT_EQ(answer->tokens.size(), 12u);
  EXPECT_EQ(answer->finish_reason, "length");

  options.whole_prompt = true;
  options.on_text = [](std::string_view) { return false; };
  const auto stopped = session.generate(prompt, options);
  ASSERT_TRUE(stopped.ok()) << stopped.error().message;
  EXPECT_EQ(stopped->finish_reason, "interrupted");
  EXPECT_EQ(stopped->cached_tokens, 19);
  EXPECT_EQ(answer->text.rfind(stopped->text, 0), 0u);

  options.on_text = [](std::string_view) -> bool { throw std::runtime_error("out of the callback"); };
  EXPECT_THROW((void)session.generate(prompt, options), std::runtime_error);
  options.on_text = nullptr;
  const auto again = session.generate(prompt, options);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->tokens, answer->tokens);
}

TEST(LibrarySession, AnotherThreadEndsTheCallThatRuns) {
  auto session = library_session();
  entropyinfer::GenerateOptions options;
  options.ignore_eos = true;
  options.max_tokens = 100000;
  std::thread other;
  options.on_text = [&](std::string_view) {
    if (!other.joinable()) other = std::thread([&] { session.cancel(); });
    return true;
  };
  const auto answer = session.generate(some_tokens(10), options);
  other.join();
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->finish_reason, "interrupted");
  session.cancel();
  const auto prevented = session.prefill(some_tokens(2000));
  ASSERT_FALSE(prevented.ok());
  EXPECT_EQ(prevented.error().kind, EI_INTERRUPTED);
  EXPECT_TRUE(session.prefill(some_tokens(10)).ok());
}

TEST(LibrarySession, PlansOfASparsePromptAreThere) {
  entropyinfer::SessionOptions options;
  options.method = "entropyinfer";
  options.method_options = "threshold=0";
  options.keep_plan = true;
  auto session = library_session(options);
  ASSERT_TRUE(session.prefill(some_tokens(4096)).ok());
  const int layer = library_engine().info().layers - 1;
  const auto shape = session.plan_shape(layer);
  ASSERT_TRUE(shape.ok());
  ASSERT_GT(shape->segments, 4);
  EXPECT_GT(shape->segment_tokens, 0);
  bool positive = false;
  for (int64_t i = 0; i < shape->segments; ++i) {
    const auto plan = session.plan(0, i, 0);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->segment, i);
    const int64_t blocks = static_cast<int64_t>(plan->num_blocks) * shape->block_tokens;
    EXPECT_EQ(plan->read, plan->dense != 0 ? i * shape->segment_tokens : blocks);
    positive = positive || plan->entropy > 0;
  }
  EXPECT_TRUE(positive);
  EXPECT_FALSE(session.plan(0, shape->segments, 0).ok());
  EXPECT_FALSE(session.plan(999, 0, 0).ok());
  auto dense = library_session();
  ASSERT_TRUE(dense.prefill(some_tokens(100)).ok());
  EXPECT_EQ(dense.plan_shape(0)->segments, 0);
}
