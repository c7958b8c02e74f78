// Row-wise operations and products of the cuda backend against the reference.
#include <gtest/gtest.h>

#include "gpu/engine/sides.h"

namespace ei::testing {
namespace {

constexpr double kExact = 2e-5;
constexpr double kNarrow = 6e-3;  // bf16 has eight bits

struct Operations : ::testing::TestWithParam<bool> {
  void SetUp() override { EI_NEEDS_GPU(); }
  double bound() const { return GetParam() ? kExact : kNarrow; }
};

TEST_P(Operations, OnRowsMatchTheReference) {
  const Side ours("cuda", GetParam());
  const Side reference("reference");
  for (const int64_t rows : {1, 3, 70}) {
    for (const int64_t cols : {8, 40, 257, 4096}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
      const auto x = normals(rows * 2 * cols, 1, 2);
      const auto sum = normals(rows * cols, 2);
      const auto gain = normals(cols, 3);
      std::vector<std::vector<float>> results[2];
      const Side* sides[] = {&ours, &reference};
      for (int i = 0; i < 2; ++i) {
        const Side& side = *sides[i];
        const auto weight = side.vector(gain);
        const Matrix in = side.put(0, x, rows, 2 * cols);
        const Matrix total = side.put(1, sum, rows, cols);
        const Matrix out = side.stream->scratch(kSlots[2], rows, cols).value();
        const Matrix part = side.stream->scratch(kSlots[3], rows, 2 * cols).value();
        side.stream->rms_norm(in.columns(0, cols), *weight, 1e-5f, out);
        results[i].push_back(side.get(out));
        side.stream->add_rms_norm(in.columns(cols, cols), total, weight.get(), 1e-5f, out);
        results[i].push_back(side.get(out));
        results[i].push_back(side.get(total));
        side.stream->add_rms_norm(out, total, nullptr, 0, {});
        results[i].push_back(side.get(total));
        side.stream->rms_norm(total, *weight, 1e-6f, total);
        results[i].push_back(side.get(total));
        for (const Activation kind : {Activation::kSilu, Activation::kGeluTanh}) {
          side.stream->activate(kind, in.columns(0, cols), in.columns(cols, cols), out);
          results[i].push_back(side.get(out));
        }
        side.stream->copy(out, part.columns(0, cols));
        side.stream->copy(total, part.columns(cols, cols));
        side.stream->softcap(part.columns(0, cols), 3.0f);
        results[i].push_back(side.get(part));
        if (rows > 1) {  // a part of a matrix that was written whole before
          side.stream->copy(in.columns(0, cols).row_range(0, 1), out.row_range(rows - 1, 1));
          results[i].push_back(side.get(out));
        }
      }
      ASSERT_EQ(results[0].size(), results[1].size());
      for (size_t i = 0; i < results[0].size(); ++i)
        EXPECT_LE(relative_error(results[0][i], results[1][i]), bound()) << "result " << i;
    }
  }
}

TEST_P(Operations, ProductsMatchTheReference) {
  const bool wide = GetParam();
  const DType type = wide ? DType::kF32 : DType::kBF16;
  const Side ours("cuda", wide);
  const Side reference("reference");
  struct Shape {
    int64_t rows, n, k;
  };
  for (const Shape& shape :
       {Shape{1, 96, 64}, {1, 33, 40}, {5, 100, 36}, {64, 512, 384}, {300, 129, 1000}, {1, 700, 14336}}) {
    for (const bool biased : {false, true}) {
      for (const Phase phase : {Phase::kPrompt, Phase::kGeneration}) {
        SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.k << " -> " << shape.n << " bias " << biased);
        const auto values = normals(shape.n * shape.k, 5, 0.05f);
        const auto x = normals(shape.rows * shape.k, 6);
        const auto bias_values = normals(shape.n, 7);
        std::vector<float> results[2];
        const Side* sides[] = {&ours, &reference};
        for (int i = 0; i < 2; ++i) {
          const Side& side = *sides[i];
          const auto weight = side.matrix(values, shape.n, shape.k, type, 1.5f);
          const auto bias = side.vector(bias_values);
          const Matrix in = side.put(0, x, shape.rows, shape.k);
          const Matrix out = side.put(1, std::vector<float>(static_cast<size_t>(shape.rows * (shape.n + 3)), NAN),
                                      shape.rows, shape.n + 3);
          side.stream->enter(phase, shape.rows);
          side.stream->matmul(*weight, in, out.columns(1, shape.n), biased ? bias.get() : nullptr);
          results[i] = side.get(out.columns(1, shape.n));
        }
        EXPECT_LE(relative_error(results[0], results[1]), bound());
      }
    }
  }
}

TEST_P(Operations, EmbeddingsMatchTheReference) {
  const Side ours("cuda", GetParam());
  const Side reference("reference");
  const auto values = normals(50 * 96, 8);
  const int32_t ids[] = {3, 49, 0, 3};
  std::vector<float> results[2];
  const Side* sides[] = {&ours, &reference};
  for (int i = 0; i < 2; ++i) {
    const Side& side = *sides[i];
    const HostTensor tensor{.name = "table", .type = 0, .rows = 50, .cols = 96, .data = values.data()};
    const auto table = side.backend->load_table(tensor).value();
    const Matrix out = side.stream->scratch(kSlots[0], 4, 96).value();
    side.stream->embed(*table, ids, 2.5f, out);
    results[i] = side.get(out);
  }
  EXPECT_EQ(results[0], results[1]);
}

INSTANTIATE_TEST_SUITE_P(Cuda, Operations, ::testing::Values(true, false),
                         [](const auto& test) { return test.param ? "Wide" : "Narrow"; });

// What only products read is kept in bf16 in parts of a memory as it is in memory of its own: the same bits.
TEST(CudaProducts, AreTheSameInPartsOfAMemory) {
  EI_NEEDS_GPU();
  const Side side("cuda", /*wide=*/false);
  constexpr int64_t kRows = 70;
  constexpr int64_t kWidth = 96;
  constexpr int64_t kInner = 128;
  const auto gate_up =
      side.matrix(normals(2 * kInner * kWidth, 41), 2 * kInner, kWidth, DType::kBF16, 1, MatrixUse::kActivated);
  const auto down = side.matrix(normals(kWidth * kInner, 42), kWidth, kInner, DType::kBF16);
  const Matrix x = side.put(0, normals(kRows * kWidth, 43), kRows, kWidth);
  Stream& stream = *side.stream;
  std::vector<float> results[2];
  for (const bool parts : {false, true}) {
    const Matrix memory = stream.scratch(kSlots[1], 1, kRows * 3 * kInner).value();
    const Matrix both = parts ? stream.part(kSlots[2], memory, 0, kRows, 2 * kInner)
                              : stream.scratch(kSlots[3], kRows, 2 * kInner).value();
    const Matrix hidden = parts ? stream.part(kSlots[4], memory, kRows * 2 * kInner, kRows, kInner)
                                : stream.scratch(kSlots[5], kRows, kInner).value();
    const Matrix out = stream.scratch(kSlots[6], kRows, kWidth).value();
    stream.enter(Phase::kPrompt, kRows);
    stream.matmul(*gate_up, x, both, nullptr);
    stream.activate(Activation::kSilu, both.columns(0, kInner), both.columns(kInner, kInner), hidden);
    stream.matmul(*down, hidden, out, nullptr);
    results[parts ? 1 : 0] = side.get(out);
  }
  EXPECT_EQ(results[0], results[1]);
}

// A product that is added to a sum at once is what it is in two steps.
TEST(CudaProducts, AreAddedToASum) {
  EI_NEEDS_GPU();
  const Side ours("cuda", /*wide=*/false);
  const Side reference("reference");
  constexpr int64_t kRows = 33;
  constexpr int64_t kIn = 128;
  constexpr int64_t kOut = 72;
  const std::vector<float> x = normals(kRows * kIn, 31);
  const std::vector<float> weights = normals(kOut * kIn, 32, 0.1f);
  const std::vector<float> before = normals(kRows * kOut, 33);
  const std::vector<float> gain = normals(kOut, 34);
  std::vector<float> sums[2];
  std::vector<float> norms[2];
  const Side* sides[] = {&ours, &reference};
  for (int i = 0; i < 2; ++i) {
    Stream& stream = *sides[i]->stream;
    const auto weight = sides[i]->matrix(weights, kOut, kIn, DType::kBF16);
    const auto gains = sides[i]->vector(gain);
    const Matrix in = sides[i]->put(0, x, kRows, kIn);
    const Matrix branch = stream.scratch(kSlots[1], kRows, kOut).value();
    const Matrix sum = sides[i]->put(2, before, kRows, kOut);
    const Matrix out = stream.scratch(kSlots[3], kRows, kOut).value();
    stream.enter(Phase::kPrompt, kRows);
    stream.matmul(*weight, in, branch, nullptr);
    stream.add_rms_norm(branch, sum, gains.get(), 1e-5f, out);
    stream.matmul(*weight, in, branch, nullptr);
    stream.add_rms_norm(branch, sum, nullptr, 1e-5f, {});
    norms[i] = sides[i]->get(out);
    sums[i] = sides[i]->get(sum);
  }
  EXPECT_LE(relative_error(sums[0], sums[1]), 0.01);
  EXPECT_LE(relative_error(norms[0], norms[1]), 0.01);
}

TEST(CudaProducts, InEightBitsAreCloseWhateverTheScaleOfARow) {
  EI_NEEDS_GPU();
  BackendOptions options;
  options.dense = "fp8";
  auto made = create_backend("cuda", options);
  if (!made.ok()) GTEST_SKIP() << made.error().message;
  Side ours("cuda", /*wide=*/false);
  ours.stream.reset();
  ours.backend = std::move(made).value();
  ours.stream = ours.backend->new_stream(nullptr).value();
  const Side reference("reference");
  constexpr int64_t kRows = 70;
  constexpr int64_t kIn = 512;
  constexpr int64_t kOut = 384;
  std::vector<float> x = normals(kRows * kIn, 21);
  std::vector<float> weights = normals(kOut * kIn, 22);
  for (int64_t i = 0; i < kRows * kIn; ++i) x[static_cast<size_t>(i)] *= std::exp2(static_cast<float>(i / kIn % 9 - 4));
  for (int64_t i = 0; i < kOut * kIn; ++i)
    weights[static_cast<size_t>(i)] *= std::exp2(static_cast<float>(i / kIn % 7));
  std::vector<float> results[2];
  const Side* sides[] = {&ours, &reference};
  for (int i = 0; i < 2; ++i) {
    const auto weight = sides[i]->matrix(weights, kOut, kIn, DType::kBF16);
    const Matrix in = sides[i]->put(0, x, kRows, kIn);
    const Matrix out = sides[i]->stream->scratch(kSlots[1], kRows, kOut).value();
    sides[i]->stream->enter(Phase::kPrompt, kRows);
    sides[i]->stream->matmul(*weight, in, out, nullptr);
    results[i] = sides[i]->get(out);
  }
  // Three bits behind the point, of both factors: 0.037 is expected.
  EXPECT_LE(relative_error(results[0], results[1]), 0.05);
  EXPECT_GE(relative_error(results[0], results[1]), 0.01) << "are these eight bits?";
  for (int64_t row = 0; row < kRows; ++row) {  // small rows are as good as large ones
    const auto part = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + row * kOut, all.begin() + (row + 1) * kOut);
    };
    EXPECT_LE(relative_error(part(results[0]), part(results[1])), 0.06) << "row " << row;
  }
}

