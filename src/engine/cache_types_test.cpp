// Sessions whose cache is q8_0, whole or in part, on the embedded model.
#include "engine/cache_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/prompt_cache.h"
#include "policy/registry.h"
#include "support/sparse_sessions.h"
#include "support/temp_folder.h"

namespace ei {
namespace {

SessionOptions typed(std::optional<DType> keys, std::optional<DType> values) {
  SessionOptions options;
  options.key_type = keys;
  options.value_type = values;
  return options;
}
SessionOptions quantised() { return typed(DType::kQ8_0, DType::kQ8_0); }

policy::KvOptions compressed(int32_t budget, int32_t gap) {
  policy::KvOptions kv = policy::find_method("entropyinfer")->kv;
  kv.keep_slots(budget);
  kv.gap = gap;
  kv.repeat = 32;
  return kv;
}

double divergence(const std::vector<float>& of, const std::vector<float>& from) {
  const auto log_sum = [](const std::vector<float>& logits) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    return std::log(sum);
  };
  const double of_sum = log_sum(of);
  const double from_sum = log_sum(from);
  double kld = 0;
  for (size_t i = 0; i < of.size(); ++i) {
    const double log_p = static_cast<double>(from[i]) - from_sum;
    kld += std::exp(log_p) * (log_p - (static_cast<double>(of[i]) - of_sum));
  }
  return kld;
}

TEST(Q8Cache, HasF16BesideItUnlessSomethingElseIsAskedFor) {
  const Backend& backend = embedded_engine().backend();
  const auto types = [&](std::optional<DType> keys, std::optional<DType> values) {
    const CacheTypes chosen = cache_types(backend, keys, values);
    return std::pair(chosen.keys, chosen.values);
  };
  const DType standard = backend.default_kv_type();
  EXPECT_EQ(types({}, {}), std::pair(standard, standard));
  EXPECT_EQ(types(DType::kQ8_0, {}), std::pair(DType::kQ8_0, DType::kF16));
  EXPECT_EQ(types({}, DType::kQ8_0), std::pair(DType::kF16, DType::kQ8_0));
  EXPECT_EQ(types(DType::kQ8_0, DType::kF32), std::pair(DType::kQ8_0, DType::kF32));
  EXPECT_EQ(types(DType::kF32, {}), std::pair(DType::kF32, standard));
}

TEST(Q8Cache, IsRefusedWhereHeadsAreNotWholeBlocksAndByBackendsWithoutIt) {
  model::Config config = embedded_engine().config();
  const CacheTypes types{DType::kF16, DType::kQ8_0};
  EXPECT_TRUE(check_cache_types(embedded_engine().backend(), config, types).ok());
  config.head_dim = 72;
  const Status refused = check_cache_types(embedded_engine().backend(), config, types);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_NE(refused.error().message.find("this model's have 72"), std::string::npos);
  EXPECT_TRUE(check_cache_types(embedded_engine().backend(), config, {DType::kF16, DType::kBF16}).ok());
  const std::unique_ptr<Engine> ggml = load_dense("ggml", "");
  const auto session = ggml->new_session(quantised());
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().kind, ErrorKind::kUsage);
  EXPECT_NE(session.error().message.find("the ggml backend has no cache of q8_0"), std::string::npos);
}

TEST(Q8Cache, TakesHalfTheMemoryAndChangesLittle) {
  const std::vector<int32_t> tokens = random_tokens(2400, 5);
  const auto half = open_session(ggml_engine(), typed(DType::kF16, DType::kF16));
  ASSERT_TRUE(half->prefill(tokens).ok());
  const auto check = [&](DType keys, DType values, double share) {
    const auto session = open_session(ggml_engine(), typed(keys, values));
    ASSERT_TRUE(session->prefill(tokens).ok());
    SCOPED_TRACE(std::string(dtype_name(keys)) + "/" + dtype_name(values));
    const auto bytes = static_cast<double>(session->store().bytes());
    EXPECT_NEAR(bytes / static_cast<double>(half->store().bytes()), share, 0.05);
    const double kld = divergence(logits_of(*session), logits_of(*half));
    EXPECT_GT(kld, 0);
    EXPECT_LT(kld, 0.01);
  };
  check(DType::kQ8_0, DType::kQ8_0, 34.0 / 64);
  check(DType::kQ8_0, DType::kF16, 98.0 / 128);
  check(DType::kF16, DType::kQ8_0, 98.0 / 128);
}

// The oracle quantises and reads by itself; the rest of the distance is that of the products, with any cache.
TEST(Q8Cache, IsAsFarFromTheReferenceAsOneOfF16) {
  const std::unique_ptr<Engine> reference = load_dense("reference", "");
  const std::vector<int32_t> tokens = random_tokens(60, 6);
  const auto distance_of = [&](const SessionOptions& options) {
    const auto slow = open_session(*reference, options);
    const auto fast = open_session(ggml_engine(), options);
    for (Session* session : {slow.get(), fast.get()}) {
      EXPECT_TRUE(session->prefill(tokens).ok());
      EXPECT_TRUE(session->decode(500).ok());
    }
    return divergence(logits_of(*fast), logits_of(*slow));
  };
  EXPECT_LT(distance_of(quantised()), 1.5 * distance_of(typed(DType::kF16, DType::kF16)) + 0.005);
}

