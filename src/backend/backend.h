// Backend: memory, dense maths and attention of one kind of device. Const after creation and shared by all sessions.
// Stream: one session's queue of operations. Calls on a Stream only enqueue; results are valid after synchronize().
// Pointers handed out by a backend are opaque outside backend/ and kernels/: engine, model, sparse and kv pass them on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/scratch_slot.h"
#include "base/cancel.h"
#include "base/result.h"
#include "kernels/attention/attention.h"
#include "kernels/block_scores/block_scores.h"
#include "kernels/window_scores/attention_sums.h"
#include "kernels/window_scores/slot_choice.h"
#include "kernels/window_scores/slot_measures.h"
#include "kernels/window_scores/window_scores.h"
#include "plan/kv_view.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"
#include "tensor/rope.h"

namespace ei {

// A tensor as it lies in the model file: `rows` rows of `cols` elements of ggml type `type`, row-major.
struct HostTensor {
  std::string_view name;
  uint32_t type = 0;  // ggml type id
  int64_t rows = 0;
  int64_t cols = 0;
  const void* data = nullptr;
  std::span<const std::byte>
      mapping{};    // of the file, when `data` lies in one: pages may be given back, they come again
  float scale = 1;  // of a matrix: products by it are multiplied by this, in front of a bias
};

// How a matrix will be multiplied: by every token of a prompt, or by a few rows only (the output matrix), for which no
// second form is worth its memory. kActivated: by every token, and only activate() reads the products, so that they may
// be rounded as its result is.
enum class MatrixUse : uint8_t { kEveryToken, kActivated, kFewRows };

// A weight held by a backend, in whatever form its maths wants.
class Weight {
 public:
  virtual ~Weight() = default;
  int64_t rows = 0;
  int64_t cols = 0;
};

// Rotary embedding of a chunk: cos and sin for `tokens` consecutive positions (null for a stream that makes them
// itself), and what they are made of. Pairs are (2i, 2i+1) when interleaved, otherwise (i, i + dims/2); elements from
// `dims` on are left alone.
struct RopeTable {
  const float* cos = nullptr;  // [tokens, dims / 2]
  const float* sin = nullptr;  // [tokens, dims / 2]
  int32_t dims = 0;
  bool interleaved = false;
  const Rope* rope = nullptr;  // outlives the stream
  int32_t first_position = 0;
};

// Where the tokens of a chunk go inside the store, per kv_head.
struct KvAppend {
  struct Run {  // `count` consecutive tokens of the chunk into consecutive slots of one page
    int32_t kv_head = 0;
    int64_t token = 0;
    int64_t count = 0;
    void* page = nullptr;
    int32_t slot = 0;  // of token `token`, in that page
  };
  std::vector<Run> runs;
  KvPageShape shape;
};

// `count` consecutive slots of one page into consecutive slots of another.
struct KvMove {
  const void* from = nullptr;
  void* to = nullptr;
  int32_t from_slot = 0;
  int32_t to_slot = 0;
  int32_t count = 0;
};

// Rows of running sums of which some elements stay: element i becomes what element keep[i] was.
struct KeptSums {
  double* sums = nullptr;  // [rows, stride]
  double* room = nullptr;  // as much other memory, whose contents are lost
  int64_t rows = 0;
  int64_t stride = 0;
  std::span<const int32_t> keep{};  // ascending, on the host
};

// What a stream's operations belong to. A backend may choose its maths by this and by the length of the prompt, but not
// by how many rows an operation has: a prompt gives the same logits however it is cut.
enum class Phase : uint8_t { kPrompt, kGeneration };

enum class Activation : uint8_t { kSilu, kGeluTanh };

// Normalise Q and K per head (optional), rotate them, and write K and V into the store.
struct RotateAppendParams {
  Matrix q;                        // [tokens, heads * head_dim], rotated in place
  Matrix k;                        // [tokens, kv_heads * head_dim]
  Matrix v;                        // [tokens, kv_heads * head_dim]
  const Weight* q_norm = nullptr;  // [head_dim] gain, or null
  const Weight* k_norm = nullptr;
  float norm_eps = 0;
  RopeTable rope;
  KvAppend append;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Holds for what is enqueued from here on: `tokens` tokens of a prompt, in any number of chunks, or generated ones. A
  // stream begins with a long prompt.
  virtual void enter(Phase phase, int64_t tokens) = 0;
  // out[t] = scale * table[tokens[t]]
  virtual void embed(const Weight& table, std::span<const int32_t> tokens, float scale, Matrix out) = 0;
  // y = x W^T (+ bias)
  virtual void matmul(const Weight& weight, Matrix x, Matrix y, const Weight* bias) = 0;
  // y = x / rms(x) * gain, row by row
  virtual void rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) = 0;
  // sum += x, then y = norm(sum): the residual step in front of every norm, in one pass. y may be empty (no norm).
  virtual void add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) = 0;
  virtual void rotate_append(const RotateAppendParams& params) = 0;
  // Does rotate_append make the angles itself, from RopeTable::rope and first_position, where cos and sin are null?
  virtual bool makes_angles() const { return false; }
  virtual void attention(const kernels::AttentionParams& params) = 0;
  // Calls that have nothing to do with each other: each over a cache of its own, into rows of its own.
  virtual void attention_each(std::span<const kernels::AttentionParams> calls) {
    for (const kernels::AttentionParams& call : calls) attention(call);
  }
  // out = activation(gate) * up
  virtual void activate(Activation kind, Matrix gate, Matrix up, Matrix out) = 0;
  // x = cap * tanh(x / cap)
  virtual void softcap(Matrix x, float cap) = 0;
  virtual void copy(Matrix from, Matrix to) = 0;

  // What a sparse prefill measures and chooses (contracts in kernels/block_scores/block_scores.h). Plans are filled
  // while the stream runs: an attention() recorded later reads them then.
  virtual void block_extremes(const kernels::BlockExtremesParams& params) = 0;
  virtual void query_midrange(const kernels::QueryMidrangeParams& params) = 0;
  virtual void block_scores(const kernels::BlockScoreParams& params) = 0;
  virtual void block_entropy(const kernels::BlockEntropyParams& params) = 0;
  virtual void row_scores(const kernels::RowScoreParams& params) = 0;
  virtual void pack_keys(const kernels::PackKeysParams& params) = 0;
  // Peak scores of the segments i with segments[i] != 0, each as PeakScoreParams says with segment i. Rankings and
  // samples, both in shared() memory, are [kv_heads, num_segments].
  virtual void peak_scores(const kernels::PeakScoreParams& params, std::span<const uint8_t> segments) = 0;
  virtual void select_blocks(const kernels::SelectBlocksParams& params) = 0;
  // What a KV compression measures.
  virtual void window_scores(const kernels::WindowScoreParams& params) = 0;
  virtual void attention_sums(const kernels::AttentionSumParams& params) = 0;
  // Can the stream rate and choose slots itself (kernels/window_scores/slot_choice.h)? Otherwise the host does, from
  // scores in shared() memory.
  virtual bool chooses_slots() const { return false; }
  virtual void rate_slots(const kernels::RateSlotsParams&) {}
  virtual void choose_slots(const kernels::ChooseSlotsParams&) {}
  virtual void spread_slots(const kernels::SpreadSlotsParams&) {}
  virtual void leave_out_slots(const kernels::LeaveOutSlotsParams&) {}
  // Can it measure slots by what they hold (kernels/window_scores/slot_measures.h) and make scores of sums of
  // attention? Otherwise hosts do, page by page.
  virtual bool measures_slots() const { return false; }
  virtual void measure_keys(const kernels::KeyMeasureParams&) {}
  virtual void expect_scores(const kernels::ExpectedScoreParams&) {}
  virtual void sum_scores(const kernels::SumScoreParams&) {}
  // Runs `job` on the host, in its turn: what was recorded before has finished, what follows has not begun. It may read
  // and write shared() memory and host data, and must not call the stream. Not run after a cancellation or a failure.
  virtual void host(std::function<void()> job) = 0;
  // The same for `count` jobs that know nothing of each other, and may run side by side.
  virtual void host_each(int64_t count, std::function<void(int64_t)> job) {
    host([count, job = std::move(job)] {
      for (int64_t i = 0; i < count; ++i) job(i);
    });
  }

  // Memory that lives until the stream does; grows, never shrinks. Contents undefined.
  virtual Result<Matrix> scratch(const ScratchSlot& slot, int64_t rows, int64_t cols) = 0;
  // Rows inside such memory of one row, from element `at` on. A stream that keeps what products read in another type
  // has to know where they begin: `slot` stands for them, like a scratch of their own, until the memory is asked for
  // anew.
  virtual Matrix part(const ScratchSlot& /*slot*/, const Matrix& memory, int64_t at, int64_t rows, int64_t cols) {
    return {memory.data + at, rows, cols, cols};
  }
  // The same, for small arrays that operations write and host() jobs read.
  virtual Result<float*> shared(const ScratchSlot& slot, int64_t count) = 0;
  // Copies plain host data into stream memory (small tables: cos/sin). Valid until the next synchronize().
  virtual const void* stage(const void* data, size_t bytes) = 0;

  // Runs everything enqueued. An error when cancelled (kInterrupted) or when the device failed.
  virtual Status synchronize() = 0;
  // Downloads rows after a synchronize(). What fails here is known here: nobody takes `to` for logits then.
  virtual Status read(Matrix from, float* to) = 0;

  // Seconds spent so far by kind of operation, for statistics.
  struct Times {
    double matmul_s = 0;
    double attention_s = 0;
    double profile_s = 0;  // extremes, mid-ranges, scores, entropy
    double plan_s = 0;     // choosing blocks, host jobs
    double other_s = 0;
    double wait_s = 0;  // for other streams' work on the same cores; in none of the others
  };
  virtual Times times() const = 0;
};

