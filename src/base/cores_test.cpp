// Limits of control groups, from files as the kernel writes them.
#include "base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"

namespace ei {
namespace {

class Quota : public testing::Test {
 protected:
  Quota() : root_(std::filesystem::temp_directory_path() / ("ei_cores_" + std::to_string(::getpid()))) {}
  ~Quota() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void clear(const std::string& name) const { std::filesystem::remove_all(root_ / name); }
  std::string path(const std::string& name) const { return root_ / name; }
  double quota() const { return cpu_quota(path("membership"), path("cgroup")); }

 private:
  std::filesystem::path root_;
};

TEST_F(Quota, IsReadFromTheProcessesOwnGroup) {
  write("membership", "0::/service/engine\n");
  write("cgroup/service/engine/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 1.5);
}

TEST_F(Quota, IsTheTightestOfAllGroupsAbove) {
  write("membership", "0::/service/engine\n");
  write("cgroup/service/engine/cpu.max", "max 100000\n");
  write("cgroup/service/cpu.max", "300000 100000\n");
  write("cgroup/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 3);
}

TEST_F(Quota, IsFoundAtTheRootOfAContainer) {
  write("membership", "0::/a/group/of/the/host\n");
  write("cgroup/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 2);
}

TEST_F(Quota, OfVersionOneIsReadToo) {
  for (const char* mount : {"cpu,cpuacct", "cpu"}) {
    write("membership", "7:cpuset:/other\n4:cpu,cpuacct:/engine\n1:name=systemd:/\n");
    write("cgroup/cpuset/other/cpu.cfs_quota_us", "100\n");
    write("cgroup/cpuset/other/cpu.cfs_period_us", "100\n");
    write(std::string("cgroup/") + mount + "/engine/cpu.cfs_quota_us", "250000\n");
    write(std::string("cgroup/") + mount + "/engine/cpu.cfs_period_us", "100000\n");
    EXPECT_DOUBLE_EQ(quota(), 2.5) << mount;
    clear("cgroup");
  }
  write("cgroup/cpu/engine/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu/engine/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(quota()));
}

TEST_F(Quota, IdleCoresAreThoseThatNoOtherThreadWants) {
  const int cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  write("loads", "0.20 0.18 0.12 1/80 11206\n");
  EXPECT_EQ(idle_cores(path("loads")), cores);
  write("loads", "3.20 0.18 0.12 2/80 11206\n");
  EXPECT_EQ(idle_cores(path("loads")), cores - 1);
  write("loads", "3.20 0.18 0.12 " + std::to_string(cores + 1) + "/80 11206\n");
  EXPECT_EQ(idle_cores(path("loads")), 0);
  for (const char* text : {"", "1 2\n", "a b c 9/80\n", "0 0 0 9\n"}) {
    write("loads", text);
    EXPECT_EQ(idle_cores(path("loads")), cores) << text;
  }
  EXPECT_EQ(idle_cores(path("nothing")), cores);
}

TEST_F(Quota, IsNoneWithoutFilesOrWithNonsenseInThem) {
  EXPECT_TRUE(std::isinf(quota()));
  write("membership", "nonsense\n0::/x\n");
  for (const char* text : {"", "max 100000\n", "-5 100000\n", "100000 0\n", "words\n"}) {
    write("cgroup/x/cpu.max", text);
    EXPECT_TRUE(std::isinf(quota())) << text;
  }
}

TEST(Cores, AreNoMoreThanTheAffinityAllows) {
  EXPECT_GE(usable_cores(), 1);
  std::thread([] {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cores(), 1);
  }).join();
}

using Memory = Quota;

TEST_F(Memory, IsWhatTheTightestGroupLeaves) {
  const auto left = [&] { return group_memory_bytes(path("membership"), path("cgroup")); };
  EXPECT_EQ(left(), -1);
  write("membership", "0::/service/engine\n");
  write("cgroup/service/engine/memory.max", "max\n");
  write("cgroup/service/engine/memory.current", "100\n");
  EXPECT_EQ(left(), -1) << "no limit";
  write("cgroup/service/memory.max", "1000\n");
  write("cgroup/service/memory.current", "300\n");
  write("cgroup/service/memory.stat", "anon 200\ninactive_file 50\nactive_file 7\n");
  EXPECT_EQ(left(), 750) << "cached pages are given up";
  write("cgroup/memory.max", "400\n");
  write("cgroup/memory.current", "500\n");
  EXPECT_EQ(left(), 0);
}

TEST_F(Memory, OfVersionOneIsReadToo) {
  write("membership", "9:memory:/engine\n3:cpu:/\n");
  write("cgroup/memory/engine/memory.limit_in_bytes", "5000\n");
  write("cgroup/memory/engine/memory.usage_in_bytes", "1000\n");
  write("cgroup/memory/engine/memory.stat", "inactive_file 1\ntotal_inactive_file 30\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(group_memory_bytes(path("membership"), path("cgroup")), 4030);
}

}  // namespace
}  // namespace ei
