// Templates that loop, explode or crash the engine must end in an Error, soon and with bounded memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "support/test_model.h"
#include "text/chat_template.h"
#include "text/deep_call.h"

namespace ei::text {
namespace {

#ifdef EI_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

Result<std::string> try_render(const std::string& source) {
  EI_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::parse(source, test_tokenizer()));
  const std::vector<Message> messages = {{"user", "hello there"}, {"assistant", "general"}, {"user", "again"}};
  return chat.render(messages, true);
}

int64_t peak_rss_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(TemplateBombs, EndInAnErrorSoon) {
  const std::vector<std::string> bombs = {
      "{% for i in range(1000000000) %}x{% endfor %}",
      "{% for i in range(9000000000000000000, -9000000000000000000, -1) %}x{% endfor %}",
      "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor "
      "%}",
      "{% for a in range(3000) %}{% for b in range(3000) %}" + times(20000, "abcdefgh") + "{% endfor %}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
      "{{ 'abcdefgh' * 1000000000000 }}",
      "{{ 9223372036854775807 * 'a' }}",
      "{% set s = 'a' * 100000 %}{{ s | replace('a', s) }}",
      "{% set s = 'a' * 100000 %}{{ s | replace('', s) }}",
      "{% set s = 'a' * 1000000 %}{{ s.split('a') | length }}",
      "{% set s = 'a' * 400000 %}{{ (s * 2) in (s * 4 + 'b') }}{{ (s + 'b') in (s * 9) }}",
      "{% set s = 'a\n' * 100000 %}{{ s | indent(1000000) }}{{ s | indent(s) }}",
      "{{ 'a\nb' | indent(1000000000000) }}",
      "{{ [1, [2, [3]]] | tojson(indent=2000000000) }}",
      "{% set s = 'a' * 1000000 %}{{ range(5000) | list | join(s) }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | "
      "tojson }}",
      "{% set ns = namespace(l=(1,)) %}{% for i in range(60) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ {ns.l: 1} "
      "}}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(9000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
      "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
      "{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}",
      "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns | string }}",
      "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns == ns }}{{ [ns] == [ns] }}{{ ns ~ '' }}",
      "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
      "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{% call f() %}{% endcall %}",
      "{% call range(1000000000000) %}{% endcall %}",
      "{{ 5 is divisibleby 0 }}",
      "{{ [1, 2] | select('divisibleby', 0) | list }}",
      "{{ [3, 'a', none, 1.5, 'b', 2, 9, 'zz', 4, 1, 'c', none, 5, 6, 7, 8, 'd', 0, 2, 3] | sort | length }}",
      "{{ [1, 2, 3][0:9223372036854775807:9223372036854775807] | length }}" + times(2, "{{ 'abc' * 99999999999 }}"),
      times(30000, "{{ (") + "1" + times(30000, ") }}"),
      "{{ " + times(60000, "(") + "1" + times(60000, ")") + " }}",
      "{{ " + times(60000, "[") + " }}",
      "{{ " + times(60000, "not ") + "1 }}",
      "{{ " + times(60000, "-") + "1 }}",
      "{{ 1" + times(60000, "+1") + " }}",
      "{{ 1" + times(20000, " if 1 else 1") + " }}",
      "{{ x" + times(60000, ".x") + " }}",
      "{{ x" + times(60000, "()") + " }}",
      "{{ x" + times(60000, "|e") + " }}",
      times(20000, "{% if 1 %}"),
      times(9000, "{% if 1 %}") + times(9000, "{% endif %}"),
      "{% if 1 %}" + times(20000, "{% elif 1 %}") + "{% endif %}",
      times(9000, "{% for i in x %}"),
      times(9000, "{% set x %}") + times(9000, "{% endset %}"),
      times(1 << 20, "text "),
  };
  const auto start_rss = peak_rss_kib();
  for (const std::string& bomb : bombs) {
    const double start = process_cpu_s();
    const auto text = try_render(bomb);
    const double elapsed = process_cpu_s() - start;
    EXPECT_FALSE(text.ok()) << bomb.substr(0, 200) << " -> " << (text.ok() ? text->substr(0, 50) : "");
    EXPECT_LT(text.ok() ? 0u : text.error().message.size(), 400u);
    EXPECT_LT(elapsed, 10.0) << bomb.substr(0, 200);  // about one second of CPU time
  }
  EXPECT_LT(peak_rss_kib() - start_rss, int64_t{kSanitized ? 2048 : 768} << 10) << "KiB";
}

// Deep or cyclic values are made and dropped without being printed: nothing may be left behind (the leak checker
// looks), and dropping them may not recurse (the stack is small).
TEST(TemplateBombs, DropDeepValuesSafely) {
  const std::string depth = std::to_string(kSanitized ? 1000 : 6000);
  for (const std::string& source : {
           "{% set ns = namespace(l=[1]) %}{% for i in range(" + depth + ") %}{% set ns.l = [ns.l] %}{% endfor %}done",
           "{% set ns = namespace(leaf=[]) %}{% set top = ns.leaf %}{% for i in range(" + depth +
               ") %}"
               "{% set n = [] %}{% set _ = ns.leaf.append(n) %}{% set ns.leaf = n %}{% endfor %}done",
           std::string(
               "{% set l = [] %}{% set _ = l.append(l) %}{% set ns = namespace() %}{% set ns.a = {'b': ns} %}done"),
       }) {
    Result<std::string> text = std::string();
    ASSERT_TRUE(call_with_stack(size_t{kSanitized ? 1024 : 192} << 10, [&] { text = try_render(source); }));
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_EQ(*text, "done");
  }
}

TEST(TemplateBombs, SurviveRandomTemplates) {
  const std::vector<std::string> pieces = {"{{ ",
                                           " }}",
                                           "{% ",
                                           " %}",
                                           "{%- ",
                                           " -%}",
                                           "if ",
                                           "else",
                                           "elif ",
                                           "endif",
                                           "for ",
                                           "x in ",
                                           "endfor",
                                           "set ",
                                           "x",
                                           "=",
                                           "messages",
                                           ".content",
                                           "[0]",
                                           "[",
                                           "]",
                                           "(",
                                           ")",
                                           "{",
                                           "}",
                                           "'a'",
                                           "\"",
                                           "1",
                                           "0",
                                           "-",
                                           "+",
                                           "~",
                                           "*",
                                           "%",
                                           "/",
                                           "|",
                                           "join",
                                           "tojson",
                                           "replace('a', 'b')",
                                           "is ",
                                           "not ",
                                           "and ",
                                           "in ",
                                           ",",
                                           ":",
                                           "loop",
                                           ".index",
                                           "macro f(x)",
                                           "endmacro",
                                           "call f(1)",
                                           "endcall",
                                           "filter upper",
                                           "endfilter",
                                           "f(2)",
                                           "namespace(a=1)",
                                           "range(3)",
                                           "range(",
                                           "sort",
                                           "dictsort",
                                           "items()",
                                           "split(' ')",
                                           "[::-1]",
                                           "[1:",
                                           "none",
                                           "true",
                                           "1.5",
                                           "#}",
                                           "{#",
                                           "break",
                                           "continue",
                                           "generation",
                                           "endset",
                                           "*",
                                           "**",
                                           "\n",
                                           " ",
                                           "text",
                                           "slice",
                                           "append(1)",
                                           "pop()",
                                           "format('x')"};
  const uint64_t seed = 424242;
  Random random(seed);
  for (int round = 0; round < 6000; ++round) {
    std::string source;
    for (int64_t i = random.between(1, 24); i > 0; --i) {
      source += pieces[static_cast<size_t>(random.below(static_cast<int64_t>(pieces.size())))];
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round) + ": " + source);
    const auto text = try_render(source);
    ASSERT_TRUE(text.ok() || !text.error().message.empty());
  }
}

}  // namespace
}  // namespace ei::text
