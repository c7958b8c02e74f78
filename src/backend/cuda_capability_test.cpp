#include "backend/cuda/cuda_capability.h"

#include <gtest/gtest.h>

namespace ei {
namespace {

TEST(CudaCapability, OfAnOldGpuIsAnErrorThatNamesIt) {
  for (const auto& [major, minor] : {std::pair{7, 5}, std::pair{7, 0}, std::pair{6, 1}}) {
    const Status status = check_capability("Tesla T4", major, minor);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kDevice);
    EXPECT_EQ(exit_code(status.error().kind), 5);
    const std::string figure = str_format("%d.%d, 8.0 is needed", major, minor);
    EXPECT_NE(status.error().message.find("'Tesla T4'"), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().message.find(figure), std::string::npos) << status.error().message;
    EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
  }
}

TEST(CudaCapability, OfAmpereAndLaterWillDo) {
  for (const auto& [major, minor] : {std::pair{8, 0}, std::pair{8, 6}, std::pair{9, 0}, std::pair{12, 0}})
    EXPECT_TRUE(check_capability("a GPU", major, minor).ok()) << major << '.' << minor;
}

}  // namespace
}  // namespace ei
