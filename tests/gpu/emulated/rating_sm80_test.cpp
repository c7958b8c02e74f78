// The products of a rating by mma.sync, thread by thread on the host, against plain loops: peaks bit for bit.
#include "kernels/block_scores/cuda/rating_sm80.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "gpu/emulated/rating_problem.h"
#include "gpu/emulated/tensor_tools.h"

namespace ei::kernels::cuda {
namespace {

const std::vector<RatingCase> kCases = {
    {.name = "more rows than an item", .dim = 64, .group = 5},
    {.name = "heads of 96 in blocks of 32", .dim = 96, .block = 32, .group = 2, .chosen = 5},
    {.name = "heads of 128, a query for the group",
     .dim = 128,
     .group = 3,
     .query = GroupQuery::kMean,
     .candidates = 3},
    {.name = "heads of 256", .dim = 256, .query = GroupQuery::kMean, .chosen = 17},
    {.name = "two parts of the keys, blocks of 16", .block = 16, .first_segment = 33, .chosen = 3},
    {.name = "listed super-blocks in two parts", .first_segment = 40, .chosen = 3, .candidates = 35},
    {.name = "no block but the first", .first_segment = 1},
    {.name = "nothing before the segment", .first_segment = 0, .chosen = 2},
    {.name = "samples", .group = 2, .sampling = true},
};

template <class Tiles>
void run(const RatingArgs& args, Products kind) {
  const auto shared = std::make_unique<typename Tiles::Shared>();
  gridDim.x = 3;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(*shared));
    emulated::Block::run(kTileThreads, [&] {
      Tiles{args, {args.tasks, args.first_item[static_cast<int>(kind)]}, *shared}.run();
    });
    EXPECT_TRUE(emulated::TensorTools::all_waited_for());
  }
  blockIdx.x = 0;
}

template <typename T>
struct Checked : RatingProblem<T> {
  using Base = RatingProblem<T>;
  using Base::args, Base::tasks;
  explicit Checked(const RatingCase& which) : Base(which) {}

  // Calls use(t, place, row) for the rows that rate.
  template <typename Use>
  void for_rows(Use use) const {
    for (int32_t t = 0; t < args.num_tasks; ++t)
      for (int32_t i = 0; i < tasks[static_cast<size_t>(t)].rows; ++i)
        use(t, i, rating_row(args, tasks[static_cast<size_t>(t)], t, i));
  }
  double logit(int32_t t, int32_t row, int64_t slot) const {
    double sum = 0;
    for (int32_t d = 0; d < args.dim; ++d)
      sum += static_cast<double>(this->narrow_query(t, row, d)) *
             static_cast<double>(to_float(this->key(tasks[static_cast<size_t>(t)].kv_head, slot, d)));
    return sum * static_cast<double>(args.scale);
  }

  void expect_own() const {
    std::vector<char> written(this->own.size(), 0);
    for_rows([&](int32_t t, int32_t, int32_t row) {
      const RatingTask& task = tasks[static_cast<size_t>(t)];
      const int64_t last = args.params.first_position + token_of(args, task, row);
      double sum = 0;
      for (int64_t slot = task.own_begin; slot <= last; ++slot) sum += std::exp2(logit(t, row, slot));
      double best = -1e30;
      for (int64_t slot = 0; slot < this->c.block; ++slot) best = std::max(best, logit(t, row, slot));
      const auto at = static_cast<size_t>(int64_t{t} * args.max_rows + row);
      EXPECT_NEAR(static_cast<double>(this->own[at]), std::log2(sum), 1e-3);
      EXPECT_NEAR(static_cast<double>(this->sink[at]), best, 1e-3);
      EXPECT_NEAR(static_cast<double>(this->found[at]), std::log2(sum + std::exp2(best)), 1e-3);
      written[at] = 1;
    });
    for (size_t i = 0; i < written.size(); ++i) EXPECT_EQ(std::isnan(this->own[i]), written[i] == 0) << i;
  }

  void expect_bounds() const {
    std::vector<double> bounds(this->super_bounds.size(), -1e30);
    for_rows([&](int32_t t, int32_t, int32_t row) {
      const RatingTask& task = tasks[static_cast<size_t>(t)];
      for (int64_t super = 0; super < task.supers && task.candidates >= 0; ++super) {
        double sum = 0;
        for (int32_t d = 0; d < args.dim; ++d) {
          const float value = this->narrow_query(t, row, d);
          sum += static_cast<double>(value) *
                 static_cast<double>(to_float(this->extreme(task.kv_head, super, d, value < 0)));
        }
        const auto base = static_cast<double>(this->found[static_cast<size_t>(int64_t{t} * args.max_rows + row)]);
        double& bound = bounds[static_cast<size_t>(t * args.max_supers + super)];
        bound = std::max(bound, sum * static_cast<double>(args.scale) - base);
      }
    });
    for (size_t i = 0; i < bounds.size(); ++i) {
      if (bounds[i] < -1e29) {
        EXPECT_EQ(this->super_bounds[i], 0u) << i;
      } else {
        EXPECT_NEAR(static_cast<double>(from_ordered(this->super_bounds[i])), bounds[i], 2e-3) << i;
      }
    }
  }

