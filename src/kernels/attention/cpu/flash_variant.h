// Makes an AttentionVariant out of a prefill ISA, a decode ISA and what unpacks q8_0 for them (contracts in flash.h).
#pragma once

#include "kernels/attention/cpu/flash.h"
#include "kernels/attention/cpu/flash_decode.h"
#include "kernels/attention/cpu/flash_prefill.h"
#include "kernels/simd/q8_rows.h"

namespace ei::kernels {

template <typename PrefillIsa, typename DecodeIsa, typename Unpack = Q8ToFloats>
struct FlashVariant {
  static size_t scratch_bytes(const AttentionParams& params, int workers) {
    return kScratchHeader + (is_decode(params) ? Decode<DecodeIsa, Unpack>::scratch_bytes(params, workers)
                                               : Prefill<PrefillIsa, Unpack>::scratch_bytes(params, workers));
  }
  static void run(const AttentionParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    if (params.tokens == 0) return;
    std::byte* behind_header = static_cast<std::byte*>(scratch) + kScratchHeader;
    if (is_decode(params)) {
      Decode<DecodeIsa, Unpack>::run(params, scratch, behind_header, queue, worker);
    } else {
      Prefill<PrefillIsa, Unpack>::run(params, behind_header, queue, worker);
    }
  }
};

}  // namespace ei::kernels
