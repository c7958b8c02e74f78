#include "backend/cpu_stream.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "backend/host_memory.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file_pages.h"

namespace ei {

namespace {

constexpr size_t kLargeTable = size_t{32} << 20;

const CpuWeight& cpu(const Weight& weight) { return static_cast<const CpuWeight&>(weight); }
const float* gain_of(const Weight* weight) { return weight != nullptr ? cpu(*weight).vector.data() : nullptr; }

}  // namespace

CpuStream::CpuStream(GgmlDevice& device, const DenseProvider* dense, std::string isa, const CancelToken* cancel,
                     size_t most_nodes)
    : device_(device),
      dense_(dense),
      isa_(std::move(isa)),
      rowwise_(kernels::choose_rowwise(isa_)),
      few_q4_(kernels::choose_few_rows(kernels::FewRowsForm::kQ4_1, isa_)),
      few_q8_(kernels::choose_few_rows(kernels::FewRowsForm::kQ8_0, isa_)),
      few_interleaved_(kernels::choose_few_rows(kernels::FewRowsForm::kQ8Interleaved, isa_)),
      cancel_(cancel),
      most_nodes_(most_nodes) {
  const size_t bytes =
      ggml_tensor_overhead() * 2 * most_nodes + ggml_graph_overhead_custom(most_nodes, /*grads=*/false) + 4096;
  arena_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  context_ = ggml_init({bytes, arena_.get(), /*no_alloc=*/true});
}

CpuStream::~CpuStream() { ggml_free(context_); }

void CpuStream::add_node(ggml_tensor* node) {
  if (graph_ == nullptr) graph_ = ggml_new_graph_custom(context_, most_nodes_, /*grads=*/false);
  if (static_cast<size_t>(ggml_graph_n_nodes(graph_)) >= most_nodes_) {
    if (failed_.ok()) failed_ = make_error(ErrorKind::kModel, "the model has too many layers of such size");
    return;
  }
  node->flags |= GGML_TENSOR_FLAG_COMPUTE;
  ggml_graph_add_node(graph_, node);
}

void CpuStream::run_op(ggml_tensor*, int index, int count, void* op) {
  const Op& self = *static_cast<const Op*>(op);
  if (self.broken->cancelled()) return;
  const double start = now_s();
  try {
    self.job(Worker{index, count});
  } catch (const std::bad_alloc&) {  // may not leave through ggml; the other workers finish their share
    self.broken->cancel();
  }
  if (index == 0) *self.seconds += now_s() - start;
}

void CpuStream::add(Job job, double* seconds) {
  if (!failed_.ok()) return;  // nothing of it will run
  ops_.push_back({std::move(job), seconds, &broken_});
  add_node(ggml_custom_4d(context_, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, run_op, GGML_N_TASKS_MAX, &ops_.back()));
}

void CpuStream::add_rows(int64_t rows, std::function<void(Range)> job) {
  add([rows, job = std::move(job)](Worker worker) { job(even_share(rows, worker)); }, &times_.other_s);
}

void CpuStream::embed(const Weight& table, std::span<const int32_t> tokens, float scale, Matrix out) {
  const auto* ids = static_cast<const int32_t*>(stage(tokens.data(), tokens.size_bytes()));
  const HostTensor& rows = cpu(table).table;
  const auto type = static_cast<ggml_type>(rows.type);
  const size_t row_bytes = ggml_row_size(type, rows.cols);
  const ggml_to_float_t to_float = ggml_get_type_traits(type)->to_float;
  // A prompt touches much of the table, which would stay in memory beside an output matrix made of it. (Where that one
  // is read in place, its pages come back with the next logits.) Given back row by row, since touching one may bring
  // two megabytes along.
  const bool released = phase_ == Phase::kPrompt && row_bytes * static_cast<size_t>(rows.rows) > kLargeTable;
  add_rows(out.rows, [=](Range range) {
    for (int64_t t = range.begin; t < range.end; ++t) {
      const auto* row = static_cast<const std::byte*>(rows.data) + static_cast<size_t>(ids[t]) * row_bytes;
      float* to = out.data + t * out.stride;
      if (type == GGML_TYPE_F32) {
        std::memcpy(to, row, row_bytes);
      } else {
        to_float(row, to, rows.cols);
      }
      if (scale != 1.0f) {
        for (int64_t i = 0; i < rows.cols; ++i) to[i] *= scale;
      }
      if (released) release_file_pages({row, row_bytes}, rows.mapping);
    }
  });
}

void* CpuStream::grow(Buffer& memory, size_t bytes) {
  if (memory.bytes() < bytes) {
    // With room to spare: a prompt that grows chunk by chunk would else fault in new pages each time.
    auto larger = allocate_host(std::max(bytes, memory.bytes() + memory.bytes() / 2));
    if (!larger.ok()) larger = allocate_host(bytes);
    if (!larger.ok()) {
      if (failed_.ok()) failed_ = larger.error();
      return nullptr;
    }
    retired_.push_back(std::move(memory));
    memory = std::move(larger).value();
  }
  return memory.data();
}

WorkQueue& CpuStream::new_queue() {
  WorkQueue& queue = queues_.emplace_back();
  queue.watch(cancel_);
  return queue;
}

void CpuStream::rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) {
  add_rows(x.rows, [=, this, values = gain_of(&gain)](Range rows) { rowwise_.rms_norm(x, values, eps, y, rows); });
}

