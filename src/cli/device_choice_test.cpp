#include "cli/device_choice.h"

#include <gtest/gtest.h>

#include <array>

namespace ei::cli {
namespace {

Result<std::unique_ptr<Backend>> never(const BackendOptions&) { return Error{}; }
Status works() { return {}; }
Status has_no_driver() { return make_error(ErrorKind::kDevice, "no usable NVIDIA GPU (no driver); take --device cpu"); }

TEST(DeviceChoice, IsTheGpuWhereItCanBeUsed) {
  const std::array<BackendEntry, 2> devices{{{"cpu", "", never, works}, {"cuda", "", never, works}}};
  EXPECT_EQ(choose_device(devices).device, "cuda");
  EXPECT_FALSE(choose_device(devices).why.empty());
}

TEST(DeviceChoice, IsTheCpuElsewhereAndSaysWhatTheGpuLacks) {
  const std::array<BackendEntry, 2> devices{{{"cpu", "", never, works}, {"cuda", "", never, has_no_driver}}};
  EXPECT_EQ(choose_device(devices).device, "cpu");
  EXPECT_EQ(choose_device(devices).why, "no usable NVIDIA GPU (no driver)");
  EXPECT_EQ(choose_device(std::span(devices).first(1)).device, "cpu");
  EXPECT_EQ(choose_device(std::span(devices).first(1)).why, "this build has no cuda backend");
}

TEST(DeviceChoice, LeavesANamedDeviceAlone) {
  Settings settings;
  settings.device = "reference";
  settle_device(settings, Console::open({}).value());
  EXPECT_EQ(settings.device, "reference");
  settings.device = "auto";
  settle_device(settings, Console::open({}).value());
  EXPECT_TRUE(settings.device == "cpu" || settings.device == "cuda") << settings.device;
}

}  // namespace
}  // namespace ei::cli
