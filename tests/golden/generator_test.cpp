// The inputs themselves, and that no case goes untested in silence.
#include "golden/generator.h"

#include <gtest/gtest.h>

#include <string>

#include "golden/tested_method.h"

namespace ei::golden {
namespace {

TEST(Golden, InputsHaveTheChecksumsOfTheManifest) {
  const Manifest manifest = Manifest::open();
  int layers = 0;
  for (const Json& golden_case : manifest.cases()) {
    bool first = true;
    for (const Json& layer : golden_case.at("layers")) {
      const int32_t index = layer.at("layer").get<int32_t>();
      SCOPED_TRACE(golden_case.at("name").get<std::string>() + " layer " + std::to_string(index));
      const Inputs inputs = generate(golden_case, index);
      EXPECT_EQ(checksum(inputs.q), layer.at("checksums").at("q").get<std::string>());
      EXPECT_EQ(checksum(inputs.k), layer.at("checksums").at("k").get<std::string>());
      EXPECT_EQ(checksum(inputs.v), layer.at("checksums").at("v").get<std::string>());
      ++layers;
      if (!first) continue;
      first = false;
      const Json& values = golden_case.at("first_values");
      for (const auto& [name, rows] : {std::pair{"q", &inputs.q}, {"k", &inputs.k}, {"v", &inputs.v}}) {
        const auto expected = values.at(name).get<std::vector<float>>();
        EXPECT_EQ(std::vector<float>(rows->begin(), rows->begin() + static_cast<std::ptrdiff_t>(expected.size())),
                  expected);
      }
    }
  }
  EXPECT_GT(layers, 0);
}

TEST(Golden, EveryMethodHasATest) {
  const Manifest manifest = Manifest::open();
  for (const Json& golden_case : manifest.cases()) {
    const std::string method = golden_case.at("method").get<std::string>();
    EXPECT_TRUE(TestedMethod::all().contains(method)) << "unknown method " << method;
  }
}

}  // namespace
}  // namespace ei::golden
