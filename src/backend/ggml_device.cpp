#include "backend/ggml_device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>

#include "backend/host_memory.h"
#include "base/clock.h"
#include "base/cores.h"

namespace ei {

namespace {

// Looks a function of the CPU backend up by name; the signature is the caller's to know (ggml-cpu.h).
template <typename Function>
Function* procedure(ggml_backend_reg_t registry, const char* name) {
  return reinterpret_cast<Function*>(ggml_backend_reg_get_proc_address(registry, name));
}

bool raised(const CancelToken* token) { return token != nullptr && token->cancelled(); }

bool stops(void* watch) {
  const auto& self = *static_cast<const GgmlDevice::Watch*>(watch);
  return raised(self.cancel) || raised(self.broken);
}

// About a layer: after each the threads may be fewer or more.
constexpr int kPieceNodes = 16;

constexpr double kLookPause = 0.05;  // seconds without a graph: others may have come

constexpr size_t kVariantBytes = size_t{8} << 20;  // more than any of ggml's libraries takes

// How long a caller that waits for its turn may not notice that it was cancelled.
constexpr std::chrono::milliseconds kGlance{20};

bool lies_in_amx(const ggml_tensor& weight) {
  return weight.buffer != nullptr && std::string_view(ggml_backend_buffer_name(weight.buffer)) == "AMX";
}

// ggml aborts when a thread of its pool cannot be started, so as many are started here first.
Status rehearse(int threads) {
  std::vector<std::thread> others;
  std::promise<void> all_there;
  const std::shared_future<void> end = all_there.get_future().share();
  Status status;
  try {
    others.reserve(static_cast<size_t>(threads));
    for (int i = 1; i < threads; ++i) others.emplace_back([end] { end.wait(); });
  } catch (const std::system_error& error) {
    status = make_error(ErrorKind::kMemory, "could not start %d threads (%s); lower --threads", threads,
                        error.code().message().c_str());
  }
  all_there.set_value();
  for (std::thread& other : others) other.join();
  return status;
}

// The buffer type of AMX prints when it gets no memory, so as much is taken and given back first.
ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t bytes) {
  constexpr size_t kSlack = size_t{64} << 10;              // alignment and the buffer's own parts
  void* volatile rehearsal = std::malloc(bytes + kSlack);  // or compilers would leave the pair out
  if (rehearsal == nullptr) return nullptr;
  std::free(rehearsal);
  return ggml_backend_buft_alloc_buffer(type, bytes);
}

Slabs::Slab new_slab(ggml_backend_buffer_type_t type, size_t bytes) {
  // What several tensors share begins on a huge page; what lies in front of it is never touched.
  const size_t lead = bytes == Slabs::kSlabBytes ? kHugePage : 0;
  const std::shared_ptr<ggml_backend_buffer> buffer(allocate(type, bytes + lead), ggml_backend_buffer_free);
  if (buffer == nullptr) return {};
  auto* data = static_cast<std::byte*>(ggml_backend_buffer_get_base(buffer.get()));
  if (lead > 0) data += to_next_huge_page(data);
  prefer_huge_pages(data, bytes);
  return {buffer, data};
}

}  // namespace

