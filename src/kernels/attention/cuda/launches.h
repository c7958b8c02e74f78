// What attention_cuda.cu launches: one function for every file of kernels, and a file for every head_dim. Returned are
// CUDA's error codes.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/cuda/decode_work.cuh"
#include "kernels/attention/cuda/prefill_work.cuh"

namespace ei::kernels::cuda {

// `item_rows`: what the kernel takes at a time; see kRows of its configuration.
PrefillArgs prefill_args(const PrefillParams& params, int item_rows);

// Rows of an item of the Hopper kernel of a head_dim.
constexpr int hopper_item_rows(int head_dim) { return head_dim == 64 ? 192 : 128; }
inline constexpr int kPortableItemRows = 128;

// Hopper's.
cudaError_t prefill_64_sm90a(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream);
cudaError_t prefill_96_sm90a(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream);
cudaError_t prefill_128_sm90a(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream);
cudaError_t prefill_256_sm90a(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream);
// The portable set's.
cudaError_t prefill_64_sm80(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream);
cudaError_t prefill_96_sm80(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream);
cudaError_t prefill_128_sm80(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream);
cudaError_t prefill_256_sm80(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream);
// Both sets'.
cudaError_t decode_64(const DecodeArgs& args, DType kv_type, int ctas, cudaStream_t stream);
cudaError_t decode_96(const DecodeArgs& args, DType kv_type, int ctas, cudaStream_t stream);
cudaError_t decode_128(const DecodeArgs& args, DType kv_type, int ctas, cudaStream_t stream);
cudaError_t decode_256(const DecodeArgs& args, DType kv_type, int ctas, cudaStream_t stream);

}  // namespace ei::kernels::cuda
