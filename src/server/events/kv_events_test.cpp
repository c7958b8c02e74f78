#include "server/events/kv_events.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "server/events/msgpack.h"
#include "support/embedded_engine.h"

namespace ei::server {
namespace {

using Kind = KvEvent::Kind;

std::shared_ptr<HeldText> text_of(std::vector<int32_t> tokens, std::string space = {}) {
  const auto session = open_session(embedded_engine(), {});
  auto store = session->store().fork();  // empty: events are about tokens
  return std::make_shared<HeldText>(
      HeldText{.tokens = std::move(tokens), .store = std::move(*store), .space = std::move(space)});
}

std::vector<int32_t> counted(int32_t from, size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

std::vector<int32_t> joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(KvEvents, WholeBlocksOfATextAreStored) {
  KvEvents events;
  const auto text = text_of(counted(0, 40));
  const auto told = events.update({text});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].kind, Kind::kStored);
  EXPECT_EQ(told[0].blocks.size(), 2U);
  EXPECT_EQ(told[0].tokens, counted(0, 32));
  EXPECT_FALSE(told[0].parent);
  EXPECT_TRUE(events.update({text}).empty());
}

TEST(KvEvents, ATextThatGoesOnIsToldFromWhereItDoes) {
  KvEvents events;
  const auto first = text_of(counted(0, 48));
  const auto begun = events.update({first});
  const auto longer = text_of(joined(counted(0, 48), counted(100, 32)));
  const auto told = events.update({longer});  // in the place of the first: nothing of it has gone
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].parent, begun[0].blocks.back());
  EXPECT_EQ(told[0].tokens, counted(100, 32));
}

TEST(KvEvents, WhatAnotherTextHasStaysUntilBothHaveGone) {
  KvEvents events;
  const auto first = text_of(joined(counted(0, 32), counted(100, 16)));
  const auto second = text_of(joined(counted(0, 32), counted(200, 16)));
  const auto begun = events.update({first, second});
  ASSERT_EQ(begun.size(), 2U);
  EXPECT_EQ(begun[1].parent, begun[0].blocks[1]);
  const auto told = events.update({second});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].kind, Kind::kRemoved);
  EXPECT_EQ(told[0].blocks, std::vector<uint64_t>{begun[0].blocks[2]});
  const auto last = events.update({});
  ASSERT_EQ(last.size(), 1U);
  // The end first.
  EXPECT_EQ(last[0].blocks, (std::vector<uint64_t>{begun[1].blocks[0], begun[0].blocks[1], begun[0].blocks[0]}));
}

TEST(KvEvents, ATextThatLosesItsEndIsToldSo) {
  KvEvents events;
  const auto text = text_of(counted(0, 64));
  const auto begun = events.update({text});
  text->tokens.resize(40);
  const auto told = events.update({text});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].blocks, (std::vector<uint64_t>{begun[0].blocks[3], begun[0].blocks[2]}));
}

TEST(KvEvents, NothingIsSaidOfTextsThatWereReadSparsely) {
  KvEvents events;
  EXPECT_TRUE(events.update({text_of(counted(0, 64), "entropyinfer:")}).empty());
}

TEST(KvEvents, WhoComesLateHearsEverythingThatIsHeld) {
  const auto told = KvEvents::all({text_of(counted(0, 64)), text_of(counted(500, 32))});
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].kind, Kind::kCleared);
  EXPECT_EQ(told[1].blocks.size() + told[2].blocks.size(), 6U);
}

TEST(KvEvents, BlocksThatFollowOtherTextsHaveOtherNames) {
  std::set<uint64_t> names;
  for (int32_t i = 0; i < 100; ++i)
    for (const KvEvent& event : KvEvents().update({text_of(joined(counted(i, 16), counted(0, 16)))}))
      names.insert(event.blocks.begin(), event.blocks.end());
  EXPECT_EQ(names.size(), 200U);
}

TEST(KvEvents, TheMessageIsVllms) {
  const KvEvent stored{.blocks = {7, uint64_t{1} << 63}, .parent = 300, .tokens = {1, 70000}};
  const KvEvent removed{.kind = Kind::kRemoved, .blocks = {200}};
  const std::string bytes = event_message({{.kind = Kind::kCleared}, stored, removed}, 1.5);
  std::string expected("\x93\xcb\x3f\xf8\0\0\0\0\0\0\x93", 11);
  expected +=
      "\x91\xb0"
      "AllBlocksCleared";
  expected +=
      "\x96\xab"
      "BlockStored";
  expected += std::string("\x92\x07\xcf\x80\0\0\0\0\0\0\0", 11);
  expected += "\xcd\x01\x2c";
  expected += std::string("\x92\x01\xce\0\x01\x11\x70", 7);
  expected += "\x10\xc0";
  expected +=
      "\x92\xac"
      "BlockRemoved"
      "\x91\xcc\xc8";
  expected += std::string("\0", 1);
  EXPECT_EQ(bytes, expected);
}

TEST(MsgPack, LongListsAndTextsSayTheirLengths) {
  MsgPack out;
  out.array(20);
  out.array(70000);
  out.text(std::string(40, 'a'));
  EXPECT_EQ(out.take(), std::string("\xdc\0\x14\xdd\0\x01\x11\x70\xdb\0\0\0\x28", 13) + std::string(40, 'a'));
}

}  // namespace
}  // namespace ei::server