Result<std::unique_ptr<GgmlDevice>> GgmlDevice::create(int generation_threads, int prompt_threads) {
  if (prompt_threads == 0) prompt_threads = generation_threads;
  const int threads = std::max(generation_threads, prompt_threads);
  ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) {
    ggml_backend_load_all();
    device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  }
  if (device == nullptr) {
    const Result<Buffer> room = allocate_host(kVariantBytes);
    if (!room.ok()) return room.error();  // a variant that did not fit into memory is not found either
    return make_error(ErrorKind::kDevice, "ggml found no CPU variant for this machine");
  }
  if (std::min(generation_threads, prompt_threads) < 1 || threads > GGML_MAX_N_THREADS) {
    return make_error(ErrorKind::kUsage, "threads must be between 1 and %d, not %d", GGML_MAX_N_THREADS, threads);
  }
  std::unique_ptr<GgmlDevice> self(new GgmlDevice());
  self->threads_ = threads;
  self->workers_ = WorkerCount(generation_threads);
  self->spare_ = SpareCores(prompt_threads);
  self->owns_cores_ = threads > 1 && usable_cores() == static_cast<int>(std::thread::hardware_concurrency());
  self->device_ = device;
  self->backend_ = ggml_backend_dev_init(device, nullptr);
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(device);
  auto* new_pool = procedure<ggml_threadpool*(ggml_threadpool_params*)>(registry, "ggml_threadpool_new");
  self->set_pool_ = procedure<void(ggml_backend_t, ggml_threadpool*)>(registry, "ggml_backend_cpu_set_threadpool");
  self->set_threads_ = procedure<void(ggml_backend_t, int)>(registry, "ggml_backend_set_n_threads");
  auto* extra_types =
      procedure<ggml_backend_buffer_type_t*(ggml_backend_dev_t)>(registry, "ggml_backend_dev_get_extra_bufts");
  self->free_pool_ = procedure<void(ggml_threadpool*)>(registry, "ggml_threadpool_free");
  self->set_abort_ =
      procedure<void(ggml_backend_t, ggml_abort_callback, void*)>(registry, "ggml_backend_set_abort_callback");
  if (self->backend_ == nullptr || new_pool == nullptr || self->set_pool_ == nullptr || self->set_threads_ == nullptr ||
      self->free_pool_ == nullptr || self->set_abort_ == nullptr) {
    return make_error(ErrorKind::kDevice, "ggml's CPU backend lacks a function this engine needs");
  }
  EI_RETURN_IF_ERROR(rehearse(threads));
  ggml_threadpool_params params = ggml_threadpool_params_default(threads);
  self->pool_ = new_pool(&params);
  if (self->pool_ == nullptr) return make_error(ErrorKind::kDevice, "could not start %d threads", threads);
  ggml_threadpool_params lonely = ggml_threadpool_params_default(1);
  self->alone_ = new_pool(&lonely);
  if (self->alone_ == nullptr) return make_error(ErrorKind::kMemory, "out of memory");
  self->employ(threads);
  self->piece_memory_ = ggml_init({ggml_graph_overhead_custom(kPieceNodes, /*grads=*/false) + 4096, nullptr, true});
  if (self->piece_memory_ == nullptr) return make_error(ErrorKind::kMemory, "out of memory");
  self->piece_ = ggml_new_graph_custom(self->piece_memory_, kPieceNodes, /*grads=*/false);
  if (extra_types != nullptr) {
    for (ggml_backend_buffer_type_t* type = extra_types(device); type != nullptr && *type != nullptr; ++type) {
      self->extra_types_.push_back(*type);
      self->slabs_.try_emplace(*type, [type = *type](size_t bytes) { return new_slab(type, bytes); });
    }
  }
  return self;
}

GgmlDevice::~GgmlDevice() {
  if (backend_ != nullptr && !lost_) ggml_backend_free(backend_);
  if (pool_ != nullptr) free_pool_(pool_);
  if (alone_ != nullptr) free_pool_(alone_);
  if (piece_memory_ != nullptr) ggml_free(piece_memory_);
}

// A condition and not a timed mutex: thread sanitizers do not see the lock of the latter.
bool GgmlDevice::take_turn(const Watch& watch) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (busy_ && !raised(watch.cancel)) turn_ended_.wait_for(lock, kGlance);
  if (raised(watch.cancel)) return false;
  busy_ = true;
  return true;
}

void GgmlDevice::end_turn() {
  {
    const std::scoped_lock lock(mutex_);
    busy_ = false;
  }
  turn_ended_.notify_one();
}

void GgmlDevice::employ(int threads) {
  if (employed_ == threads) return;
  // The pool that is left goes to sleep instead of looking out for work.
  set_pool_(backend_, threads > 1 ? pool_ : alone_);
  set_threads_(backend_, threads);
  employed_ = threads;
}

// What is known of others before our threads have run beside them: what the system counts, where all of its cores are
// ours to use, and behind a prompt what the prompt has found. A first job that had to find it out itself would wait for
// a core at every barrier.
void GgmlDevice::look_around(bool brief) {
  const double now = now_s();
  const bool ended = brief ? workers_.guess_ended(now) : spare_.guess_ended(now);
  if (owns_cores_ && (now - ended_s_ > kLookPause || ended)) {
    const int idle = idle_cores();
    spare_.expect(now, idle);
    workers_.expect(now, idle);
  } else if (brief && !was_brief_) {
    workers_.expect(now, spare_.left(now));
  }
  was_brief_ = brief;
}

ggml_status GgmlDevice::run(ggml_cgraph* graph, bool brief) {
  look_around(brief);
  const ggml_status status = brief ? run_brief(graph) : run_pieces(graph);
  ended_s_ = now_s();
  return status;
}

ggml_status GgmlDevice::run_brief(ggml_cgraph* graph) {
  employ(workers_.begin(now_s(), process_cpu_s()));
  const ggml_status status = ggml_backend_graph_compute(backend_, graph);
  workers_.end(now_s(), process_cpu_s());
  return status;
}

