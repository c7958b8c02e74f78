// The loops behind WindowVariant's running sums (contract in ../attention_sums.h): weights as window scores have them,
// rounded and added up in doubles, which is exact in any order.
#pragma once

#include "kernels/window_scores/cpu/window_scores_loops.h"

namespace ei::kernels {

template <typename V, typename Product>
struct SumLoops : WindowTile {
  using Loops = WindowLoops<V, Product>;

  // A head's batches are shared out among so many pieces of work.
  static constexpr int64_t kParts = kSumRoom;
  static int64_t parts(const WindowScoreParams& queries) {
    return Loops::batches(queries) < kParts ? Loops::batches(queries) : kParts;
  }
  // What every part of every head adds: doubles [parts, num_heads, longest], in front of the workers' rooms.
  static int64_t partial_doubles(const WindowScoreParams& queries) {
    return parts(queries) * queries.num_heads * Loops::longest(queries);
  }

  static size_t scratch_bytes(const AttentionSumParams& params, int workers) {
    const int64_t floats = 2 * partial_doubles(params.queries) + workers * Loops::room_floats(params.queries);
    return static_cast<size_t>(floats) * sizeof(float);
  }

  static void add(const AttentionSumParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const WindowScoreParams& queries = params.queries;
    auto* partials = static_cast<double*>(scratch);
    const typename Loops::Room room =
        Loops::room_at(queries, reinterpret_cast<float*>(partials + partial_doubles(queries)), worker);
    const int64_t group = queries.num_heads / static_cast<int64_t>(queries.kv.heads.size());
    const int64_t batches = Loops::batches(queries);
    const int64_t shares = parts(queries);
    for (int64_t index = queue.take(); index < shares * queries.num_heads; index = queue.take()) {
      const int64_t head = index / shares;
      const int64_t part = index % shares;
      double* out = partials + (part * queries.num_heads + head) * Loops::longest(queries);
      const int64_t length = queries.kv.heads[static_cast<size_t>(head / group)].length;
      for (int64_t slot = 0; slot < length; ++slot) out[slot] = 0;
      for (int64_t batch = part * batches / shares; batch < (part + 1) * batches / shares; ++batch) {
        float share[kRows];
        float entropy[kRows] = {};
        const typename Loops::Piece piece = Loops::piece_at(queries, head * batches + batch);
        const int64_t seen = Loops::template weigh_piece<false>(queries, piece, room, 1, share, entropy);
        add_rounded(room.weights, seen, share, out);
      }
    }
  }

  static void merge(const AttentionSumParams& params, const void* scratch, Worker worker) {
    const WindowScoreParams& queries = params.queries;
    const int64_t group = queries.num_heads / static_cast<int64_t>(queries.kv.heads.size());
    for (int64_t head = 0; head < queries.num_heads; ++head) {
      const Range slots = even_share(queries.kv.heads[static_cast<size_t>(head / group)].length, worker);
      const int64_t counted = params.counted[static_cast<size_t>(head / group)];
      double* sum = params.sums + head * params.stride;
      const double* before = params.before + head * params.stride;
      for (int64_t slot = slots.begin; slot < slots.end; ++slot) sum[slot] = slot < counted ? before[slot] : 0.0;
      for (int64_t part = 0; part < parts(queries); ++part) {
        const double* more =
            static_cast<const double*>(scratch) + (part * queries.num_heads + head) * Loops::longest(queries);
        for (int64_t slot = slots.begin; slot < slots.end; ++slot) sum[slot] += more[slot];
      }
    }
  }

 private:
  static void add_rounded(const float* weights, int64_t slots, const float* share, double* out) {
    constexpr int kLanes = 4;
    for (int64_t slot = 0; slot < slots; ++slot) {
      double sums[kLanes] = {};
      for (int row = 0; row < kRows; row += kLanes) {
        for (int lane = 0; lane < kLanes; ++lane) {
          const float attention = weights[slot * kRows + row + lane] * share[row + lane];
          sums[lane] += (static_cast<double>(attention) + kSumRounding) - kSumRounding;
        }
      }
      out[slot] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }
};

template <typename V, typename Product = FloatProduct<V>>
constexpr WindowVariant make_window_variant(std::string_view name, bool (*usable)()) {
  using Loops = WindowLoops<V, Product>;
  return {.name = name,
          .usable = usable,
          .accepts = Loops::accepts,
          .scratch_bytes = Loops::scratch_bytes,
          .score = Loops::score,
          .merge = Loops::merge,
          .sum_bytes = SumLoops<V, Product>::scratch_bytes,
          .add = SumLoops<V, Product>::add,
          .merge_sums = SumLoops<V, Product>::merge};
}

}  // namespace ei::kernels
