#include "report/inspection.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "policy/head_habits.h"
#include "report/block_map.h"
#include "report/compact.h"
#include "text/utf8.h"

namespace ei::report {

namespace {
using Json = nlohmann::ordered_json;
using policy::PrefillOptions;
using sparse::LayerTrace;

// Four digits are more than a curve can show, and short to write.
Json rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::isfinite(value) ? Json(std::strtod(text, nullptr)) : Json(nullptr);
}

Json prefill_json(const PrefillOptions& options) {
  return {{"budget-rule", options.rule == policy::PrefillRule::kFixed ? "fixed" : "entropy"},
          {"segment", options.segment},
          {"block", options.block},
          {"threshold", options.threshold},
          {"base-budget", options.base_budget},
          {"min-budget", options.min_budget > 0 ? options.min_budget : options.base_budget},
          {"max-factor", options.max_factor},
          {"e-t", options.e_t},
          {"delta-t", options.delta_t},
          {"alpha", options.alpha},
          {"layer-skip", options.layer_skip},
          {"early-share", options.early_share},
          {"layer-fusion", options.layer_fusion},
          {"logit-scale", policy::logit_scale_name(options.logit_scale)},
          {"last-dense", options.last_dense},
          {"sparse-mode", policy::sparse_mode_name(options.mode)},
          {"select", policy::block_rank_name(options.select)},
          {"asking", policy::asking_name(options.asking)},
          {"local-budget", options.local_budget},
          {"resting-share", options.resting_share},
          {"wide-share", options.wide_share},
          {"rated-share", options.rated_share}};
}

Json kv_json(const policy::KvOptions& options) {
  if (options.rule == policy::KvRule::kKeepAll) return {{"kv-policy", "full"}};
  return {{"kv-policy", "latent"},
          {"kv-budget", options.budget},
          {"kv-share", policy::kv_share_name(options.share)},
          {"kv-gap", options.gap},
          {"kv-window", options.window},
          {"kv-repeat", options.repeat},
          {"kv-pooling", options.pooling == policy::Pooling::kMax ? "max" : "average"},
          {"kv-kernel", options.kernel},
          {"kv-aggregate", options.aggregate == policy::GroupAggregate::kMax ? "max" : "mean"}};
}

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

// What the plan of one kv_head was, segment by segment. `lists` of the trace are [segments, kv_heads].
void add_plan(const PrefillOptions& options, const LayerTrace& trace, std::span<const uint8_t> rigid, size_t kv_head,
              const MapShape& shape, Json& head) {
  const size_t heads = trace.segments.empty() ? 0 : trace.entropy.size() / trace.segments.size();
  Json entropy = Json::array();
  Json budget = Json::array();
  Json read = Json::array();
  std::string classes;
  std::string kinds;
  BlockMap map(shape);
  for (size_t i = 0; i < trace.segments.size(); ++i) {
    const size_t list = i * heads + kv_head;
    const std::vector<int32_t>& blocks = trace.blocks[list];
    const int64_t before = int64_t{trace.segments[i]} * options.segment;
    entropy.push_back(rounded(trace.entropy[list]));
    budget.push_back(rounded(trace.tokens[list]));
    read.push_back(trace.dense[i] != 0 ? before : static_cast<int64_t>(blocks.size()) * options.block);
    classes += rigid[list] != 0 ? 'r' : 'd';
    kinds += policy::head_kind_name(trace.kinds[list])[0];
    map.add(trace.segments[i], blocks);
  }
  head["entropy"] = std::move(entropy);
  head["budget"] = std::move(budget);
  head["read"] = std::move(read);
  head["class"] = classes;
  head["kind"] = kinds;
  if (!trace.segments.empty()) {
    const policy::HeadHabit& habit = trace.habits[trace.habits.size() - heads + kv_head];
    head["habit"] = {{"first", rounded(habit.first)}, {"far", rounded(habit.far)}, {"probes", habit.probes}};
  }
  head["map"] = base64(level_runs(map.levels()));
}

Json layer_json(const Session& session, int layer, const MapShape& shape) {
  const KvView view = session.store().view(layer);
  const sparse::Planner* planner = session.planner();
  const bool planned = planner != nullptr && planner->plans(layer) && !planner->trace(layer).segments.empty();
  Json object = {{"window", session.engine().config().per_layer[static_cast<size_t>(layer)].window},
                 {"planned", planned}};
  std::vector<uint8_t> rigid;
  if (planned) {
    const LayerTrace& trace = planner->trace(layer);
    rigid = rigid_by_segment(planner->options(), trace);
    std::string dense;
    for (const uint8_t one : trace.dense) dense += one != 0 ? '1' : '0';
    object["dense"] = dense;
  }
  object["heads"] = Json::array();
  for (size_t h = 0; h < view.heads.size(); ++h) {
    Json head = {{"slots", view.heads[h].length}, {"kept", base64(position_runs(view.heads[h]))}};
    if (planned) add_plan(planner->options(), planner->trace(layer), rigid, h, shape, head);
    object["heads"].push_back(std::move(head));
  }
  return object;
}
}  // namespace

std::vector<uint8_t> rigid_by_segment(const PrefillOptions& options, const LayerTrace& trace) {
  // The released rule classes a head once, and a fixed budget never does.
  if (trace.segments.empty() || options.rule != policy::PrefillRule::kEntropy ||
      options.rigid_test == policy::RigidTest::kWholeTrace)
    return trace.rigid;
  const size_t heads = trace.entropy.size() / trace.segments.size();
  const auto threshold = static_cast<float>(options.e_t);
  std::vector<uint8_t> rigid(trace.entropy.size());
  for (size_t list = 0; list < rigid.size(); ++list) {
    const bool before = list < heads || rigid[list - heads] != 0;
    const bool stays = trace.segments[list / heads] == 0 || !(trace.entropy[list] >= threshold);
    rigid[list] = before && stays ? 1 : 0;
  }
  return rigid;
}

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