// Nodes run in their order and know nothing of each other, so any run of them is a graph.
ggml_status GgmlDevice::run_pieces(ggml_cgraph* graph) {
  ggml_status status = GGML_STATUS_SUCCESS;
  const int nodes = ggml_graph_n_nodes(graph);
  for (int first = 0; first < nodes && status == GGML_STATUS_SUCCESS; first += kPieceNodes) {
    ggml_graph_clear(piece_);
    for (int i = first; i < std::min(nodes, first + kPieceNodes); ++i)
      ggml_graph_add_node(piece_, ggml_graph_node(graph, i));
    employ(spare_.begin(now_s(), process_cpu_s()));
    status = ggml_backend_graph_compute(backend_, piece_);
    spare_.end(now_s(), process_cpu_s());
  }
  return status;
}

Status GgmlDevice::compute(ggml_cgraph* graph, Watch& watch) {
  const double start = now_s();
  const bool mine = take_turn(watch);
  watch.waited_s = now_s() - start;
  if (!mine) return make_error(ErrorKind::kInterrupted, "interrupted");
  const std::unique_ptr<GgmlDevice, void (*)(GgmlDevice*)> turn(this, [](GgmlDevice* self) { self->end_turn(); });
  set_abort_(backend_, stops, &watch);
  ggml_status status = GGML_STATUS_ALLOC_FAILED;
  try {
    if (!lost_) status = run(graph, watch.brief);
  } catch (const std::bad_alloc&) {
    lost_ = true;
  }
  if (raised(watch.cancel)) return make_error(ErrorKind::kInterrupted, "interrupted");
  if (status == GGML_STATUS_ALLOC_FAILED || raised(watch.broken)) {
    return make_error(ErrorKind::kMemory,
                      "out of memory in the forward pass; shorten the prompt or lower --batch-size");
  }
  if (status != GGML_STATUS_SUCCESS) return make_error(ErrorKind::kDevice, "the CPU backend failed");
  return {};
}

bool GgmlDevice::built_for(std::string_view feature) const {
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(device_);
  auto* features = procedure<ggml_backend_feature*(ggml_backend_reg_t)>(registry, "ggml_backend_get_features");
  if (features == nullptr) return false;
  for (const ggml_backend_feature* known = features(registry); known->name != nullptr; ++known)
    if (known->name == feature) return true;
  return false;
}

ggml_backend_buffer_type_t GgmlDevice::repacked_type(ggml_type type, int64_t rows, int64_t cols) const {
  ggml_init_params params{ggml_tensor_overhead() * 4, nullptr, /*no_alloc=*/true};
  ggml_context* context = ggml_init(params);
  ggml_tensor* weight = ggml_new_tensor_2d(context, type, cols, rows);
  ggml_tensor* x = ggml_new_tensor_2d(context, GGML_TYPE_F32, cols, 512);
  ggml_tensor* product = ggml_mul_mat(context, weight, x);
  ggml_backend_buffer_type_t found = nullptr;
  for (ggml_backend_buffer_type_t candidate : extra_types_) {
    // An empty buffer of that type is enough for the device to say whether it would take the product.
    ggml_backend_buffer_t probe = ggml_backend_buft_alloc_buffer(candidate, 0);
    weight->buffer = probe;
    const bool takes = probe != nullptr && ggml_backend_dev_supports_op(device_, product);
    weight->buffer = nullptr;
    if (probe != nullptr) ggml_backend_buffer_free(probe);
    if (takes) {
      found = candidate;
      break;
    }
  }
  ggml_free(context);
  return found;
}

GgmlDevice::Place GgmlDevice::place(ggml_backend_buffer_type_t type, size_t bytes) const {
  Slabs::Slab found = slabs_.at(type).place(bytes, ggml_backend_buft_get_alignment(type));
  return {std::static_pointer_cast<ggml_backend_buffer>(std::move(found.owner)), found.data};
}

bool GgmlDevice::rows_lie_together(const ggml_tensor& weight) { return lies_in_amx(weight); }

// AMX weights are rearranged by a thread for each core of the machine; when one cannot be started, the program ends.
bool GgmlDevice::fill(ggml_tensor* tensor, const void* data) {
  if (lies_in_amx(*tensor) && !rehearse(static_cast<int>(std::thread::hardware_concurrency()) + 1).ok()) return false;
  ggml_backend_tensor_set(tensor, data, 0, ggml_nbytes(tensor));
  return true;
}

}  // namespace ei
