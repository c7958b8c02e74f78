// What the keys of a layer say about their slots by themselves, without any query. Made where the stream can, otherwise
// on the host, page by page: keys are read once or twice, which takes little next to the prompt that wrote them.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "policy/kv/method.h"

namespace ei::kv {

// [kv_heads, stride]: of every slot the length of its key, or the cosine between its key and the mean of all normalised
// keys of its kv_head (of a key of zeros 0).
Result<std::vector<float>> measure_keys(const Backend& backend, const KvView& view, policy::KeyMeasure measure,
                                        int64_t stride);
// By a stream that measures slots; runs what was recorded before.
Result<std::vector<float>> measure_keys(Stream& stream, const KvView& view, policy::KeyMeasure measure, int64_t stride);
// Enqueued there, with the other sign, into stream memory.
void score_keys(Stream& stream, const KvView& view, policy::KeyMeasure measure, Matrix scores);

}  // namespace ei::kv
