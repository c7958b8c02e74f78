#include "policy/method_needs.h"

#include <gtest/gtest.h>

namespace ei::policy {
namespace {

TEST(MethodNeeds, AreWhatTheObjectsSay) {
  const auto needs = [](const char* name) { return needs_text(*find_method(name)); };
  EXPECT_EQ(needs("full"), "nothing");
  EXPECT_EQ(needs("streaming"), "nothing");
  EXPECT_EQ(needs("snapkv"), "attention of the last 32 queries");
  EXPECT_EQ(needs("tova"), "attention of the last query");
  EXPECT_EQ(needs("entropy-kv"), "attention of the last 32 queries and its entropy");
  EXPECT_EQ(needs("h2o"), "attention of all queries, added up while a text is read");
  EXPECT_EQ(needs("keydiff"), "directions of keys");
  EXPECT_EQ(needs("critiprefill"), "scores of blocks");
  EXPECT_EQ(needs("cumulative"), "scores of blocks");
  EXPECT_EQ(needs("random-prefill"), "nothing");
  EXPECT_EQ(needs("expected"),
            "mean and covariance of up to 128 sampled queries before their rotation; lengths of values");
  EXPECT_EQ(needs("quest"), "extremes of the keys of pages");
}

TEST(MethodNeeds, WhatDiffersFromAPaperIsOneLine) {
  for (const Method& method : methods()) EXPECT_EQ(method.changes.find('\n'), std::string_view::npos) << method.name;
}

}  // namespace
}  // namespace ei::policy
