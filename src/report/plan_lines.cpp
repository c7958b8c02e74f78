#include "report/plan_lines.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "report/layer_plan.h"
#include "report/options_json.h"

namespace ei::report {

namespace {
using Json = nlohmann::ordered_json;

std::vector<int> planned_layers(const Session& session) {
  std::vector<int> layers;
  for (int layer = 0; layer < session.engine().config().layers; ++layer)
    if (layer_plan(session, layer)) layers.push_back(layer);
  return layers;
}

Json run_line(const PlanInput& input) {
  const model::Config& config = input.session.engine().config();
  Json options = Json::object();
  if (const sparse::Planner* planner = input.session.planner()) options = prefill_json(planner->options());
  options.update(kv_json(input.kv));
  return {{"model", input.session.engine().file().path()},
          {"method", input.method},
          {"options", options},
          {"prompt_tokens", input.prompt_tokens},
          {"layers", config.layers},
          {"kv_heads", config.kv_heads},
          {"planned_layers", planned_layers(input.session)},
          {"density", input.session.stats().density()}};
}

// Lists have one entry per kv_head. Blocks are counted from the beginning of the text.
Json segment_line(const LayerPlan& plan, int layer, size_t i, const policy::PrefillOptions& options) {
  Json line = {{"layer", layer},
               {"segment", plan.segment(i)},
               {"first", plan.segment(i) * options.segment},  // its first token
               {"dense", plan.dense(i)}};
  for (const char* list : {"entropy", "class", "kind", "budget", "count"}) line[list] = Json::array();
  if (!plan.dense(i)) line["blocks"] = Json::array();
  for (size_t h = 0; h < plan.kv_heads(); ++h) {
    const HeadPlan head = plan.head(i, h);
    line["entropy"].push_back(rounded(head.entropy));
    line["class"].push_back(head.rigid ? "rigid" : "dynamic");
    line["kind"].push_back(policy::head_kind_name(head.kind));
    line["budget"].push_back(rounded(head.budget));
    line["count"].push_back(head.read / options.block);
    if (!plan.dense(i)) line["blocks"].push_back(std::vector<int32_t>(head.blocks.begin(), head.blocks.end()));
  }
  return line;
}
}  // namespace

Status put_plan(const PlanInput& input, ReportFile& file) {
  // A model path may be anything.
  EI_RETURN_IF_ERROR(file.put(run_line(input).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"));
  for (const int layer : planned_layers(input.session)) {
    const std::optional<LayerPlan> plan = layer_plan(input.session, layer);
    for (size_t i = 0; i < plan->segments(); ++i)
      EI_RETURN_IF_ERROR(file.put(segment_line(*plan, layer, i, input.session.planner()->options()).dump() + "\n"));
  }
  return {};
}

}  // namespace ei::report