// What a stream's own memory depends on (Backend::stream_room).
struct PromptShape {
  int64_t chunk = 0;         // tokens
  int64_t piece = 0;         // of them, that the feed-forward reads at once
  int64_t angles = 0;        // of a token, over all ropes
  int64_t heads = 0;         // kv_heads, over all layers
  int64_t pages = 0;         // of the cache behind the prompt
  int64_t positions = 0;     // of the cache, over all heads, that are listed one by one
  int64_t widest = 0;        // elements of the longest row that a product reads
  bool reads_parts = false;  // products read some of the rows that an operation has written
};

struct BackendOptions {
  int threads = 0;         // 0: all cores this process may use
  int prompt_threads = 0;  // of the cpu backend, for prompts; 0: as many
  std::string isa;         // EI_CPU_ISA; of the cuda backend: "portable" or "plain" attention kernels
  std::string dense;       // EI_DENSE: "", "ggml", or a name of dense_providers(); of the cuda backend: "fp8"
  // Bytes for packed weight copies; -1: the engine's choice, without an engine half of the free memory.
  int64_t packed_budget = -1;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // One line for `info` and the timings: device, and the kernels that attend over such a cache and multiply by these
  // matrices.
  virtual std::string describe(DType key_type, DType value_type, std::span<const HostTensor> matrices) const = 0;
  virtual DType default_kv_type() const = 0;
  virtual bool holds_q8() const { return false; }          // may a cache be of q8_0?
  virtual int64_t preferred_chunk() const { return 512; }  // prompt tokens per chunk
  // May rows of several sessions' generated tokens go through one stream, with cos and sin of any positions? Each then
  // comes out bit for bit as it would alone.
  virtual bool decodes_together() const { return false; }
  // An error, in one line, where such a cache is not to be had.
  virtual Status takes_cache(DType key_type, DType value_type, int32_t head_dim) const;
  // What operations on one layer of such a cache take beside it, with `row` elements of keys a token.
  virtual int64_t layer_room(DType /*key_type*/, int64_t /*row*/, int64_t /*tokens*/) const { return 0; }
  // What a stream takes to read such a prompt, beside the memory it is asked for and layer_room().
  virtual int64_t stream_room(const PromptShape& /*shape*/) const { return 0; }
  // What allocate(bytes) takes of its memory.
  virtual int64_t taken_bytes(int64_t bytes) const { return bytes; }
  // Can blocks be rated by the peaks of rows (pack_keys, peak_scores) in such a cache? Otherwise row_scores does it,
  // slowly, where that is there.
  virtual bool rates_peaks(const kernels::KeyIndexShape& shape) const { return shape.grid.block % 8 == 0; }
  virtual std::string_view rated_blocks() const { return "blocks of a multiple of 8 tokens"; }  // for a message
  virtual bool scores_rows() const { return true; }
  // What a multiply-add of a rating costs, in those of eight bits beside products in bf16, for which methods weigh the
  // two against each other.
  virtual double rating_cost() const { return 1; }
  // `segments`: so many are rated together, at most.
  virtual kernels::KeyIndexBytes key_index_bytes(const kernels::KeyIndexShape& shape, int64_t tokens,
                                                 int64_t segments) const;
  // Bytes free where allocate() takes from, when that is not the system's memory; -1: it is.
  virtual int64_t free_memory() const { return -1; }
  // What a tensor takes in that memory once it is loaded.
  virtual int64_t held_bytes(const HostTensor&) const { return 0; }

