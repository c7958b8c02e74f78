#include "backend/cuda/cuda_stream.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "backend/cuda/cuda_memory.h"
#include "base/check.h"
#include "kernels/cuda/fetch.h"
#include "kernels/rowwise/cuda/rowwise_cuda.h"

namespace ei {

using kernels::cuda::cuda_status;
using kernels::cuda::DeviceRows;

Result<std::unique_ptr<CudaStream>> CudaStream::create(const CudaDevice& device, bool narrow,
                                                       const CancelToken* cancel) {
  std::unique_ptr<CudaStream> self(new CudaStream(device, narrow, cancel));
  EI_RETURN_IF_ERROR(cuda_status(cudaStreamCreateWithFlags(&self->stream_, cudaStreamNonBlocking), "making a stream"));
  for (cudaEvent_t& event : self->pace_)
    EI_RETURN_IF_ERROR(cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
                                   "making a stream"));
  return self;
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) {
    cudaStreamSynchronize(stream_);  // nothing may read what goes now
    cudaStreamDestroy(stream_);
  }
  for (cudaEvent_t event : pace_)
    if (event != nullptr) cudaEventDestroy(event);
}

// A cancellation holds until the next synchronize(): operations between may lack what those before left out.
bool CudaStream::open() {
  begun_ = true;
  stopped_ = stopped_ || cancelled();
  if (!failed_.ok() || stopped_) held_ = {};
  run_held();
  return failed_.ok() && !stopped_;
}

void CudaStream::note(Status status) {
  if (failed_.ok() && !status.ok()) failed_ = std::move(status);
}

void CudaStream::keep_pace() {
  cudaEvent_t event = pace_[paced_++ % pace_.size()];
  note(cuda_status(cudaEventSynchronize(event), "forward pass"));  // of four layers ago
  note(cuda_status(cudaEventRecord(event, stream_), "forward pass"));
}

void CudaStream::enter(Phase phase, int64_t tokens) {
  if (phase == Phase::kPrompt) prompt_tokens_ = tokens;
  if (phase == phase_) return;
  const bool begun = begun_;
  open();
  run_recorded();
  begun_ = begun;
  phase_ = phase;
}

Status CudaStream::send(const CudaStaging::Piece& piece) {
  adjacent_ = false;
  return together() ? Status{} : kernels::cuda::launch_fetch(piece.host, piece.device, piece.bytes, stream_);
}

void CudaStream::run_recorded() {
  if (graph_.empty()) return;
  if (!open()) return graph_.forget();
  note(staging_.send_all(stream_));
  if (failed_.ok()) note(graph_.run(stream_));
  graph_.forget();
}

CudaStream::Scratch* CudaStream::slot_of(const float* data) {
  for (auto& [number, slot] : scratch_) {
    if (slot.data != nullptr && data >= slot.data && data < slot.data + slot.rows * slot.cols) return &slot;
  }
  return nullptr;
}

DeviceRows CudaStream::rows_of(Matrix matrix) {
  const Scratch* slot = slot_of(matrix.data);
  if (slot == nullptr || !slot->narrow) return {matrix.data, DType::kF32, matrix.rows, matrix.cols, matrix.stride};
  const int64_t at = matrix.data - slot->data;
  const int64_t row = at / slot->cols;
  const int64_t column = at % slot->cols;
  auto* data = reinterpret_cast<std::byte*>(slot->data) + (row * slot->cols) * 4 + column * 2;
  return {data, DType::kBF16, matrix.rows, matrix.cols, 2 * matrix.stride};
}

DeviceRows CudaStream::wide(Matrix matrix) {
  if (Scratch* slot = slot_of(matrix.data); slot != nullptr && slot->narrow) {
    slot->narrow = false;
    if (matrix.rows < slot->rows || matrix.cols < slot->cols) {
      float* data = slot->data;
      const int64_t rows = slot->rows;
      const int64_t cols = slot->cols;
      submit([=, this] { return kernels::cuda::launch_widen_rows(data, rows, cols, cols, stream_); }, data, rows, cols);
    }
  }
  return {matrix.data, DType::kF32, matrix.rows, matrix.cols, matrix.stride};
}

DeviceRows CudaStream::for_products(Matrix matrix) {
  Scratch* slot = slot_of(matrix.data);
  if (narrow_ && slot != nullptr && matrix.rows == slot->rows && matrix.cols == slot->cols) slot->narrow = true;
  return rows_of(matrix);
}

