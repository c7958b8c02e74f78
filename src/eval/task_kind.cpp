#include "eval/task_kind.h"

#include <algorithm>
#include <string>

namespace ei::eval {
namespace {

constexpr TaskKind kKinds[] = {
    {"num", true, make_numbers},   {"hex", true, make_codes},           {"line", true, make_register_lines},
    {"pass", true, make_pass_key}, {"multi", false, make_multi_values}, {"mq", false, make_multi_queries},
    {"var", false, make_chains},   {"rev", true, make_reverse},         {"list", false, make_list},
    {"quote", true, nullptr},      {"para", true, make_para},           {"none", false, make_absent},
};

}  // namespace

std::span<const TaskKind> task_kind_table() { return kKinds; }

Result<const TaskKind*> find_task_kind(std::string_view name) {
  const auto* kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const TaskKind& k) { return k.name == name; });
  if (kind != std::end(kKinds)) return kind;
  std::string names;
  for (const TaskKind& known : kKinds) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return make_error(ErrorKind::kUsage, "unknown task kind '%s'; choose one of %s", std::string(name).c_str(),
                    names.c_str());
}

std::vector<double> draw_depths(Random& random, const Facts& facts, bool one_fact, double depth) {
  std::vector<double> depths;
  for (size_t i = 0; i < facts.lines.size(); ++i) {
    const double u = random.uniform();
    if (!one_fact) {
      depths.push_back(u);
    } else if (i == facts.gold[0]) {
      depths.push_back(depth);
    } else {
      depths.push_back(i < facts.gold[0] ? u * depth : depth + u * (1 - depth));
    }
  }
  std::sort(depths.begin(), depths.end());
  return depths;
}

}  // namespace ei::eval