void CpuStream::add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) {
  add_rows(x.rows,
           [=, this, values = gain_of(gain)](Range rows) { rowwise_.add_rms_norm(x, sum, values, eps, y, rows); });
}

void CpuStream::rotate_append(const RotateAppendParams& params) {
  add_rows(params.q.rows, [this, params](Range rows) {
    const int32_t head_dim = params.append.shape.head_dim;
    kernels::RotateHead rotate{
        .eps = params.norm_eps, .dims = params.rope.dims, .head_dim = head_dim, .interleaved = params.rope.interleaved};
    for (const auto& [matrix, norm] : {std::pair{params.q, params.q_norm}, std::pair{params.k, params.k_norm}}) {
      rotate.gain = gain_of(norm);
      for (int64_t t = rows.begin; t < rows.end; ++t) {
        rotate.cos = params.rope.cos + t * (params.rope.dims / 2);
        rotate.sin = params.rope.sin + t * (params.rope.dims / 2);
        for (int64_t first = 0; first < matrix.cols; first += head_dim) {
          rowwise_.rotate_head(rotate, matrix.data + t * matrix.stride + first);
        }
      }
    }
    append_rows(params, rows);
  });
}

void CpuStream::append_rows(const RotateAppendParams& params, Range rows) const {
  const KvPageShape& page = params.append.shape;
  for (const KvAppend::Run& run : params.append.runs) {
    const int64_t begin = std::max(rows.begin, run.token);
    const int64_t end = std::min(rows.end, run.token + run.count);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t slot = run.slot + t - run.token;
      const int64_t column = static_cast<int64_t>(run.kv_head) * page.head_dim;
      rowwise_.convert_row(params.k.data + t * params.k.stride + column, plain_key(page, run.page, slot), page.key_type,
                           page.head_dim);
      rowwise_.convert_row(params.v.data + t * params.v.stride + column, plain_value(page, run.page, slot),
                           page.value_type, page.head_dim);
    }
  }
}

void CpuStream::attention(const kernels::AttentionParams& wanted) { CpuStream::attention_each({&wanted, 1}); }