  // Large, page-aligned memory for weights and KV pages. Released memory goes back to the system.
  virtual Result<Buffer> allocate(size_t bytes) const = 0;
  virtual Status copy_in(void* to, const void* from, size_t bytes) const = 0;      // host -> backend
  virtual Status copy_out(void* to, const void* from, size_t bytes) const = 0;     // backend -> host
  virtual Status copy_within(void* to, const void* from, size_t bytes) const = 0;  // backend -> backend, no overlap
  // Gives the physical memory of a page-aligned range back while keeping the addresses.
  virtual void discard(void* data, size_t bytes) const = 0;

  // KV pages. Their inner layout is the backend's own, so it alone moves their slots; the plain one unless it says
  // otherwise. Hosts see keys and values as plain rows. Each is done when it returns.
  virtual KvPageLayout page_layout(const KvPageShape& shape) const { return plain_page(shape); }
  virtual Status move_slots(const KvPageShape& shape, std::span<const KvMove> moves) const;  // no page in both roles
  // The keys and the values of the first `count` slots, out of a page or into it; either may be null.
  virtual Status read_slots(const KvPageShape& shape, const void* page, int64_t count, void* keys, void* values) const;
  virtual Status write_slots(const KvPageShape& shape, void* page, int64_t count, const void* keys,
                             const void* values) const;
  // Done when it returns.
  virtual Status keep_sums(const KeptSums& kept) const;

