// What a sparse method measured and chose, as numpy arrays.
#include <limits>

#include "core.h"

namespace ei_python {

using entropyinfer::Session;

namespace {
// {"entropy": float64 [kv_heads, segments], ...} of one layer, in the order of --dump-plan; empty where it read
// everything.
nb::dict layer_plan(const Session& session, int layer, int kv_heads) {
  const Session::PlanShape shape = taken(session.plan_shape(layer));
  nb::dict plan;
  if (shape.segments == 0) return plan;
  const auto segments = static_cast<size_t>(shape.segments);
  const auto heads = static_cast<size_t>(kv_heads);
  struct Field {
    const char* name;
    double EiHeadPlan::*value;
  };
  constexpr Field kFields[] = {{"entropy", &EiHeadPlan::entropy},
                               {"row_entropy", &EiHeadPlan::row_entropy},
                               {"far", &EiHeadPlan::far},
                               {"sink", &EiHeadPlan::sink},
                               {"budget", &EiHeadPlan::budget}};
  std::vector<EiHeadPlan> all;
  for (int head = 0; head < kv_heads; ++head)
    for (int64_t i = 0; i < shape.segments; ++i) all.push_back(taken(session.plan(layer, i, head)));
  for (const Field& field : kFields) {
    std::vector<double> values;
    for (const EiHeadPlan& one : all) values.push_back(one.*field.value);
    plan[field.name] = array_of(std::move(values), {heads, segments});
  }
  std::vector<int64_t> read;
  std::vector<int64_t> numbers;
  std::vector<uint8_t> dense;
  nb::list blocks;
  for (size_t i = 0; i < segments; ++i) {  // the same of every kv_head
    numbers.push_back(all[i].segment);
    dense.push_back(all[i].dense != 0 ? 1 : 0);
  }
  for (size_t head = 0; head < heads; ++head) {
    nb::list of_head;
    for (size_t i = 0; i < segments; ++i) {
      const EiHeadPlan& one = all[head * segments + i];
      read.push_back(one.read);
      of_head.append(array_of(std::vector<int32_t>(one.blocks, one.blocks + one.num_blocks), {one.num_blocks}));
    }
    blocks.append(of_head);
  }
  plan["read"] = array_of(std::move(read), {heads, segments});
  plan["segment"] = array_of(std::move(numbers), {segments});
  plan["dense"] = array_of(std::move(dense), {segments});
  plan["blocks"] = blocks;
  plan["segment_tokens"] = shape.segment_tokens;
  plan["block_tokens"] = shape.block_tokens;
  return plan;
}
}  // namespace

void bind_plans(nb::class_<Session>& session) {
  session.def("layer_plan", &layer_plan, nb::arg("layer"), nb::arg("kv_heads"));
}

}  // namespace ei_python