void CudaStream::embed(const Weight& table, std::span<const int32_t> tokens, float scale, Matrix out) {
  const auto* ids = static_cast<const int32_t*>(stage(tokens.data(), tokens.size_bytes()));
  if (!open()) return;
  const DeviceRows from = on_device(table).device();
  const DeviceRows to = wide(out);
  submit([=, this] { return kernels::cuda::launch_embed(from, ids, scale, to, stream_); }, from, ids, scale, to);
}

void CudaStream::rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) {
  if (!open()) return;
  const DeviceRows from = rows_of(x);
  const DeviceRows to = x.data == y.data ? from : for_products(y);
  const float* gains = on_device(gain).vector();
  submit([=, this] { return kernels::cuda::launch_rms_norm(from, gains, eps, to, stream_); }, from, gains, eps, to);
}

void CudaStream::add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) {
  HeldProduct product;
  if (held_.y.data == x.data && held_.y.rows == x.rows && held_.y.cols == x.cols) product = std::exchange(held_, {});
  if (!open()) return;
  const DeviceRows to = gain != nullptr ? for_products(y) : DeviceRows{};
  const DeviceRows total = wide(sum);
  const float* gains = vector_of(gain);
  if (product.weight != nullptr) {
    add_held(product, total);
    if (gain == nullptr) return;
    submit([=, this] { return kernels::cuda::launch_rms_norm(total, gains, eps, to, stream_); }, total, gains, eps, to);
    return;
  }
  const DeviceRows from = rows_of(x);
  submit([=, this] { return kernels::cuda::launch_add_rms_norm(from, total, gains, eps, to, stream_); }, from, total,
         gains, eps, to);
}

void CudaStream::activate(Activation kind, Matrix gate, Matrix up, Matrix out) {
  if (!open()) return;
  const bool gelu = kind == Activation::kGeluTanh;
  const DeviceRows a = rows_of(gate);
  const DeviceRows b = rows_of(up);
  const DeviceRows to = for_products(out);
  submit([=, this] { return kernels::cuda::launch_activate(gelu, a, b, to, stream_); }, int32_t{gelu}, a, b, to);
}

void CudaStream::softcap(Matrix x, float cap) {
  if (!open()) return;
  const DeviceRows rows = wide(x);
  submit([=, this] { return kernels::cuda::launch_softcap(rows, cap, stream_); }, rows, cap);
}

void CudaStream::copy(Matrix from, Matrix to) {
  if (!open()) return;
  const DeviceRows source = rows_of(from);
  const DeviceRows target = wide(to);
  submit([=, this] { return kernels::cuda::launch_copy_rows(source, target, stream_); }, source, target);
}

void CudaStream::host(std::function<void()> job) {
  if (!open()) return;
  if (together()) graph_.refuse();
  const bool timed = phase_ == Phase::kPrompt;
  if (timed) begin_clock(&times_.plan_s);
  submit([this, job = std::move(job)] { return jobs_.enqueue([this, job] { run_job(job); }, stream_); });
  if (timed) end_clock();
}

// On a thread of its own: jobs touch pinned and ordinary memory only.
void CudaStream::run_job(const std::function<void()>& job) {
  if (cancelled() || job_failed_) return;
  try {
    job();
  } catch (const std::bad_alloc&) {
    job_failed_ = true;
  }
}

// At once where nothing is enqueued: then it need not be there beside what comes in its place.
void CudaStream::release(Buffer& memory) {
  if (memory.bytes() == 0) return;
  const auto* begin = static_cast<const float*>(memory.data());
  const float* end = begin + memory.bytes() / sizeof(float);
  for (auto& [number, slot] : scratch_)
    if (slot.data >= begin && slot.data < end) slot.data = nullptr;
  if (begun_) retired_.push_back(std::move(memory));
  memory = Buffer();
}

Result<Matrix> CudaStream::scratch(const ScratchSlot& slot, int64_t rows, int64_t cols) {
  const auto bytes = static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float);
  Scratch& scratch = scratch_[slot.id()];
  if (scratch.memory.bytes() < bytes) {
    release(scratch.memory);
    EI_ASSIGN_OR_RETURN(scratch.memory, allocate_device(bytes));
  }
  scratch.data = static_cast<float*>(scratch.memory.data());
  scratch.rows = rows;
  scratch.cols = cols;
  scratch.narrow = false;
  return Matrix{scratch.data, rows, cols, cols};
}

