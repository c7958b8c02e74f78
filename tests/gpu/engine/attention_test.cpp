// Appending, attention, window scores, compaction and saved caches of the cuda backend against the reference.
#include <gtest/gtest.h>

#include <numeric>

#include "gpu/engine/sides.h"
#include "kv/store.h"
#include "support/temp_folder.h"

namespace ei::testing {
namespace {

struct Case {
  DType key_type = DType::kBF16;
  DType value_type = DType::kBF16;
  int32_t head_dim = 128;
  int32_t kv_heads = 2;
  int32_t group = 4;
  int32_t window = 0;
  bool compacted = false;
  bool interleaved = false;
  bool normed = false;
};

std::string name_of(const Case& c) {
  return str_format("%s %s dim %d kv_heads %d group %d window %d compacted %d", dtype_name(c.key_type),
                    dtype_name(c.value_type), c.head_dim, c.kv_heads, c.group, c.window, static_cast<int>(c.compacted));
}

// One layer of a session on one backend, fed with numbers that depend on the position alone.
struct Layer {
  Layer(const std::string& name, const Case& shape, const std::string& kernels = "")
      : side(name, /*wide=*/true, kernels),
        c(shape),
        store(*side.backend, {.layers = 1,
                              .kv_heads = c.kv_heads,
                              .head_dim = c.head_dim,
                              .key_type = c.key_type,
                              .value_type = c.value_type}),
        gain(side.vector(normals(c.head_dim, 77))) {}

  int64_t heads() const { return int64_t{c.kv_heads} * c.group; }
  int64_t width() const { return (heads() + 2 * c.kv_heads) * c.head_dim; }

  // Appends and attends; the rows of the result.
  std::vector<float> feed(int64_t tokens, Phase phase, const BlockPlan* plan = nullptr) {
    const int32_t first = store.next_position();
    EXPECT_TRUE(store.reserve(tokens).ok());
    const Matrix qkv = side.put(0, normals(tokens * width(), 1000 + static_cast<uint64_t>(first)), tokens, width());
    std::vector<float> cos;
    std::vector<float> sin;
    const int32_t dims = c.head_dim / 2;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int32_t i = 0; i < dims; ++i) {
        const double angle = static_cast<double>(first + t) / std::pow(100.0, static_cast<double>(i) / dims);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    Stream& stream = *side.stream;
    stream.enter(phase, tokens);
    const Matrix q = qkv.columns(0, heads() * c.head_dim);
    const int64_t kv_width = int64_t{c.kv_heads} * c.head_dim;
    stream.rotate_append({.q = q,
                          .k = qkv.columns(q.cols, kv_width),
                          .v = qkv.columns(q.cols + kv_width, kv_width),
                          .q_norm = c.normed ? gain.get() : nullptr,
                          .k_norm = c.normed ? gain.get() : nullptr,
                          .norm_eps = 1e-5f,
                          .rope = {.cos = static_cast<const float*>(stream.stage(cos.data(), cos.size() * 4)),
                                   .sin = static_cast<const float*>(stream.stage(sin.data(), sin.size() * 4)),
                                   .dims = 2 * dims,
                                   .interleaved = c.interleaved,
                                   .rope = nullptr,
                                   .first_position = first},
                          .append = store.append(0, tokens)});
    fed = q;
    return attend(first, phase, plan);
  }

  // The rows of the last feed(), the first of them at this position, once more.
  std::vector<float> attend(int32_t first, Phase phase, const BlockPlan* plan = nullptr) {
    const Matrix out = side.put(1, std::vector<float>(static_cast<size_t>(fed.rows * heads() * c.head_dim), NAN),
                                fed.rows, heads() * c.head_dim);
    side.stream->attention({.q = fed.data,
                            .q_stride = fed.stride,
                            .out = out.data,
                            .out_stride = out.stride,
                            .tokens = fed.rows,
                            .prompt = phase == Phase::kPrompt,
                            .num_heads = static_cast<int32_t>(heads()),
                            .first_position = first,
                            .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                            .window = c.window,
                            .plan = plan,
                            .kv = store.view(0)});
    return side.get(out);
  }

