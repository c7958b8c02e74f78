// docs/methods.md, the map of the field: every method has its entry, in the same parts, with its paper and no option
// that is none.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "policy/kv/option_table.h"
#include "policy/method_choice.h"
#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::policy {
namespace {

// In one line, so that a break in the prose does not matter.
std::string map_of_methods() {
  std::ifstream file(std::string(EI_SOURCE_DIR) + "/docs/methods.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  return std::regex_replace(text.substr(0, text.find("\n## How much may go")), std::regex("\\s+"), " ");
}

// From its heading to the next.
std::string entry_of(const std::string& map, std::string_view name) {
  const size_t begin = map.find(" ### `" + std::string(name) + "` ");
  if (begin == std::string::npos) return "";
  return map.substr(begin, map.find(" ##", begin + 1) - begin);
}

void expect_parts(const std::string& entry) {
  for (const char* part : {"**Rule.**", "**Options.**", "**Source.**", "**Take**", "**not**"})
    EXPECT_NE(entry.find(part), std::string::npos) << part;
}

TEST(MethodsPage, HasAnEntryOfTheSamePartsForEveryMethod) {
  const std::string map = map_of_methods();
  size_t entries = 0;
  for (size_t at = map.find(" ### `"); at != std::string::npos; at = map.find(" ### `", at + 1)) ++entries;
  EXPECT_EQ(entries, methods().size() + 2) << "those, latent, and streaming of a cache";
  for (const Method& method : methods()) {
    SCOPED_TRACE(method.name);
    const std::string entry = entry_of(map, method.name);
    ASSERT_FALSE(entry.empty());
    expect_parts(entry);
    std::istringstream papers{std::string(method.paper)};
    for (std::string paper; std::getline(papers >> std::ws, paper, ';');)
      EXPECT_NE(entry.find(paper), std::string::npos) << paper;
    // A method of others says whose it is.
    EXPECT_EQ(entry.find("**Source.** No paper") != std::string::npos, method.paper.empty());
    const bool changed = entry.find("**Changed") != std::string::npos;
    EXPECT_EQ(changed, !method.changes.empty());
    if (!changed && !method.paper.empty()) {
      EXPECT_NE(entry.find("nothing is changed"), std::string::npos);
    }
  }
  expect_parts(entry_of(map, KvRule::kLatent.name));
}

TEST(MethodsPage, NamesNoOptionThatIsNone) {
  const std::string map = map_of_methods();
  const std::regex option("--([a-z][a-z-]*)");
  for (auto at = std::sregex_iterator(map.begin(), map.end(), option); at != std::sregex_iterator(); ++at) {
    const std::string name = (*at)[1];
    bool known = name == kPrefillPolicy || name == "method";
    for (const auto& spec : prefill_option_table()) known = known || spec.name == name;
    for (const auto& spec : kv_option_table()) known = known || spec.name == name;
    EXPECT_TRUE(known) << "--" << name;
  }
}

}  // namespace
}  // namespace ei::policy
