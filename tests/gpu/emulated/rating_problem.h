// A chunk whose blocks are rated: keys in pages and rounded, extremes, queries and tasks, for kernels on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "kernels/block_scores/cuda/rating_work.cuh"
#include "kernels/cuda/elements.cuh"

namespace ei::kernels::cuda {

struct RatingCase {
  const char* name;
  int32_t dim = 64;
  int32_t block = 8;
  int32_t group = 1;
  int32_t first_segment = 5;
  GroupQuery query = GroupQuery::kEach;
  int32_t chosen = 0;      // rows of a task that rate; 0: all
  int32_t candidates = 0;  // super-blocks that are rated; 0: all
  bool sampling = false;
};

// T: the cache's type. The chunk begins inside a segment and ends inside the next.
template <typename T>
struct RatingProblem {
  static constexpr int32_t kHeads = 2;  // kv_heads
  static constexpr int32_t kSegment = 64;
  static constexpr int32_t kSlots = 128;
  static constexpr int32_t kInto = 10;  // tokens of the first segment that came before
  static constexpr int32_t kTokens = 94;

  explicit RatingProblem(const RatingCase& which) : c(which), random(17) {
    position = c.first_segment * kSegment + kInto;
    lay_out();
    make_keys();
    make_queries();
    for (int32_t t = 0; t < args.num_tasks; ++t) make_task(t);
    for (int kind = 0; kind < 3; ++kind) {
      firsts[kind].assign(1, 0);
      for (const RatingTask& task : tasks)
        firsts[kind].push_back(firsts[kind].back() + items_of(args, task, static_cast<Products>(kind)));
      args.first_item[kind] = firsts[kind].data();
    }
    args.tasks = tasks.data();
  }

  void lay_out() {
    RatingParams& params = args.params;
    params.rows = {
        .grid = {kSegment, c.block}, .kv_heads = kHeads, .first_segment = c.first_segment, .num_segments = 2};
    params.num_active = 2;
    params.tokens = kTokens;
    params.first_position = position;
    params.num_heads = kHeads * c.group;
    params.q_stride = int64_t{params.num_heads} * c.dim + 8;
    params.sampling = c.sampling;
    const DType type = sizeof(T) == 2 && std::is_same_v<T, __half> ? DType::kF16 : DType::kBF16;
    params.pages = DevicePages::of({kSlots, c.dim, type, type}, true);
    args.group = c.group;
    args.dim = c.dim;
    args.parts = c.block / kPanelKeys;
    args.super_blocks = blocks_per_super(params.rows.grid);
    args.num_tasks = 2 * kHeads;
    args.max_rows = args.max_rated = c.group * kSegment;
    args.max_blocks = (params.rows.visible(1) + 15) / 16 * 16;
    args.max_supers = params.rows.visible(1) / args.super_blocks;
    args.max_splits = static_cast<int32_t>((args.max_blocks * args.parts + kSplitPanels - 1) / kSplitPanels);
    args.scale = 0.3f;
    args.fast = true;
    args.peak_rows = kRoundedRows;
    const auto all = static_cast<size_t>(args.num_tasks) * static_cast<size_t>(args.max_rows);
    for (std::vector<float>* of : {&own, &sink, &found}) of->assign(all, NAN);
    args.own = own.data();
    args.sink = sink.data();
    args.found = found.data();
    row_list.assign(all, -1);
    args.row_list = row_list.data();
    super_list.assign(static_cast<size_t>(args.num_tasks * args.max_supers), -1);
    args.super_list = super_list.data();
    super_bounds.assign(super_list.size(), 0);
    args.super_bounds = super_bounds.data();
    peaks.assign(all * static_cast<size_t>(args.max_blocks), 0xffff);
    args.peaks = peaks.data();
    parts_sum.assign(all * static_cast<size_t>(args.max_splits), NAN);
    args.parts_sum = parts_sum.data();
  }