  // Keys, then values, of all slots of all heads as hosts see them.
  std::vector<std::vector<std::byte>> rows() const {
    std::vector<std::vector<std::byte>> all;
    each_page([&](const KvPageShape& shape, void* page, int64_t count) {
      std::vector<std::byte>& keys = all.emplace_back(static_cast<size_t>(count) * shape.key_row());
      std::vector<std::byte> values(static_cast<size_t>(count) * shape.value_row());
      EXPECT_TRUE(side.backend->read_slots(shape, page, count, keys.data(), values.data()).ok());
      all.push_back(std::move(values));
    });
    return all;
  }
  void put_rows(const std::vector<std::vector<std::byte>>& all) const {
    size_t next = 0;
    each_page([&](const KvPageShape& shape, void* page, int64_t count) {
      EXPECT_TRUE(side.backend->write_slots(shape, page, count, all[next].data(), all[next + 1].data()).ok());
      next += 2;
    });
  }
  template <typename Visit>
  void each_page(Visit visit) const {
    const KvView view = store.view(0);
    const KvPageShape shape{view.page_slots, view.head_dim, view.key_type, view.value_type};
    for (const KvHeadView& head : view.heads)
      for (int64_t slot = 0; slot < head.length; slot += view.page_slots)
        visit(shape, const_cast<void*>(head.key_pages[slot / view.page_slots]),
              std::min<int64_t>(view.page_slots, head.length - slot));
  }

  int64_t longest() const {
    int64_t slots = 0;
    for (int h = 0; h < c.kv_heads; ++h) slots = std::max(slots, store.length(0, h));
    return slots;
  }
  // At the last positions of the cache.
  kernels::WindowScoreParams queries(int64_t rows, uint64_t seed) {
    const Matrix q = side.put(2, normals(rows * heads() * c.head_dim, seed), rows, heads() * c.head_dim);
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), store.next_position() - static_cast<int32_t>(rows));
    return {.q = q.data,
            .q_stride = q.stride,
            .positions =
                static_cast<const int32_t*>(side.stream->stage(positions.data(), positions.size() * sizeof(int32_t))),
            .window = rows,
            .num_heads = static_cast<int32_t>(heads()),
            .scale = 0.2f,
            .kv = store.view(0)};
  }

  // Scores, then entropies.
  std::vector<float> window_scores(int64_t window) {
    kernels::WindowScoreParams params = queries(window, 5);
    params.score_stride = longest();
    params.scores = side.stream->shared(kSlots[0], heads() * longest()).value();
    std::fill_n(params.scores, heads() * longest(), 0.0f);
    params.entropy = side.stream->shared(kSlots[1], heads()).value();
    side.stream->window_scores(params);
    EXPECT_TRUE(side.stream->synchronize().ok());
    std::vector<float> all(params.scores, params.scores + heads() * longest());
    all.insert(all.end(), params.entropy, params.entropy + heads());
    return all;
  }

  // On top of sums of 1 over the first half of the slots.
  std::vector<float> attention_sums(int64_t rows) {
    std::vector<double> sums(static_cast<size_t>(heads() * longest()), 1);
    const size_t bytes = sums.size() * sizeof(double);
    const Buffer memory = side.backend->allocate(bytes).value();
    EXPECT_TRUE(side.backend->copy_in(memory.data(), sums.data(), bytes).ok());
    auto* data = static_cast<double*>(memory.data());
    const int64_t some = std::max<int64_t>(rows, 1);
    kernels::AttentionSumParams params{.queries = queries(some, 6), .before = data, .sums = data, .stride = longest()};
    params.queries.window = rows;
    for (int h = 0; h < c.kv_heads; ++h) params.counted.push_back(store.length(0, h) / 2);
    side.stream->attention_sums(params);
    EXPECT_TRUE(side.stream->synchronize().ok());
    EXPECT_TRUE(side.backend->copy_out(sums.data(), memory.data(), bytes).ok());
    return {sums.begin(), sums.end()};
  }

  void drop() {
    for (int h = 0; h < c.kv_heads; ++h) {
      KeepList keep;
      for (int32_t slot = 0; slot < store.length(0, h); ++slot)
        if (slot % (h + 3) != 1 || slot > 250) keep.push_back(slot);
      ASSERT_TRUE(store.compact(0, h, keep).ok());
    }
  }

  Side side;
  Case c;
  kv::Store store;
  std::unique_ptr<Weight> gain;
  Matrix fed{};  // queries, rotated
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const int32_t head_dim : {40, 64, 96, 128, 256}) {
      for (const bool compacted : {false, true})
        list.push_back({.key_type = type, .value_type = type, .head_dim = head_dim, .compacted = compacted});
      list.push_back({.key_type = type,
                      .value_type = type,
                      .head_dim = head_dim,
                      .kv_heads = 3,
                      .group = 1,
                      .window = 70,
                      .interleaved = true,
                      .normed = true});
    }
  }
  list.push_back({.key_type = DType::kF32, .value_type = DType::kBF16, .head_dim = 64, .group = 7});
  list.push_back({.key_type = DType::kBF16, .value_type = DType::kBF16, .head_dim = 64, .kv_heads = 1, .group = 7});
  return list;
}

