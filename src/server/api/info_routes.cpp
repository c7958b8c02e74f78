// /v1/models, /props, /version, /slots: what this server is and does.
#include "policy/registry.h"
#include "server/api/api.h"

namespace ei::server {

namespace {
Json methods_json() {
  Json list = Json::array();
  for (const policy::Method& method : policy::methods())
    list.push_back({{"name", method.name}, {"summary", method.summary}});
  return list;
}

// What is held for all slots together, in memory and on disk.
Json cache_json(const Scheduler& scheduler) {
  const Totals totals = scheduler.totals();
  return {{"texts", totals.cache_texts},
          {"tokens", totals.cache_tokens},
          {"bytes", totals.cache_bytes},
          {"most_bytes", scheduler.options().cache_bytes},
          {"disk_texts", totals.disk.texts},
          {"disk_bytes", totals.disk.bytes},
          {"disk_most_bytes", scheduler.most_disk_bytes()},
          {"disk_waiting", totals.disk.waiting},
          {"disk_waiting_bytes", totals.disk.waiting_bytes}};
}
}  // namespace

void route_models(const Call& call) {
  const Api& api = call.api;
  const model::Config& config = api.engine.config();
  const Json model = {{"id", api.model_name()},
                      {"aliases", api.options.names},
                      {"tags", api.options.tags},
                      {"object", "model"},
                      {"created", api.started},
                      {"owned_by", "entropyinfer"},
                      {"max_model_len", api.context()},
                      {"meta",
                       {{"n_vocab", config.vocab},
                        {"n_ctx", api.context()},
                        {"n_ctx_train", config.context},
                        {"n_embd", config.width},
                        {"size", api.engine.file().bytes()}}}};
  call.send(Json{{"object", "list"}, {"data", Json::array({model})}});
}

void route_props(const Call& call) {
  const Api& api = call.api;
  const text::Tokenizer& tokenizer = api.tokenizer();
  const auto spelled = [&](int32_t token) { return tokenizer.piece(token, /*special=*/true); };
  call.send(Json{{"default_generation_settings",
                  {{"n_ctx", api.context()}, {"params", settings_json(api.options.limits.defaults, tokenizer)}}},
                 {"total_slots", api.scheduler.options().slots},
                 {"model_alias", api.model_name()},
                 {"model_path", tokenizer.path()},
                 {"modalities", {{"vision", false}, {"audio", false}}},
                 {"endpoint_slots", api.options.slots},
                 {"endpoint_metrics", api.options.metrics},
                 {"chat_template", api.chat ? api.chat->source() : ""},
                 {"has_chat_template", api.chat.has_value()},
                 {"method", api.options.limits.defaults.method.method},
                 {"request_methods", api.options.limits.request_methods},
                 {"methods", methods_json()},
                 {"bos_token", spelled(tokenizer.bos())},
                 {"eos_token", spelled(tokenizer.eos())},
                 {"build_info", "b" + api.options.version + "-" + api.options.commit}});
}

void route_version(const Call& call) {
  const ServerOptions& options = call.api.options;
  call.send(Json{{"name", "entropyinfer"}, {"version", options.version}, {"commit", options.commit}});
}

void route_slots(const Call& call) {
  const Api& api = call.api;
  if (!api.options.slots) return call.refuse(not_supported("start the server without --no-slots to see its slots"));
  const std::vector<SlotFigures> slots = api.scheduler.slots();
  const Json cache = cache_json(api.scheduler);
  Json list = Json::array();
  bool all_busy = true;
  for (const SlotFigures& slot : slots) {
    const TaskReport& report = slot.report;
    all_busy = all_busy && slot.processing;
    const int64_t left = slot.processing && slot.max_tokens >= 0 ? slot.max_tokens - report.generated_tokens : -1;
    Json json = {{"id", slot.id},
                 {"id_task", slot.task == 0 ? Json(-1) : Json(slot.task)},
                 {"n_ctx", api.context()},
                 {"is_processing", slot.processing},
                 {"is_reading", slot.reading},
                 {"n_held", slot.held_tokens},
                 {"held_bytes", slot.held_bytes},
                 {"cache", cache}};
    if (slot.processing) {
      json["n_prompt_tokens"] = report.prompt_tokens;
      json["n_prompt_tokens_processed"] = report.cached_tokens + report.read_tokens;
      json["n_prompt_tokens_cache"] = report.cached_tokens;
      json["timings"] = timings_json(report);
    }
    json["next_token"] = Json::array({{{"has_next_token", slot.processing},
                                       {"n_remain", left},
                                       {"n_decoded", slot.processing ? report.generated_tokens : 0}}});
    list.push_back(std::move(json));
  }
  if (all_busy && !call.request.argument("fail_on_no_slot").empty())
    return call.refuse(unavailable("no slot available"));
  call.send(list);
}

}  // namespace ei::server