  // Behind the last key, and in extremes of no super-block, lies NaN.
  void make_keys() {
    const int64_t length = position + kTokens;
    keys.resize(static_cast<size_t>(kHeads * length * c.dim));
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool stands_out = i / static_cast<size_t>(c.dim) % 7 == 0;  // some keys do, as in models
      keys[i] = from_float<T>(random.normal() * (stands_out ? 3.0f : 1.0f));
    }
    const KvLayout layout = args.params.pages.layout();
    const int64_t count = (length + kSlots - 1) / kSlots;
    pages.assign(kHeads, {});
    page_lists.assign(kHeads, {});
    heads.resize(kHeads);
    for (int32_t h = 0; h < kHeads; ++h) {
      const auto of_page = static_cast<size_t>(layout.page_bytes(kSlots) / 2);
      pages[h].assign(static_cast<size_t>(count), std::vector<uint16_t>(of_page, 0xffff));
      for (int64_t slot = 0; slot < length; ++slot)
        for (int32_t d = 0; d < c.dim; ++d)
          std::memcpy(&pages[h][static_cast<size_t>(slot / kSlots)]
                            [static_cast<size_t>(layout.element_offset(slot % kSlots, d, false))],
                      &key(h, slot, d), 2);
      for (const std::vector<uint16_t>& page : pages[h]) page_lists[h].push_back(page.data());
      heads[h] = {.pages = page_lists[h].data(), .length = static_cast<int32_t>(length)};
    }
    args.params.heads = heads.data();
    make_index(layout);
    round_keys(length / kUnitKeys);
  }

  const T& key(int32_t h, int64_t slot, int32_t d) const {
    return keys[static_cast<size_t>((h * int64_t{position + kTokens} + slot) * c.dim + d)];
  }
  T extreme(int32_t h, int64_t super, int32_t d, bool low) const {
    float most = to_float(key(h, super * kUnitKeys, d));
    for (int64_t slot = super * kUnitKeys; slot < (super + 1) * kUnitKeys; ++slot) {
      const float one = to_float(key(h, slot, d));
      most = low ? std::min(most, one) : std::max(most, one);
    }
    return from_float<T>(most);
  }

  void make_index(const KvLayout& layout) {
    args.params.index_supers = (args.max_supers + 7) / 8 * 8;
    const int64_t of_head = args.params.index_supers * 2 * c.dim;
    index.assign(static_cast<size_t>(kHeads * of_head), 0xffff);
    for (int32_t h = 0; h < kHeads; ++h)
      for (int64_t super = 0; super < args.max_supers; ++super)
        for (int32_t d = 0; d < c.dim; ++d)
          for (const bool low : {false, true}) {
            const T value = extreme(h, super, d, low);
            std::memcpy(&index[static_cast<size_t>(h * of_head + layout.element_offset(super, d, low))], &value, 2);
          }
    args.params.index = index.data();
  }

  // As round_keys_cuda.cu.
  void round_keys(int64_t units) {
    const KvLayout to{c.dim, 1};
    codes.assign(static_cast<size_t>(kHeads * units * kUnitKeys * c.dim), 0);
    placed.assign(codes.size(), 0x55);
    scales.assign(static_cast<size_t>(kHeads * units * kUnitPanels), 0);
    for (int32_t h = 0; h < kHeads; ++h) {
      for (int64_t panel = 0; panel < units * kUnitPanels; ++panel) {
        float most = 0;
        for (int32_t i = 0; i < kPanelKeys * c.dim; ++i)
          most = std::max(most, std::abs(to_float(key(h, panel * kPanelKeys + i / c.dim, i % c.dim))));
        const int64_t unit = h * units + panel / kUnitPanels;
        scales[static_cast<size_t>(unit * kUnitPanels + panel % kUnitPanels)] = most / 127.0f;
        for (int32_t i = 0; i < kPanelKeys * c.dim; ++i) {
          const int32_t d = i % c.dim;
          const int64_t slot = panel * kPanelKeys + i / c.dim;
          const auto code = static_cast<int8_t>(std::nearbyint(to_float(key(h, slot, d)) * (127.0f / most)));
          codes[static_cast<size_t>((h * units * kUnitKeys + slot) * c.dim + d)] = code;
          const UnitRow row = unit_row(static_cast<int32_t>(panel % kUnitPanels), i / c.dim);
          placed[static_cast<size_t>(unit * kUnitKeys * c.dim + row.group * to.half_bytes() +
                                     to.piece_offset(row.row, d / 16) + d % 16)] = code;
        }
      }
    }
    args.params.rounded = {.codes = placed.data(), .scales = scales.data(), .units = units};
  }
  int32_t code(int32_t h, int64_t slot, int32_t d) const {
    return codes[static_cast<size_t>((h * args.params.rounded.units * kUnitKeys + slot) * c.dim + d)];
  }
  float step_of(int32_t h, int64_t panel) const {
    return scales[static_cast<size_t>(h * args.params.rounded.units * kUnitPanels + panel)];
  }

