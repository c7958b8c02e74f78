#include "report/plan_file.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/engine.h"
#include "report/layer_plan.h"
#include "report/options_json.h"

namespace ei::report {

namespace {
using Json = nlohmann::ordered_json;
using LayerValue = std::function<Json(const LayerPlan&)>;
using HeadValue = std::function<Json(const HeadPlan&)>;

// A model path may be anything.
std::string text_of(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Status put_about(const PlanInput& input, ReportFile& file) {
  const model::Config& config = input.session.engine().config();
  Json options = Json::object();
  if (const sparse::Planner* planner = input.session.planner()) options = prefill_json(planner->options());
  options.update(kv_json(input.kv));
  const Json about = {
      {"model", input.session.engine().file().path()}, {"method", input.method},  {"options", options},
      {"prompt_tokens", input.prompt_tokens},          {"layers", config.layers}, {"kv_heads", config.kv_heads},
      {"density", input.session.stats().density()}};
  const std::string text = text_of(about);
  return file.put(text.substr(0, text.size() - 1));  // the lists follow
}

// A list with one line per layer: what the layer has, or [] where it read everything.
Status put_list(const PlanInput& input, const char* name, const LayerValue& value, ReportFile& file) {
  EI_RETURN_IF_ERROR(file.put(",\n\"" + std::string(name) + "\": ["));
  for (int layer = 0; layer < input.session.engine().config().layers; ++layer) {
    const std::optional<LayerPlan> plan = layer_plan(input.session, layer);
    EI_RETURN_IF_ERROR(file.put((layer > 0 ? ",\n" : "\n") + text_of(plan ? value(*plan) : Json::array())));
  }
  return file.put("]");
}

LayerValue by_segment(const std::function<Json(const LayerPlan&, size_t)>& value) {
  return [value](const LayerPlan& plan) {
    Json list = Json::array();
    for (size_t i = 0; i < plan.segments(); ++i) list.push_back(value(plan, i));
    return list;
  };
}

LayerValue by_head(const HeadValue& value) {
  return [value](const LayerPlan& plan) {
    Json list = Json::array();
    for (size_t h = 0; h < plan.kv_heads(); ++h) {
      Json segments = Json::array();
      for (size_t i = 0; i < plan.segments(); ++i) segments.push_back(value(plan.head(i, h)));
      list.push_back(std::move(segments));
    }
    return list;
  };
}
}  // namespace

Status put_plan(const PlanInput& input, ReportFile& file) {
  const sparse::Planner* planner = input.session.planner();
  const int64_t block = planner != nullptr ? planner->options().block : 1;
  const std::pair<const char*, LayerValue> lists[] = {
      {"segments", by_segment([](const LayerPlan& plan, size_t i) { return Json(plan.segment(i)); })},
      {"dense", by_segment([](const LayerPlan& plan, size_t i) { return Json(plan.dense(i)); })},
      {"entropies", by_head([](const HeadPlan& head) { return rounded(head.entropy, 7); })},
      {"classes", by_head([](const HeadPlan& head) { return Json(head.rigid ? "rigid" : "dynamic"); })},
      {"row_entropies", by_head([](const HeadPlan& head) { return rounded(head.row_entropy, 7); })},
      {"far", by_head([](const HeadPlan& head) { return rounded(head.far, 7); })},
      {"sink", by_head([](const HeadPlan& head) { return rounded(head.sink, 7); })},
      {"types", by_head([](const HeadPlan& head) { return Json(policy::head_type_name(head.type)); })},
      {"budgets", by_head([](const HeadPlan& head) { return rounded(head.budget, 7); })},
      {"counts", by_head([block](const HeadPlan& head) { return Json(head.read / block); })},
      {"blocks", by_head([](const HeadPlan& head) {
         return Json(std::vector<int32_t>(head.blocks.begin(), head.blocks.end()));
       })},
  };
  EI_RETURN_IF_ERROR(put_about(input, file));
  for (const auto& [name, value] : lists) EI_RETURN_IF_ERROR(put_list(input, name, value, file));
  return file.put("}\n");
}

}  // namespace ei::report
