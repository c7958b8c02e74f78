#include "server/text_lanes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <thread>

namespace ei::server {
namespace {

TEST(TextLanes, EndWhileAJobMovesOnToALaterLane) {
  auto lanes = std::make_unique<TextLanes>(8);
  std::promise<void> begun;
  std::promise<void> arrived;
  bool came = false;
  ASSERT_TRUE(lanes->post(0, [&, raw = lanes.get()] {
    begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // by then the lanes are about to end
    raw->post(2, [&] { arrived.set_value(); });
    came = arrived.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  }));
  begun.get_future().wait();
  lanes = nullptr;
  EXPECT_TRUE(came) << "the last lane was gone before the first";
}

TEST(TextLanes, OutliveAJobThatThrows) {
  TextLanes lanes(8);
  std::promise<void> arrived;
  ASSERT_TRUE(lanes.post(0, [] { throw std::bad_alloc(); }));
  ASSERT_TRUE(lanes.post(0, [&] { arrived.set_value(); }));
  EXPECT_EQ(arrived.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

}  // namespace
}  // namespace ei::server