Matrix CudaStream::part(const ScratchSlot& slot, const Matrix& memory, int64_t at, int64_t rows, int64_t cols) {
  for (auto& [number, whole] : scratch_)
    if (whole.memory.data() == memory.data) whole.data = nullptr;
  Scratch& part = scratch_[slot.id()];
  part.data = memory.data + at;
  part.rows = rows;
  part.cols = cols;
  part.narrow = false;
  return Matrix{part.data, rows, cols, cols};
}

Result<float*> CudaStream::shared(const ScratchSlot& slot, int64_t count) {
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  Buffer& buffer = shared_[slot.id()];
  if (buffer.bytes() < bytes) {
    EI_ASSIGN_OR_RETURN(Buffer larger, allocate_pinned(bytes));
    if (buffer.bytes() > 0) retired_.push_back(std::move(buffer));
    buffer = std::move(larger);
  }
  return static_cast<float*>(buffer.data());
}

const void* CudaStream::stage(const void* data, size_t bytes) {
  if (!open()) return nullptr;
  Result<CudaStaging::Piece> piece = staging_.take(bytes);
  if (!piece.ok()) {
    note(piece.error());
    return nullptr;
  }
  std::memcpy(piece->host, data, bytes);
  note(send(*piece));
  return piece->device;
}

Status CudaStream::synchronize() {
  open();
  run_recorded();
  Status status = cuda_status(cudaStreamSynchronize(stream_), "forward pass");
  clock_.collect();
  jobs_.settle();
  staging_.reset();
  retired_.clear();
  for (CudaRoom* room : {&converted_, &decoded_, &plan_, &plan_order_, &prefill_room_, &decode_room_, &rating_room_,
                         &chosen_room_, &wide_room_})
    room->release_retired();
  chosen_ = {};
  sent_heads_ = {};
  // Large and seldom needed, but for sums of generated queries over a small cache.
  constexpr size_t kKeptRoom = size_t{16} << 20;
  if (window_room_.device_bytes() > kKeptRoom) window_room_ = CudaRoom();
  window_room_.release_retired();
  for (auto& [rope, angles] : angles_) {
    angles.memory.release_retired();
    angles.tokens = 0;
  }
  if (!failed_.ok()) status = failed_;
  failed_ = {};
  begun_ = false;
  if (job_failed_.exchange(false) && status.ok())
    status = make_error(ErrorKind::kMemory, "out of memory in the forward pass; shorten the prompt");
  const bool stopped = stopped_ || cancelled();
  stopped_ = false;
  if (stopped) return make_error(ErrorKind::kInterrupted, "interrupted");
  return status;
}

Status CudaStream::read(Matrix from, float* to) {
  open();
  run_recorded();
  const DeviceRows rows = rows_of(from);
  const auto width = static_cast<size_t>(from.cols) * dtype_bytes(rows.type);
  const auto pitch = static_cast<size_t>(rows.stride) * dtype_bytes(rows.type);
  const auto count = static_cast<size_t>(from.rows * from.cols);
  // Through pinned memory: what goes to ordinary memory waits for the driver's own copies, piece by piece. Where there
  // is no more of it the rows are there all the same, and a token that was computed is not lost.
  const Result<void*> pinned = read_room_.pinned(count * dtype_bytes(rows.type));
  std::vector<std::byte> ordinary(pinned.ok() ? 0 : count * dtype_bytes(rows.type));
  void* const room = pinned.ok() ? *pinned : ordinary.data();
  EI_RETURN_IF_ERROR(cuda_status(cudaMemcpy2DAsync(room, width, rows.data, pitch, width, static_cast<size_t>(from.rows),
                                                   cudaMemcpyDeviceToHost, stream_),
                                 "reading"));
  EI_RETURN_IF_ERROR(cuda_status(cudaStreamSynchronize(stream_), "reading"));
  read_room_.release_retired();
  if (rows.type == DType::kF32) {
    std::memcpy(to, room, count * sizeof(float));
  } else {
    for (size_t i = 0; i < count; ++i) to[i] = bf16_to_f32(static_cast<const uint16_t*>(room)[i]);
  }
  return {};
}

}  // namespace ei