TEST(HostJobs, RunInTheirTurnAndSeeSharedMemory) {
  EI_NEEDS_GPU();
  const Side side("cuda");
  const Matrix x = side.put(0, normals(64, 1), 1, 64);
  float* shared = side.stream->shared(kSlots[0], 64).value();
  std::vector<float> seen;
  side.stream->copy(x, {shared, 1, 64, 64});
  side.stream->host([&] {
    seen.assign(shared, shared + 64);
    for (int i = 0; i < 64; ++i) shared[i] += 1;
  });
  side.stream->copy({shared, 1, 64, 64}, x);
  const std::vector<float> after = side.get(x);
  EXPECT_EQ(seen, normals(64, 1));
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(after[i], seen[i] + 1);
}

TEST(Failures, TooMuchMemoryIsAnErrorAndNothingElse) {
  EI_NEEDS_GPU();
  const Side side("cuda");
  const int64_t before = side.backend->free_memory();
  const auto refused = side.backend->allocate(static_cast<size_t>(before) + (size_t{4} << 30));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kMemory);
  EXPECT_EQ(side.stream->scratch(kSlots[9], int64_t{1} << 20, int64_t{1} << 20).error().kind, ErrorKind::kMemory);
  EXPECT_TRUE(side.backend->allocate(size_t{1} << 20).ok());
  EXPECT_NEAR(static_cast<double>(side.backend->free_memory()), static_cast<double>(before), 64e6);
}

}  // namespace
}  // namespace ei::testing