  void make_queries() {
    q.resize(static_cast<size_t>(kTokens * args.params.q_stride));
    for (float& value : q) value = random.normal();
    args.params.q = q.data();
    queries.resize(own.size() * static_cast<size_t>(c.dim));
    for (T& value : queries) value = from_float<T>(random.normal());
    args.queries = queries.data();
  }

  void make_task(int32_t t) {
    const BlockRows& rows = args.params.rows;
    RatingTask task{};
    task.kv_head = t / 2;
    const int32_t segment = t % 2;
    task.list = task.kv_head * 2 + segment;
    task.own_begin = (c.first_segment + segment) * kSegment;
    task.first_token = segment == 0 ? 0 : kSegment - kInto;
    task.tokens = segment == 0 ? kSegment - kInto : kTokens - (kSegment - kInto);
    task.visible = static_cast<int32_t>(rows.visible(segment));
    task.query = c.query;
    task.queries = static_cast<int32_t>(num_queries(c.query, c.group));
    task.all_rows = (c.sampling ? 32 : task.tokens) * task.queries;
    task.rows = task.all_rows;
    task.supers = task.visible / args.super_blocks;
    task.candidates = -1;
    task.blocks = task.visible;
    if (c.chosen > 0) {
      task.chosen = true;
      task.rows = c.chosen + t;  // odd ones, too
      std::vector<int32_t> order = shuffled(task.all_rows);
      std::copy_n(order.begin(), task.rows, row_list.begin() + int64_t{t} * args.max_rows);
    }
    if (c.candidates > 0) {
      task.candidates = std::min(c.candidates, task.supers);
      task.blocks = task.candidates * args.super_blocks;
      std::vector<int32_t> order = shuffled(task.supers);
      std::sort(order.begin(), order.begin() + task.candidates);
      std::copy_n(order.begin(), task.candidates, super_list.begin() + t * args.max_supers);
    }
    tasks.push_back(task);
  }
  std::vector<int32_t> shuffled(int32_t count) {
    std::vector<int32_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
    return order;
  }

  // Element d of a row's query, as the model left it where a head speaks for itself.
  float query(int32_t t, int32_t row, int32_t d) const {
    const RatingTask& task = tasks[static_cast<size_t>(t)];
    if (task.query == GroupQuery::kEach) return own_query(args, task, row)[d];
    return to_float(queries[static_cast<size_t>((int64_t{t} * args.max_rows + row) * c.dim + d)]);
  }
  // The same in the type of the cache.
  float narrow_query(int32_t t, int32_t row, int32_t d) const { return to_float(from_float<T>(query(t, row, d))); }

  RatingCase c;
  Random random;
  int32_t position = 0;
  RatingArgs args{};
  std::vector<RatingTask> tasks;
  std::vector<int32_t> firsts[3];
  std::vector<T> keys;
  std::vector<std::vector<std::vector<uint16_t>>> pages;
  std::vector<std::vector<const void*>> page_lists;
  std::vector<DeviceKvHead> heads;
  std::vector<uint16_t> index;
  std::vector<int8_t> codes;   // [kv_heads, slots, dim]
  std::vector<int8_t> placed;  // the same as kernels read them
  std::vector<float> scales;
  std::vector<float> q;
  std::vector<T> queries;
  std::vector<float> own, sink, found, parts_sum;
  std::vector<int32_t> row_list, super_list;
  std::vector<uint32_t> super_bounds;
  std::vector<uint16_t> peaks;
};

}  // namespace ei::kernels::cuda
