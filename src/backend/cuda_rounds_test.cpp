#include "backend/cuda/cuda_rounds.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ei {
namespace {

using Rounds = std::vector<std::vector<int32_t>>;

// By memory for `most` segments together, a later one needing `growth` times its number more; in rounds of `kRoom`.
template <size_t kRoom = 4>
Rounds rounds_of(const std::vector<uint8_t>& wanted, int32_t most, int32_t growth = 0) {
  std::array<int32_t, kRoom> round{};
  int32_t count = 0;
  Rounds rounds;
  const Status status = in_rounds(
      wanted, round, count, [&] { return count * (1 + growth * round[static_cast<size_t>(count) - 1]) <= most; },
      [&]() -> Status {
        rounds.emplace_back(round.begin(), round.begin() + count);
        count = 0;
        return {};
      });
  EXPECT_TRUE(status.ok());
  return rounds;
}

TEST(CudaRounds, HaveAsManyAsFit) {
  const std::vector<uint8_t> all(7, 1);
  EXPECT_EQ(rounds_of(all, 3), (Rounds{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(rounds_of(all, 1), (Rounds{{0}, {1}, {2}, {3}, {4}, {5}, {6}}));
  EXPECT_EQ(rounds_of(all, 0), rounds_of(all, 1)) << "a single one in any case";
  EXPECT_EQ(rounds_of(all, 100), (Rounds{{0, 1, 2, 3}, {4, 5, 6}}));
}

TEST(CudaRounds, LeaveOutTheLastThatThereIsRoomForWhereItDoesNotFit) {
  EXPECT_EQ(rounds_of(std::vector<uint8_t>(6, 1), 4), (Rounds{{0, 1, 2, 3}, {4, 5}}));
  EXPECT_EQ(rounds_of(std::vector<uint8_t>(6, 1), 15, 1), (Rounds{{0, 1, 2}, {3, 4}, {5}}));  // 4 * (1 + 3) is too much
}

TEST(CudaRounds, AreOfTheWantedAlone) {
  EXPECT_EQ(rounds_of({0, 1, 0, 0, 1, 1, 0}, 2), (Rounds{{1, 4}, {5}}));
  EXPECT_EQ(rounds_of({0, 0}, 2), Rounds{});
  EXPECT_EQ(rounds_of({}, 2), Rounds{});
  EXPECT_EQ(rounds_of<1>({1, 1}, 5), (Rounds{{0}, {1}}));
}

TEST(CudaRounds, EndWithTheFirstError) {
  std::array<int32_t, 2> round{};
  int32_t count = 0;
  int launches = 0;
  const std::vector<uint8_t> wanted(6, 1);
  const Status status = in_rounds(
      wanted, round, count, [] { return true; },
      [&]() -> Status {
        count = 0;
        return ++launches == 2 ? Status(make_error(ErrorKind::kMemory, "none left")) : Status();
      });
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(launches, 2);
}

}  // namespace
}  // namespace ei
