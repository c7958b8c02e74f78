#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "support/test_model.h"
#include "text/grammar_check.h"
#include "text/json_schema.h"
#include "text/sampler.h"

namespace ei::text {
namespace {

bool creates(const SamplerOptions& options, std::string* why = nullptr) {
  const double start = process_cpu_s();
  const auto sampler = Sampler::create(test_tokenizer(), options);
  const double elapsed = process_cpu_s() - start;
  EXPECT_LT(elapsed, 10.0) << options.grammar.substr(0, 100) << options.json_schema.substr(0, 100);
  EXPECT_TRUE(sampler.ok() || sampler.error().kind == ErrorKind::kUsage);
  if (why != nullptr && !sampler.ok()) *why = sampler.error().message;
  return sampler.ok();
}

TEST(Grammar, AcceptsWhatLibllamaAccepts) {
  for (const char* grammar : {
           "root ::= \"a\"",
           "root ::= [a-z]+ (\", \" [^\\n\\]-]*)? # comment\n# more\n",
           "root ::= item{3} item{2,} item{0,4} .\nitem ::= \"\\x41\" | \"\\u00e9\\\"\" | \"日本\"",
           "root ::= (\n  \"a\" |\n  \"b\"\n)\n",
           "root ::= list\nlist ::= \"[\" (list (\",\" list)*)? \"]\"",
           "root ::= \"\" | \"x\" root",
           "root ::= <|im_end|> | !<[3]> \"a\"",
           "root ::= \"a\"{0} \"b\"",
           "ws ::= [ \\t]*\nroot ::= ws \"a\" ws",
           "root ::= a-1 a-1?\r\na-1 ::= \"q\"{2000}",
       }) {
    std::string why;
    EXPECT_TRUE(creates({.seed = 1, .grammar = grammar}, &why)) << grammar << "\n" << why;
  }
}

TEST(Grammar, RefusesWhatIsMalformed) {
  for (const std::string& grammar : {
           std::string("x"),
           std::string("root"),
           std::string("root ::="
                       "\nfoo ::= ("),
           std::string("root ::= \"a"),
           std::string("root ::= [a"),
           std::string("root ::= missing"),
           std::string("main ::= \"a\""),
           std::string("root ::= *"),
           std::string("root ::= \"\"*"),
           std::string("root ::= \"a\"{2,1}"),
           std::string("root ::= \"a\"{"),
           std::string("root ::= \"a\"{,3}"),
           std::string("root ::= \"a\"{99999999999999999999}"),
           std::string("root ::= \"a\"{3000}"),
           std::string("root ::= (\"a\"{0,100}){100}"),
           std::string("root ::= \"\\q\""),
           std::string("root ::= \"\\x4\""),
           std::string("root ::= root \"a\" | \"b\""),
           std::string("root ::= a\na ::= b? a \"x\"\nb ::= c\nc ::= \"\""),
           std::string("root ::= (\"a\"?)*"),
           std::string("root ::= <nope nope>"),
           std::string("root ::= <[x]>"),
           std::string("root ::= \"a\" )"),
           std::string("root = \"a\""),
           std::string("root ::= \xFF"),
           std::string("root ::= \"a\0b\"", 14),
           std::string("root ::= \"a\" ::= \"b\""),
       }) {
    EXPECT_FALSE(creates({.grammar = grammar})) << grammar;
  }
}

TEST(Grammar, StopsBombsBeforeTheParser) {
  std::string wide = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) {
    wide += str_format("r%d ::= r%d \"a\" | r%d \"b\"\n", i, i + 1, i + 1);
  }
  wide += "r60 ::= \"x\"\n";
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 60000; ++i) chain += str_format("r%d ::= r%d\n", i, i + 1);
  for (const std::string& bomb :
       {"root ::= " + times(60000, "(") + "\"a\"" + times(60000, ")"), "root ::= " + times(60000, "("),
        "root ::= " + times(60000, "(\"a\" | ") + times(60000, ")"), wide, chain,
        "root ::= " + times(100000, "\"a\"{2000} "), "root ::= " + times(2000000, "\"a\""),
        "root ::= \"" + times(2000, "x") + "\"{1999} \"b\"{1999}", "root ::= \"a\"" + times(60000, "?")}) {
    EXPECT_FALSE(creates({.grammar = bomb})) << bomb.substr(0, 80);
  }
}

TEST(Grammar, CheckAgreesWithTheParserOnRandomText) {
  const std::vector<std::string> pieces = {"root ::= ", "a ::= ", "\"x\"", "[a-z]", "(", ")",    "|",  "*", "+",
                                           "?",         "{2}",    "{1,3}", "{0,}",  "a", "root", "\n", " ", ".",
                                           "\"",        "[",      "]",     "<[5]>", "#", "\\",   "^",  "{", "-"};
  const uint64_t seed = 99;
  Random random(seed);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string grammar = "root ::= ";
    for (int64_t i = random.between(0, 14); i > 0; --i) {
      grammar += pieces[static_cast<size_t>(random.below(static_cast<int64_t>(pieces.size())))];
    }
    if (!check_grammar(grammar, test_tokenizer()).ok()) continue;
    ++accepted;
    std::string why;
    ASSERT_TRUE(creates({.seed = 1, .grammar = grammar}, &why)) << "seed " << seed << " round " << round << "\n"
                                                                << grammar << why;
  }
  EXPECT_GT(accepted, 100);
}

TEST(JsonSchema, ConvertsAndRefuses) {
  for (const char* schema :
       {"{}", R"({"type":"string"})", R"({"type":"string","pattern":"^[a-c]{2,3}(x|y)$"})",
        R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":5})",
        R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"next":{"$ref":"#/$defs/t"}}}}})",
        R"({"anyOf":[{"type":"null"},{"const":"a"},{"enum":[1,"b",true]}]})"}) {
    std::string why;
    EXPECT_TRUE(creates({.json_schema = schema}, &why)) << schema << "\n" << why;
  }
  std::string many = R"({"type":"object","properties":{)";
  for (int i = 0; i < 5000; ++i) many += str_format(R"("p%d":{"type":"string"},)", i);
  many += R"("last":{"type":"null"}}})";
  for (const std::string& schema :
       {std::string("{"), std::string("nonsense"), std::string(R"({"type":"frog"})"),
        std::string(R"({"$ref":"#/$defs/x"})"), std::string(R"({"$ref":"http://example.com/x"})"),
        std::string(R"({"type":"string","pattern":"(?=a)b"})"), std::string(R"({"type":"string","pattern":"^(((a$"})"),
        std::string(R"({"type":"string","pattern":"unanchored"})"), std::string(R"({"type":"string","minLength":-1})"),
        std::string(R"({"type":"string","minLength":99999999})"),
        times(3000, R"({"type":"array","items":)") + "{}" + times(3000, "}"), times(3000, "["), many,
        R"({"properties":{")" + times(100000, "?") + R"(":{}}})",
        R"({"type":"string","pattern":"^)" + times(60000, "(") + R"($"})"}) {
    std::string why;
    EXPECT_FALSE(creates({.json_schema = schema}, &why)) << schema.substr(0, 80);
    EXPECT_FALSE(why.empty());
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
    EXPECT_EQ(why.find("exception"), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace ei::text
