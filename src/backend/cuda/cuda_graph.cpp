#include "backend/cuda/cuda_graph.h"

namespace ei {

using kernels::cuda::cuda_status;

CudaGraph::~CudaGraph() { drop(); }

void CudaGraph::append(const kernels::cuda::DeviceRows& rows) {
  append(rows.data);
  for (const int64_t fact : {static_cast<int64_t>(rows.type), rows.rows, rows.cols, rows.stride}) append(fact);
}

void CudaGraph::drop() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
}

void CudaGraph::forget() {
  jobs_.clear();
  key_.clear();
  repeatable_ = true;
}

Status CudaGraph::enqueue() {
  for (const Job& job : jobs_) EI_RETURN_IF_ERROR(job());
  return {};
}

Status CudaGraph::capture(cudaStream_t stream) {
  EI_RETURN_IF_ERROR(cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "recording"));
  const Status enqueued = enqueue();
  cudaGraph_t recorded = nullptr;
  const Status ended = cuda_status(cudaStreamEndCapture(stream, &recorded), "recording");
  EI_RETURN_IF_ERROR(enqueued);
  EI_RETURN_IF_ERROR(ended);
  const Status made = cuda_status(cudaGraphInstantiate(&graph_, recorded, 0), "recording");
  if (!made.ok()) graph_ = nullptr;
  cudaGraphDestroy(recorded);
  return made;
}

Status CudaGraph::run(cudaStream_t stream) {
  if (jobs_.empty()) return {};
  Status status;
  if (!repeatable_) {
    status = enqueue();
  } else if (key_ != last_key_) {  // the first time by itself: libraries load their kernels then
    drop();
    status = enqueue();
    last_key_ = key_;
  } else {
    if (graph_ == nullptr) status = capture(stream);
    if (status.ok()) status = cuda_status(cudaGraphLaunch(graph_, stream), "generating");
  }
  if (!status.ok()) {
    drop();
    last_key_.clear();
  }
  forget();
  return status;
}

}  // namespace ei
