#include "report/inspection.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/engine.h"
#include "report/block_map.h"
#include "report/compact.h"
#include "report/layer_plan.h"
#include "report/options_json.h"
#include "text/utf8.h"

namespace ei::report {

namespace {
using Json = nlohmann::ordered_json;
using policy::PrefillOptions;

// One text per token; a character that several tokens share stands in the last of them.
Json pieces_json(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  Json pieces = Json::array();
  std::string pending;
  for (const int32_t token : tokens) {
    pending += tokenizer.piece(token, /*special=*/true);
    pieces.push_back(text::take_complete_utf8(pending));
  }
  return pieces;
}

// What the plan of one kv_head was, segment by segment.
void add_plan(const LayerPlan& plan, size_t kv_head, const MapShape& shape, Json& head) {
  Json entropy = Json::array();
  Json budget = Json::array();
  Json read = Json::array();
  std::string classes;
  std::string types;
  BlockMap map(shape);
  for (size_t i = 0; i < plan.segments(); ++i) {
    const HeadPlan one = plan.head(i, kv_head);
    entropy.push_back(rounded(one.entropy));
    budget.push_back(rounded(one.budget));
    read.push_back(one.read);
    classes += one.rigid ? 'r' : 'd';
    types += policy::head_type_name(one.type)[0];
    map.add(plan.segment(i), one.blocks);
  }
  head["entropy"] = std::move(entropy);
  head["budget"] = std::move(budget);
  head["read"] = std::move(read);
  head["class"] = classes;
  head["type"] = types;
  const HeadPlan last = plan.head(plan.segments() - 1, kv_head);
  head["attention"] = {{"sink", rounded(last.sink)},
                       {"far", rounded(last.far)},
                       {"segment", rounded(std::exp(last.entropy))},
                       {"row", rounded(std::exp(last.row_entropy))},
                       {"samples", plan.samples(kv_head)}};
  head["map"] = base64(level_runs(map.levels()));
}

Json layer_json(const Session& session, int layer, const MapShape& shape) {
  const KvView view = session.store().view(layer);
  const std::optional<LayerPlan> plan = layer_plan(session, layer);
  Json object = {{"window", session.engine().config().per_layer[static_cast<size_t>(layer)].window},
                 {"planned", plan.has_value()}};
  if (plan) {
    std::string dense;
    for (size_t i = 0; i < plan->segments(); ++i) dense += plan->dense(i) ? '1' : '0';
    object["dense"] = dense;
  }
  object["heads"] = Json::array();
  for (size_t h = 0; h < view.heads.size(); ++h) {
    Json head = {{"slots", view.heads[h].length}, {"kept", base64(position_runs(view.heads[h]))}};
    if (plan) add_plan(*plan, h, shape, head);
    object["heads"].push_back(std::move(head));
  }
  return object;
}
}  // namespace

std::string inspection_json(const InspectionInput& input) {
  const Session& session = input.session;
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  const model::Config& config = session.engine().config();
  const auto generated = input.tokens.subspan(static_cast<size_t>(input.prompt_tokens));
  const auto end = std::find_if(generated.begin(), generated.end(),
                                [&](int32_t token) { return tokenizer.is_end_of_generation(token); });
  Json object;
  object["run"] = Json::parse(input.run);
  object["model"] = {{"name", config.name},   {"arch", config.arch},         {"layers", config.layers},
                     {"heads", config.heads}, {"kv_heads", config.kv_heads}, {"head_dim", config.head_dim}};
  object["tokens"] = {{"prompt", input.prompt_tokens},
                      {"held", session.position()},
                      {"answer", end - generated.begin()},  // in front of the first end token
                      {"generated", generated.size()}};
  object["options"] = kv_json(input.kv);
  MapShape shape;
  if (const sparse::Planner* planner = session.planner()) {
    const PrefillOptions& options = planner->options();
    Json all = prefill_json(options);
    all.update(object["options"]);
    object["options"] = std::move(all);
    const int64_t segments = (input.prompt_tokens + options.segment - 1) / options.segment;
    shape = choose_map_shape(segments, segments * options.grid().blocks_per_segment(),
                             int64_t{config.layers} * config.kv_heads);
    object["map"] = {
        {"segments", shape.segments}, {"blocks", shape.blocks}, {"rows", shape.rows}, {"cols", shape.cols}};
  }
  object["layers"] = Json::array();
  for (int layer = 0; layer < config.layers; ++layer) object["layers"].push_back(layer_json(session, layer, shape));
  object["pieces"] = pieces_json(tokenizer, input.tokens);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ei::report
