// /tokenize, /detokenize, /apply-template, /tokenizer_info: text to tokens and back.
#include "server/api/api.h"
#include "text/utf8.h"

namespace ei::server {

namespace {
std::optional<ApiError> check_count(const char* name, size_t tokens, int64_t most, const char* cure) {
  if (static_cast<int64_t>(tokens) <= most) return std::nullopt;
  return invalid_field(
      name, str_format("has %zu tokens: an answer may have %lld%s", tokens, static_cast<long long>(most), cure));
}

Json piece_json(const text::Tokenizer& tokenizer, int32_t token) {
  std::string piece = tokenizer.piece(token, /*special=*/true);
  if (text::valid_utf8(piece)) return piece;
  Json bytes = Json::array();  // part of a character
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}
}  // namespace

// Two shapes: llama.cpp's {"content"} and vLLM's {"prompt"}.
void route_tokenize(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  Fields fields(body.json);
  const text::Tokenizer& tokenizer = call.api.tokenizer();
  const bool vllm = fields.has("prompt") && !fields.has("content");
  const char* name = vllm ? "prompt" : "content";
  const std::string text = fields.text(name);
  const bool special = fields.flag("parse_special", true);
  const bool ends = vllm ? fields.flag("add_special_tokens", true) : fields.flag("add_special", false);
  const bool pieces = fields.flag(vllm ? "return_token_strs" : "with_pieces", false);
  if (fields.error()) return call.refuse(*fields.error());
  const Result<std::vector<int32_t>> tokens = tokenizer.tokenize(text, {.add_bos_eos = ends, .parse_special = special});
  if (!tokens.ok()) return call.refuse(from_engine(tokens.error()));
  const ParamLimits& limits = call.api.options.limits;
  const std::optional<ApiError> too_many =
      pieces ? check_count(name, tokens->size(), limits.most_pieces, " with their pieces: ask without, or in parts")
             : check_count(name, tokens->size(), limits.most_tokens, ": ask in parts");
  if (too_many) return call.refuse(*too_many);
  Json list = Json::array();
  for (const int32_t token : *tokens)
    list.push_back(pieces && !vllm ? Json{{"id", token}, {"piece", piece_json(tokenizer, token)}} : Json(token));
  Json json = {{"tokens", std::move(list)}};
  if (vllm) {
    json["count"] = tokens->size();
    json["max_model_len"] = call.api.context();
    json["token_strs"] = nullptr;
    if (pieces) {
      json["token_strs"] = Json::array();
      for (const int32_t token : *tokens) json["token_strs"].push_back(tokenizer.piece(token, /*special=*/true));
    }
  }
  call.send(json);
}

void route_detokenize(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  Fields fields(body.json);
  const Json* given = fields.find("tokens");
  std::vector<int32_t> tokens;
  if (given == nullptr || !given->is_array()) return call.refuse(invalid_field("tokens", "must be a list of tokens"));
  if (const auto error = check_count("tokens", given->size(), call.api.options.limits.most_pieces, ": ask in parts"))
    return call.refuse(*error);
  for (const Json& token : *given) {
    const int64_t id = token.is_number_integer() ? token.get<int64_t>() : -1;
    if (id < 0 || id >= call.api.tokenizer().vocab_size())
      return call.refuse(invalid_field("tokens", "must be tokens of the vocabulary"));
    tokens.push_back(static_cast<int32_t>(id));
  }
  const std::string text = call.api.tokenizer().detokenize(tokens, /*special=*/true);
  call.send(Json{{"content", text}, {"prompt", text}});
}

void route_tokenizer_info(const Call& call) {
  const text::Tokenizer& tokenizer = call.api.tokenizer();
  const auto spelled = [&](int32_t token) {
    return token == text::kNoToken ? Json(nullptr) : Json(tokenizer.piece(token, /*special=*/true));
  };
  call.send(Json{{"tokenizer_class", "entropyinfer"},
                 {"bos_token", spelled(tokenizer.bos())},
                 {"eos_token", spelled(tokenizer.eos())},
                 {"pad_token", spelled(tokenizer.pad())},
                 {"add_bos_token", tokenizer.adds_bos()},
                 {"add_eos_token", tokenizer.adds_eos()},
                 {"vocab_size", tokenizer.vocab_size()},
                 {"model_max_length", call.api.context()},
                 {"chat_template", call.api.chat ? call.api.chat->source() : ""}});
}

void route_apply_template(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  Fields fields(body.json);
  const ChatPrompt prompt = read_chat(fields, call, ChatUse::kText);
  if (fields.error()) return call.refuse(*fields.error());
  call.send(Json{{"prompt", prompt.text}});
}

}  // namespace ei::server