double bound_of(const Case& c) { return c.key_type == DType::kF32 && c.value_type == DType::kF32 ? 2e-5 : 1.2e-2; }

// By each set of kernels: the device's fastest, the portable ones, the plain ones.
struct CudaAttention : ::testing::TestWithParam<const char*> {
  void SetUp() override { EI_NEEDS_GPU(); }
};
INSTANTIATE_TEST_SUITE_P(Kernels, CudaAttention, ::testing::Values("", "portable", "plain"),
                         [](const auto& test) { return *test.param != 0 ? test.param : "fastest"; });

TEST_P(CudaAttention, MatchesTheReferenceOverEveryKindOfCache) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name_of(c));
    Layer ours("cuda", c, GetParam());
    Layer reference("reference", c);
    EXPECT_LE(relative_error(ours.feed(200, Phase::kPrompt), reference.feed(200, Phase::kPrompt)), bound_of(c));
    EXPECT_LE(relative_error(ours.feed(77, Phase::kPrompt), reference.feed(77, Phase::kPrompt)), bound_of(c));
    if (c.compacted) {
      ours.drop();
      reference.drop();
      EXPECT_LE(relative_error(ours.feed(60, Phase::kPrompt), reference.feed(60, Phase::kPrompt)), bound_of(c));
    }
    for (int i = 0; i < 3; ++i)
      EXPECT_LE(relative_error(ours.feed(1, Phase::kGeneration), reference.feed(1, Phase::kGeneration)), bound_of(c))
          << "token " << i;
    if (c.window == 0) {
      EXPECT_LE(relative_error(ours.window_scores(32), reference.window_scores(32)), 2e-3);
      EXPECT_LE(relative_error(ours.attention_sums(80), reference.attention_sums(80)), 2e-3);
      EXPECT_EQ(ours.attention_sums(0), reference.attention_sums(0)) << "sums of no queries";
    }
  }
}

TEST_P(CudaAttention, ReadsThePlanWhenItsTurnComes) {
  for (const DType type : {DType::kBF16, DType::kF32}) {
    for (const int32_t block : {8, 16, 64, 4}) {
      const Case c{.key_type = type, .value_type = type, .head_dim = 64};
      SCOPED_TRACE(::testing::Message() << name_of(c) << " block " << block);
      Layer ours("cuda", c, GetParam());
      Layer reference("reference", c);
      BlockPlan made;
      made.grid = {128, block};
      made.kv_heads = 2;
      made.first_segment = 3;
      made.num_segments = 3;
      made.dense = {0, 1, 0};
      Random random(4);
      for (int32_t h = 0; h < 2; ++h) {
        for (int32_t i = 0; i < 3; ++i) {
          made.offsets.push_back(static_cast<int64_t>(made.blocks.size()));
          for (int32_t j = 0; i != 1 && j < (3 + i) * 128 / block; ++j)
            if (random.below(5) < 2) made.blocks.push_back(j);
        }
      }
      made.offsets.push_back(static_cast<int64_t>(made.blocks.size()));
      std::vector<float> rows[2];
      Layer* layers[] = {&ours, &reference};
      for (int i = 0; i < 2; ++i) {
        layers[i]->feed(384, Phase::kPrompt);
        BlockPlan plan;
        plan.grid = made.grid;
        layers[i]->side.stream->host([&] { plan = made; });
        rows[i] = layers[i]->feed(300, Phase::kPrompt, &plan);
      }
      EXPECT_LE(relative_error(rows[0], rows[1]), bound_of(c));
    }
  }
}