  // A matrix for matmul: the rows of all parts stacked (for example Q, K and V). Parts share `cols`.
  virtual Result<std::unique_ptr<Weight>> load_matrix(std::span<const HostTensor> parts, MatrixUse use) const = 0;
  // Memory that load_matrix would take for second forms of these matrices (packed copies), were they loaded now.
  virtual int64_t packed_bytes(std::span<const HostTensor> matrices) const = 0;
  // A table for embed().
  virtual Result<std::unique_ptr<Weight>> load_table(const HostTensor& table) const = 0;
  // A vector (norm gains, biases), stacked from its parts, kept in f32.
  virtual Result<std::unique_ptr<Weight>> load_vector(std::span<const HostTensor> parts) const = 0;

  virtual Result<std::unique_ptr<Stream>> new_stream(const CancelToken* cancel) const = 0;
};

// The registry: every backend of this build by name ("cpu", "reference", ...).
struct BackendEntry {
  std::string_view name;
  std::string_view summary;
  Result<std::unique_ptr<Backend>> (*create)(const BackendOptions& options);
  Status (*usable)();  // an error where this machine has not the device
};
std::span<const BackendEntry> backends();
Result<std::unique_ptr<Backend>> create_backend(std::string_view name, const BackendOptions& options);

}  // namespace ei
