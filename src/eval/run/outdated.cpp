#include "eval/run/outdated.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "eval/items/item_hash.h"
#include "eval/run/summary.h"

namespace ei::eval {

Result<Outdated> drop_outdated(ResultFile& file, const ItemSource& source, std::span<const MethodSpec> methods) {
  std::map<std::string, std::set<std::string>> stored;  // item -> hashes
  for (const ItemResult& result : file.results()) stored[result.item].insert(result.item_hash);
  std::map<std::string, std::string> hashes;  // of the items that this run asks for and the file has
  std::set<TaskKey> other_tasks;
  for (const ItemRef& ref : source.refs()) {
    const auto known = stored.find(ref.id);
    if (known == stored.end()) continue;
    EI_ASSIGN_OR_RETURN(const Item item, source.make(ref));
    EI_ASSIGN_OR_RETURN(const ItemPrompt prompt, source.prompt(item));
    const std::string& hash = hashes[ref.id] = item_hash(item, prompt);
    if (known->second != std::set<std::string>{hash}) other_tasks.insert({ref.task, ref.length});
  }
  Outdated outdated;
  const auto is_outdated = [&](const ItemResult& result) {
    const auto asked = hashes.find(result.item);
    const bool other_item =
        asked != hashes.end() ? asked->second != result.item_hash : other_tasks.count({result.task, result.length}) > 0;
    const bool other_options = std::any_of(methods.begin(), methods.end(), [&](const MethodSpec& method) {
      return method.label == result.method && method.options != result.options;
    });
    outdated.of_other_items += other_item ? 1 : 0;
    outdated.of_other_options += !other_item && other_options ? 1 : 0;
    return other_item || other_options;
  };
  EI_RETURN_IF_ERROR(file.drop(is_outdated));
  return outdated;
}

}  // namespace ei::eval