TEST(Q8Cache, IsRewoundForkedSavedAndLoadedBitForBit) {
  const kv::TempFolder folder;
  const std::string path = folder.file("cache");
  const std::vector<int32_t> tokens = random_tokens(700, 7);
  const auto session = open_session(ggml_engine(), quantised());
  ASSERT_TRUE(session->prefill(tokens).ok());
  const std::vector<float> first = logits_of(*session);
  ASSERT_TRUE(session->truncate(505).ok());
  ASSERT_TRUE(session->prefill(std::span(tokens).subspan(505)).ok());
  EXPECT_EQ(logits_of(*session), first) << "read again";
  ASSERT_TRUE(save_prompt(*session, path).ok());
  const auto loaded = open_session(ggml_engine(), quantised());
  const auto found = load_prompt(*loaded, path, tokens);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->kept, 699);
  ASSERT_TRUE(loaded->prefill(std::span(tokens).subspan(699)).ok());
  EXPECT_EQ(logits_of(*loaded), first) << "from the file";
  const auto half = open_session(ggml_engine(), typed(DType::kF16, DType::kF16));
  EXPECT_EQ(load_prompt(*half, path, tokens)->why, "its cache is q8_0 and q8_0");
  auto store = session->store().fork();
  ASSERT_TRUE(store.ok());
  const auto forked = open_session(ggml_engine(), quantised());
  ASSERT_TRUE(forked->adopt(std::move(store).value(), tokens).ok());
  for (Session* one : {session.get(), loaded.get(), forked.get()}) {
    for (const int32_t token : {11, 12, 13}) ASSERT_TRUE(one->decode(token).ok());
  }
  EXPECT_EQ(logits_of(*loaded), logits_of(*session));
  EXPECT_EQ(logits_of(*forked), logits_of(*session));
}

TEST(Q8Cache, IsCompressedAndReadSparsely) {
  SessionOptions options = sparse_session(small_options());
  options.key_type = options.value_type = DType::kQ8_0;
  options.kv = compressed(256, 8);
  const std::vector<int32_t> tokens = random_tokens(1000, 8);
  const auto session = open_session(ggml_engine(), options);
  ASSERT_TRUE(session->prefill(tokens).ok());
  EXPECT_LT(session->stats().density(), 0.9);
  const int64_t whole = session->store().bytes();
  for (int step = 0; step < 60; ++step) ASSERT_TRUE(session->decode(likeliest(*session)).ok());
  EXPECT_GE(session->stats().compressions, 2);
  EXPECT_LE(longest(*session), 256 * 8 + 32);
  EXPECT_LT(session->store().bytes(), whole / 2);
  const kv::TempFolder folder;
  ASSERT_TRUE(session->store().save(folder.file("kv"), ggml_engine().model_hash()).ok());
  auto loaded = kv::Store::load(folder.file("kv"), ggml_engine().model_hash(), ggml_engine().backend());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto other = open_session(ggml_engine(), options);
  ASSERT_TRUE(other->adopt(std::move(loaded).value()).ok());
  ASSERT_TRUE(other->decode(100).ok());
  ASSERT_TRUE(session->decode(100).ok());
  EXPECT_EQ(logits_of(*other), logits_of(*session));
}

// Methods that look at keys, and pages chosen by their extremes, read them through operations of their own.
TEST(Q8Cache, IsReadByEveryMethod) {
  const std::vector<int32_t> tokens = random_tokens(600, 9);
  for (const policy::KvEntry& entry : policy::kv_rules()) {
    SCOPED_TRACE(entry.name);
    SessionOptions options = quantised();
    options.kv = entry.preset;
    options.kv->keep_slots(128);
    options.kv->window = std::min(options.kv->window, 16);
    options.kv->gap = -1;
    const auto session = open_session(ggml_engine(), options);
    ASSERT_TRUE(session->prefill(tokens).ok());
    EXPECT_EQ(session->stats().compressions, entry.preset.rule == policy::KvRule::kKeepAll ? 0 : 1);
    ASSERT_TRUE(session->decode(5).ok());
  }
  SessionOptions paged = quantised();
  paged.kv = policy::KvOptions{};
  paged.kv->read = 64;
  paged.kv->read_skip = 0;
  const auto pages = open_session(ggml_engine(), paged);
  const auto whole = open_session(ggml_engine(), quantised());
  for (Session* session : {pages.get(), whole.get()}) {
    ASSERT_TRUE(session->prefill(tokens).ok());
    for (int32_t token = 20; token < 24; ++token) ASSERT_TRUE(session->decode(token).ok());
  }
  EXPECT_NE(logits_of(*pages), logits_of(*whole)) << "some pages were left out";
}

}  // namespace
}  // namespace ei
