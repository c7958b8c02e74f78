#include "gguf/tensor_type.h"

#include <gtest/gtest.h>

namespace ei::gguf {
namespace {

TEST(TensorType, IsFoundByIdAndByName) {
  for (const TensorType& type : tensor_types()) {
    EXPECT_EQ(find_tensor_type(type.id), &type);
    EXPECT_EQ(find_tensor_type(type.name), &type);
  }
  EXPECT_EQ(find_tensor_type("q4_k"), find_tensor_type(12u));
}

TEST(TensorType, RemovedAndUnknownIdsAreNotFound) {
  for (const uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 1000u, ~0u}) {
    EXPECT_EQ(find_tensor_type(id), nullptr) << id;
  }
  EXPECT_EQ(find_tensor_type("Q9_9"), nullptr);
}

TEST(TensorType, ListsOnlyWhatCanBeAWeight) {
  const std::string list = supported_tensor_types();
  EXPECT_NE(list.find("Q4_K"), std::string::npos);
  EXPECT_EQ(list.find("Q8_K"), std::string::npos);
  EXPECT_EQ(list.find("I32"), std::string::npos);
}

}  // namespace
}  // namespace ei::gguf