// Beside the reference on the same rows in f16; and beside what the rows were before they were rounded.
TEST_P(CudaAttention, ReadsACacheInFp8AsItsRowsInF16) {
  const BlockPlan plan{.grid = {128, 8},
                       .kv_heads = 2,
                       .first_segment = 1,
                       .num_segments = 2,
                       .dense = {0, 0},
                       .offsets = {0, 3, 9, 13, 20},
                       .blocks = {0, 3, 15, 0, 1, 17, 20, 30, 31, 2, 4, 5, 8, 0, 2, 9, 16, 22, 25, 29}};
  for (const int32_t head_dim : {64, 80, 96, 128, 256}) {
    for (const Case& shape :
         {Case{.compacted = true}, Case{.group = 7}, Case{.group = 1, .window = 70, .normed = true}}) {
      Case c = shape;
      c.head_dim = head_dim;
      c.key_type = c.value_type = DType::kF8;
      Case wide = c;
      wide.key_type = wide.value_type = DType::kF16;
      SCOPED_TRACE(name_of(c));
      Layer ours("cuda", c, GetParam());
      Layer reference("reference", wide);
      const auto feed = [&](int64_t tokens, Phase phase, const BlockPlan* of = nullptr) {
        const int32_t first = ours.store.next_position();
        const std::vector<float> mine = ours.feed(tokens, phase, of);
        const std::vector<float> unrounded = reference.feed(tokens, phase, of);
        const auto before = reference.rows();
        reference.put_rows(ours.rows());
        EXPECT_LE(relative_error(mine, reference.attend(first, phase, of)), 2e-3);
        EXPECT_LE(relative_error(mine, unrounded), 0.1);
        EXPECT_NE(reference.rows(), before);
      };
      feed(200, Phase::kPrompt);
      if (c.window == 0) feed(120, Phase::kPrompt, &plan);
      if (c.compacted) {
        ours.drop();
        reference.drop();
        EXPECT_EQ(ours.rows(), reference.rows());
        feed(60, Phase::kPrompt);
      }
      for (int i = 0; i < 4; ++i) feed(1, Phase::kGeneration);
      if (c.window == 0) {
        EXPECT_LE(relative_error(ours.window_scores(32), reference.window_scores(32)), 2e-3);
      }
    }
  }
}

TEST(CudaStore, InFp8IsSavedInF16AndLoadedBack) {
  EI_NEEDS_GPU();
  const kv::TempFolder folder;
  const Case c{.key_type = DType::kF8, .value_type = DType::kF8, .head_dim = 128, .compacted = true};
  Layer ours("cuda", c);
  ours.feed(300, Phase::kPrompt);
  ours.drop();
  const std::string path = folder.file("cache");
  ASSERT_TRUE(ours.store.save(path, 5).ok());
  const Side reference("reference");
  auto elsewhere = kv::Store::load(path, 5, *reference.backend);
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.error().message;
  EXPECT_EQ(elsewhere->config().key_type, DType::kF16);
  const std::string again = folder.file("again");
  ASSERT_TRUE(elsewhere->save(again, 5).ok());
  EXPECT_EQ(kv::read_all(again), kv::read_all(path));
  const auto rows = ours.rows();
  auto back = kv::Store::load(again, 5, *ours.side.backend, nullptr, nullptr, &ours.store.config());
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->config().key_type, DType::kF8);
  ours.store = std::move(back).value();
  EXPECT_EQ(ours.rows(), rows);
}

TEST(CudaStore, SavedOnOneSideGoesOnOnTheOther) {
  EI_NEEDS_GPU();
  const kv::TempFolder folder;
  for (const DType type : {DType::kBF16, DType::kF32}) {
    const Case c{.key_type = type, .value_type = type, .head_dim = 128, .compacted = true};
    Layer ours("cuda", c);
    Layer reference("reference", c);
    Layer* layers[] = {&ours, &reference};
    std::vector<std::string> files;
    for (Layer* layer : layers) {
      layer->feed(300, Phase::kPrompt);
      layer->drop();
      files.push_back(folder.file("cache" + std::to_string(files.size())));
      ASSERT_TRUE(layer->store.save(files.back(), 5).ok());
    }
    for (size_t i = 0; i < 2; ++i) {
      auto loaded = kv::Store::load(files[1 - i], 5, *layers[i]->side.backend);
      ASSERT_TRUE(loaded.ok()) << loaded.error().message;
      layers[i]->store = std::move(loaded).value();
      const std::string again = folder.file("again");
      ASSERT_TRUE(layers[i]->store.save(again, 5).ok());
      EXPECT_EQ(kv::read_all(again), kv::read_all(files[1 - i]));
    }
    EXPECT_LE(relative_error(ours.feed(1, Phase::kGeneration), reference.feed(1, Phase::kGeneration)), bound_of(c));
  }
}

TEST(CudaStore, GivesMemoryBackWhenItsSlotsGo) {
  EI_NEEDS_GPU();
  const Case c{.head_dim = 128, .kv_heads = 8, .group = 1};
  Layer ours("cuda", c);
  for (int chunk = 0; chunk < 16; ++chunk) {
    ASSERT_TRUE(ours.store.reserve(4096).ok());
    ours.store.append(0, 4096);
  }
  const int64_t full = ours.side.backend->free_memory();
  KeepList keep(2048);
  std::iota(keep.begin(), keep.end(), 60000);
  for (int h = 0; h < c.kv_heads; ++h) ASSERT_TRUE(ours.store.compact(0, h, keep).ok());
  EXPECT_GT(ours.side.backend->free_memory() - full, int64_t{150} << 20);
}

}  // namespace
}  // namespace ei::testing
