// All requests share a few threads: what one of them throws there is its own end and nobody else's, and what a server
// waits for before it stops includes what is done there.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <thread>

#include "server/allocations.h"
#include "server/http/http_server.h"
#include "server/scheduler/scheduler.h"
#include "server/test_server.h"
#include "support/counting_sink.h"
#include "support/embedded_engine.h"

namespace ei::server {
namespace {

Task short_task(std::shared_ptr<TaskSink> sink) {
  Task task{.prompt = random_tokens(20, 3), .sink = std::move(sink)};
  task.generate.max_tokens = 2;
  task.generate.ignore_eos = true;
  return task;
}

template <typename Condition>
bool comes_true(const Condition& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}
bool becomes_idle(const Scheduler& scheduler) {
  return comes_true([&] { return scheduler.idle(); });
}

TEST(ServerThreads, OfConnectionsOutlivesAHandlerThatThrows) {
  std::atomic<bool> thrown{false};
  const auto server =
      HttpServer::start({.port = 0}, [&](const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
        if (request.path == "/throws") {
          thrown = true;
          throw std::bad_alloc();
        }
        reply->send({.body = "{}"});
      });
  ASSERT_TRUE(server.ok()) << server.error().message;
  Client unlucky((*server)->port());
  unlucky.send(request_text("GET", "/throws", ""));
  while (!thrown) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(get((*server)->port(), "/").status, 200);
}

TEST(ServerThreads, OfComputingOutlivesWhoeverThrowsAndCountsEveryTaskOnce) {
  Scheduler scheduler(test_engine(), {});
  const auto throwing = std::make_shared<CountingSink>(/*throws=*/true);
  Task gone = short_task(throwing);
  gone.cancel = std::make_shared<CancelToken>();
  gone.cancel->cancel();
  Task late = short_task(throwing);
  late.deadline_s = 1e-9;
  Task unknown = short_task(throwing);
  unknown.method.method = "nothing";
  for (const Task& task : {gone, late, unknown, short_task(throwing)}) EXPECT_TRUE(scheduler.submit({task}));
  EXPECT_TRUE(scheduler.ask_slot({.done = [](const Result<int64_t>&) { throw std::bad_alloc(); }}));
  const auto whole = std::make_shared<CountingSink>();
  EXPECT_TRUE(scheduler.submit({short_task(whole)}));
  EXPECT_TRUE(comes_true([&] { return whole->answered == 1 && throwing->refused == 4; })) << throwing->refused;
  ASSERT_TRUE(becomes_idle(scheduler));
  const Totals totals = scheduler.totals();
  EXPECT_EQ(totals.requests, 5);
  EXPECT_EQ(totals.cancelled, 1);
  EXPECT_EQ(totals.failed, 3);
}

TEST(ServerThreads, AreNotIdleWhileSomethingIsDoneToASlot) {
  Scheduler scheduler(test_engine(), {});
  std::promise<void> begun;
  std::promise<void> goes_on;
  EXPECT_TRUE(scheduler.ask_slot({.done = [&](const Result<int64_t>&) {
    begun.set_value();
    goes_on.get_future().wait();
  }}));
  begun.get_future().wait();
  EXPECT_FALSE(scheduler.idle());
  goes_on.set_value();
  EXPECT_TRUE(becomes_idle(scheduler));
}

#ifndef EI_SANITIZED
TEST(ServerThreads, HaveNothingOfARequestThatThereWasNoMemoryToQueue) {
  Scheduler scheduler(test_engine(), {});
  const auto sink = std::make_shared<CountingSink>();
  const std::vector<Task> three = {short_task(sink), short_task(sink), short_task(sink)};
  std::vector<Task> tasks = three;
  const int refused =
      fail_every_allocation([&] { EXPECT_TRUE(scheduler.submit(std::move(tasks))); }, [&] { tasks = three; });
  EXPECT_GE(refused, 3) << "each task takes memory";
  ASSERT_TRUE(becomes_idle(scheduler));
  EXPECT_EQ(scheduler.totals().requests, 3) << "those of the request that was taken";
}
#endif

}  // namespace
}  // namespace ei::server
