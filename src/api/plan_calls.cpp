// What a sparse prefill measured and chose.
#include "api/calls.h"
#include "api/handles.h"
#include "report/layer_plan.h"
#include "sparse/planner.h"

using namespace ei;       // NOLINT: the functions of a C interface have no namespace
using namespace ei::api;  // NOLINT

namespace {
Status check_layer(const EiSession* session, int32_t layer) {
  EI_RETURN_IF_ERROR(need(session, "session"));
  const int32_t layers = session->engine->config().layers;
  if (layer >= 0 && layer < layers) return {};
  return make_error(ErrorKind::kUsage, "there is no layer %d: the model has %d", layer, layers);
}
}  // namespace

EiStatus ei_plan_shape(EiSession* session, int32_t layer, int64_t* segments, int64_t* segment_tokens,
                       int64_t* block_tokens) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(check_layer(session, layer));
    const std::optional<report::LayerPlan> plan = report::layer_plan(*session->session, layer);
    const sparse::Planner* planner = session->session->planner();
    if (segments != nullptr) *segments = plan ? static_cast<int64_t>(plan->segments()) : 0;
    if (segment_tokens != nullptr) *segment_tokens = planner == nullptr ? 0 : planner->options().segment;
    if (block_tokens != nullptr) *block_tokens = planner == nullptr ? 0 : planner->options().block;
    return {};
  });
}

EiStatus ei_plan(EiSession* session, int32_t layer, int64_t index, int32_t kv_head, EiHeadPlan* plan) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(check_layer(session, layer));
    const std::optional<report::LayerPlan> made = report::layer_plan(*session->session, layer);
    const auto segments = made ? static_cast<int64_t>(made->segments()) : 0;
    const int32_t kv_heads = session->engine->config().kv_heads;
    if (index < 0 || index >= segments || kv_head < 0 || kv_head >= kv_heads) {
      return make_error(ErrorKind::kUsage, "layer %d has %lld planned segments and %d kv_heads, not segment %lld of %d",
                        layer, static_cast<long long>(segments), kv_heads, static_cast<long long>(index), kv_head);
    }
    const auto i = static_cast<size_t>(index);
    const report::HeadPlan head = made->head(i, static_cast<size_t>(kv_head));
    EiHeadPlan own{};
    own.segment = made->segment(i);
    own.dense = made->dense(i) ? 1 : 0;
    own.entropy = head.entropy;
    own.row_entropy = head.row_entropy;
    own.far = head.far;
    own.sink = head.sink;
    own.budget = head.budget;
    own.read = head.read;
    own.blocks = head.blocks.data();
    own.num_blocks = head.blocks.size();
    return write_struct(own, plan, "EiHeadPlan");
  });
}
