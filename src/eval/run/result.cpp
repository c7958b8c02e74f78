#include "eval/run/result.h"

#include <nlohmann/json.hpp>

namespace ei::eval {

std::string result_line(const ItemResult& r) {
  nlohmann::ordered_json object = {{"item", r.item},
                                   {"task", r.task},
                                   {"length", r.length},
                                   {"index", r.index},
                                   {"depth", r.depth},
                                   {"method", r.method},
                                   {"item_hash", r.item_hash},
                                   {"options", r.options},
                                   {"score", r.score},
                                   {"turn_scores", r.turn_scores},
                                   {"predictions", r.predictions},
                                   {"answers", r.answers},
                                   {"prompt_tokens", r.prompt_tokens},
                                   {"generated_tokens", r.generated_tokens},
                                   {"truncated", r.truncated},
                                   {"acted", r.acted.any()},
                                   {"prefill_acted", r.acted.prefill},
                                   {"kv_acted", r.acted.kv},
                                   {"prefill_idle", r.acted.prefill_idle},
                                   {"kv_idle", r.acted.kv_idle},
                                   {"density", r.density},
                                   {"kv_bytes", r.kv_bytes},
                                   {"kv_bytes_full", r.kv_bytes_full},
                                   {"kv_bytes_peak", r.kv_bytes_peak},
                                   {"kv_kept", r.kv_kept},
                                   {"compressions", r.compressions},
                                   {"compressed_tokens", r.compressed_tokens},
                                   {"prompt_s", r.prompt_s},
                                   {"decode_s", r.decode_s},
                                   {"compress_s", r.compress_s}};
  if (r.likelihood) object["likelihood"] = *r.likelihood;
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<ItemResult> parse_result(const std::string& line) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return Error{ErrorKind::kRuntime, "not a line of results"};
  ItemResult r;
  try {
    object.at("item").get_to(r.item);
    object.at("task").get_to(r.task);
    object.at("length").get_to(r.length);
    object.at("index").get_to(r.index);
    object.at("depth").get_to(r.depth);
    object.at("method").get_to(r.method);
    object.at("score").get_to(r.score);
    object.at("turn_scores").get_to(r.turn_scores);
    object.at("predictions").get_to(r.predictions);
    object.at("answers").get_to(r.answers);
    object.at("prompt_tokens").get_to(r.prompt_tokens);
    object.at("generated_tokens").get_to(r.generated_tokens);
    object.at("truncated").get_to(r.truncated);
    object.at("density").get_to(r.density);
    object.at("kv_bytes").get_to(r.kv_bytes);
    object.at("kv_bytes_full").get_to(r.kv_bytes_full);
    object.at("kv_kept").get_to(r.kv_kept);
    object.at("compressions").get_to(r.compressions);
    object.at("compressed_tokens").get_to(r.compressed_tokens);
    object.at("prompt_s").get_to(r.prompt_s);
    object.at("decode_s").get_to(r.decode_s);
    r.item_hash = object.value("item_hash", "");                         // files of earlier versions have none,
    r.options = object.value("options", "");                             // nor this,
    r.compress_s = object.value("compress_s", 0.0);                      // nor this,
    r.kv_bytes_peak = object.value("kv_bytes_peak", int64_t{0});         // nor this
    r.acted = {.prefill = object.value("prefill_acted", r.density < 1),  // nor these
               .kv = object.value("kv_acted", r.compressions > 0),
               .prefill_idle = object.value("prefill_idle", ""),
               .kv_idle = object.value("kv_idle", "")};
    if (object.contains("likelihood")) r.likelihood = object["likelihood"].get<double>();
  } catch (const nlohmann::json::exception& error) {
    return make_error(ErrorKind::kRuntime, "not a line of results: %s", error.what());
  }
  return r;
}

}  // namespace ei::eval