  // A row's query in 8 bits, and what one step of it is worth.
  float round_query(int32_t t, int32_t row, std::vector<int32_t>& rounded) const {
    float most = 0;
    for (int32_t d = 0; d < args.dim; ++d) most = std::max(most, std::abs(this->query(t, row, d)));
    rounded.clear();
    for (int32_t d = 0; d < args.dim; ++d) {
      const double exact = static_cast<double>(this->query(t, row, d)) * static_cast<double>(127.0f / most);
      rounded.push_back(static_cast<int32_t>(std::nearbyint(exact)));
    }
    return most * (args.scale / 127.0f);
  }

  // Peaks and their sums, with the kernel's order of operations behind the integers.
  void expect_peaks() const {
    std::vector<uint16_t> wanted(this->peaks.size(), 0xffff);
    std::vector<float> sums(this->parts_sum.size(), NAN);
    std::vector<int32_t> query;
    for_rows([&](int32_t t, int32_t place, int32_t row) {
      const RatingTask& task = tasks[static_cast<size_t>(t)];
      const float scale = round_query(t, row, query);
      const float base = this->found[static_cast<size_t>(int64_t{t} * args.max_rows + row)];
      const auto at = static_cast<size_t>(int64_t{t} * args.max_rated + place);
      const int32_t splits = (task.blocks * args.parts + kSplitPanels - 1) / kSplitPanels;
      std::vector<float> columns(static_cast<size_t>(splits) * 4, 0.0f);
      for (int32_t i = 0; i < task.blocks; ++i) {
        const int64_t block = rated_block(args, task, t, i);
        float best = -INFINITY;
        for (int32_t part = 0; part < args.parts; ++part) {
          const int64_t panel = block * args.parts + part;
          int32_t most = INT32_MIN;
          for (int32_t key = 0; key < kPanelKeys; ++key) {
            int32_t sum = 0;
            for (int32_t d = 0; d < args.dim; ++d)
              sum += query[static_cast<size_t>(d)] * this->code(task.kv_head, panel * kPanelKeys + key, d);
            most = std::max(most, sum);
          }
          constexpr float kMagic = 12582912.0f;
          const float step = scale * this->step_of(task.kv_head, panel);
          const float value = std::fmaf(kMagic + static_cast<float>(most), step, std::fmaf(-kMagic, step, -base));
          best = std::fmax(best, std::fmin(std::fmax(value, -6e4f), 120.0f));
        }
        wanted[at * static_cast<size_t>(args.max_blocks) + static_cast<size_t>(i)] =
            __half_as_ushort(__float2half_rn(best));
        const int32_t panel = i * args.parts;
        float& column = columns[static_cast<size_t>(panel / kSplitPanels * 4 + panel % kUnitPanels / 2)];
        if (i > 0) column += std::exp2(best);
      }
      for (int32_t split = 0; split < splits; ++split) {
        const float* of = columns.data() + 4 * split;
        sums[at * static_cast<size_t>(args.max_splits) + static_cast<size_t>(split)] =
            (of[0] + of[1]) + (of[2] + of[3]);
      }
    });
    EXPECT_EQ(this->peaks, wanted);
    EXPECT_EQ(std::memcmp(this->parts_sum.data(), sums.data(), sums.size() * sizeof(float)), 0);
  }

  template <int kDim>
  void expect_products() {
    using emulated::TensorTools;
    run<RatingTiles<kDim, T, Products::kOwn, TensorTools>>(args, Products::kOwn);
    expect_own();
    if (::testing::Test::HasFailure()) return;
    run<RatingTiles<kDim, T, Products::kBounds, TensorTools>>(args, Products::kBounds);
    expect_bounds();
    run<RoundedPeaks<kDim, TensorTools>>(args, Products::kPeaks);
    expect_peaks();
  }
};

template <typename T>
void expect_all(size_t each) {
  for (size_t i = 0; i < kCases.size(); i += each) {
    const RatingCase& c = kCases[i];
    SCOPED_TRACE(c.name);
    Checked<T> problem(c);
    switch (c.dim) {
      case 64: problem.template expect_products<64>(); break;
      case 96: problem.template expect_products<96>(); break;
      case 128: problem.template expect_products<128>(); break;
      default: problem.template expect_products<256>(); break;
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RatingByMma, ProductsAreThePlainOnesInBf16) { expect_all<__nv_bfloat16>(1); }
TEST(RatingByMma, ProductsAreThePlainOnesInF16) { expect_all<__half>(3); }

}  // namespace
}  // namespace ei::kernels::cuda