// One node for all: no worker waits for another between two calls.
void CpuStream::attention_each(std::span<const kernels::AttentionParams> calls) {
  struct Call {
    kernels::AttentionParams params;
    const kernels::AttentionVariant* variant = nullptr;
    size_t offset = 0;  // of its scratch
    WorkQueue* queue = nullptr;
  };
  constexpr size_t kAligned = 64;
  auto each = std::make_shared<std::vector<Call>>();
  size_t bytes = 0;
  for (const kernels::AttentionParams& wanted : calls) {
    Call call{.params = wanted, .offset = bytes, .queue = &new_queue()};
    call.params.prompt = phase_ == Phase::kPrompt;
    call.variant = kernels::choose_attention(wanted.kv.key_type, wanted.kv.value_type, isa_);
    EI_CHECK(call.variant != nullptr);
    bytes += (call.variant->scratch_bytes(call.params, device_.threads()) + kAligned - 1) / kAligned * kAligned;
    each->push_back(call);
  }
  auto* memory = static_cast<std::byte*>(grow(attention_scratch_, bytes));
  if (memory == nullptr) return;
  add(
      [memory, each](Worker worker) {
        if (worker.index > 0) return;
        for (const Call& call : *each) std::memset(memory + call.offset, 0, kernels::kScratchHeader);
      },
      &times_.other_s);
  add(
      [memory, each](Worker worker) {
        for (const Call& call : *each) call.variant->run(call.params, memory + call.offset, *call.queue, worker);
      },
      &times_.attention_s);
}

void CpuStream::activate(Activation kind, Matrix gate, Matrix up, Matrix out) {
  add_rows(gate.rows, [=, this](Range rows) {
    if (kind == Activation::kSilu) {
      rowwise_.silu_multiply(gate, up, out, rows);
    } else {
      rowwise_.gelu_multiply(gate, up, out, rows);
    }
  });
}

void CpuStream::softcap(Matrix x, float cap) {
  add_rows(x.rows, [=, this](Range rows) { rowwise_.softcap(x, cap, rows); });
}

void CpuStream::copy(Matrix from, Matrix to) {
  add_rows(from.rows, [=](Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      std::memcpy(to.data + row * to.stride, from.data + row * from.stride,
                  static_cast<size_t>(from.cols) * sizeof(float));
    }
  });
}

Result<Matrix> CpuStream::scratch(const ScratchSlot& slot, int64_t rows, int64_t cols) {
  const auto bytes = static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float);
  Buffer& buffer = scratch_[slot.id()];
  if (buffer.bytes() < bytes) {
    EI_ASSIGN_OR_RETURN(buffer, allocate_host(bytes));
  }
  return Matrix{static_cast<float*>(buffer.data()), rows, cols, cols};
}

const void* CpuStream::stage(const void* data, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  return staged_.emplace_back(first, first + bytes).data();
}

Status CpuStream::synchronize() {
  Status status = failed_;
  if (status.ok() && graph_ != nullptr) {
    const double start = now_s();
    const Times before = times_;
    GgmlDevice::Watch watch{.cancel = cancel_, .broken = &broken_, .brief = phase_ == Phase::kGeneration};
    status = device_.compute(graph_, watch);
    times_.wait_s += watch.waited_s;
    // ggml's products have no clock of their own: they are what is left.
    const double own = times_.attention_s - before.attention_s + times_.profile_s - before.profile_s + times_.plan_s -
                       before.plan_s + times_.other_s - before.other_s;
    times_.matmul_s += std::max(0.0, now_s() - start - watch.waited_s - own);
  }
  graph_ = nullptr;
  ops_.clear();
  queues_.clear();
  staged_.clear();
  retired_.clear();
  if (constexpr size_t kKeptRoom = size_t{1} << 20; window_room_.bytes() > kKeptRoom) window_room_ = Buffer();
  failed_ = {};
  broken_.reset();
  ggml_reset(context_);
  return status;
}

Status CpuStream::read(Matrix from, float* to) {
  for (int64_t row = 0; row < from.rows; ++row) {
    std::memcpy(to + row * from.cols, from.data + row * from.stride, static_cast<size_t>(from.cols) * sizeof(float));
  }
  return {};
}

}  // namespace ei
