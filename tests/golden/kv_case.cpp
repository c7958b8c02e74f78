#include "golden/kv_case.h"

#include <gtest/gtest.h>

#include "policy/registry.h"

namespace ei::golden {

policy::KvOptions read_kv_options(const Json& golden_case) {
  const std::string method = golden_case.at("method").get<std::string>();
  const bool pyramid = golden_case.at("params").value("pyramid", false);
  const std::string name = method == "adakv" && pyramid ? "ada-pyramid" : method;
  const policy::KvEntry* entry = policy::find_kv_rule({name});
  EXPECT_NE(entry, nullptr) << name;
  policy::KvOptions options = entry != nullptr ? entry->preset : policy::KvOptions{};
  options.key_share = 0;  // released code keeps by attention alone
  const Json& params = golden_case.at("params");
  params.at("W").get_to(options.window);
  params.at("kernel").get_to(options.kernel);
  options.keep_slots(params.at("budget").get<int32_t>());
  const std::string pool = params.at("pool").get<std::string>();
  EXPECT_TRUE(pool == "avg" || pool == "max") << pool;
  options.pooling = pool == "max" ? policy::Pooling::kMax : policy::Pooling::kAverage;
  return options;
}

policy::GroupAggregate read_aggregate(const std::string& name) {
  EXPECT_TRUE(name == "mean" || name == "max") << name;
  return name == "max" ? policy::GroupAggregate::kMax : policy::GroupAggregate::kMean;
}

}  // namespace ei::golden
