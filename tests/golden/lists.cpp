#include "golden/lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace ei::golden {
namespace {

using List = std::vector<int32_t>;

bool within_band(const List& ours, const List& golden, const List& band) {
  List sure;
  List allowed;
  std::set_difference(golden.begin(), golden.end(), band.begin(), band.end(), std::back_inserter(sure));
  std::set_union(golden.begin(), golden.end(), band.begin(), band.end(), std::back_inserter(allowed));
  return ours.size() == golden.size() && std::includes(ours.begin(), ours.end(), sure.begin(), sure.end()) &&
         std::includes(allowed.begin(), allowed.end(), ours.begin(), ours.end());
}

}  // namespace

Lists expect_lists(const Manifest& manifest, const Json& golden, const std::vector<List>& ours, const RowOf& row_of) {
  for (const auto& [field, value] : golden.items())
    EXPECT_TRUE(field == "lists" || field == "ambiguous" || field == "band") << "unknown field " << field;
  Lists lists = manifest.lists(golden.at("lists"));
  std::set<size_t> near;
  if (golden.contains("ambiguous")) {
    for (const Json& entry : golden.at("ambiguous")) {
      const std::string kind = entry.at("kind").get<std::string>();
      EXPECT_TRUE(kind == "near" || kind == "exact") << kind;
      if (kind == "near") near.insert(row_of(entry));
    }
  }
  EXPECT_EQ(lists.size(), ours.size());
  for (size_t i = 0; i < std::min(lists.size(), ours.size()); ++i) {
    if (near.contains(i)) {
      const List band = manifest.lists(golden.at("band")).list(i);
      EXPECT_TRUE(within_band(ours[i], lists.list(i), band)) << "list " << i;
    } else {
      EXPECT_EQ(ours[i], lists.list(i)) << "list " << i;
    }
  }
  return lists;
}

}  // namespace ei::golden
