// The model, its text and its tokens.
#include <string_view>
#include <vector>

#include "api/calls.h"
#include "api/handles.h"
#include "base/cores.h"
#include "engine/prompt.h"
#include "policy/registry.h"
#include "text/chat_template.h"

using namespace ei;       // NOLINT: the functions of a C interface have no namespace
using namespace ei::api;  // NOLINT

EiStatus ei_engine_load(const EiEngineOptions* options, EiEngine** engine) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(engine, "engine"));
    EI_ASSIGN_OR_RETURN(const EiEngineOptions given, read_struct(options, "EiEngineOptions"));
    EI_RETURN_IF_ERROR(need(given.model, "EiEngineOptions.model"));
    if (given.threads < 0) return make_error(ErrorKind::kUsage, "%d threads: 0 takes all cores", given.threads);
    EngineOptions own;
    own.model_path = given.model;
    if (given.device != nullptr) own.backend = given.device;
    // More would wait for each other by spinning.
    own.backend_options.threads = std::min(given.threads, static_cast<int32_t>(usable_cores()));
    EI_ASSIGN_OR_RETURN(std::shared_ptr<const Engine> loaded, Engine::load(own));
    *engine = new EiEngine{std::move(loaded)};
    return {};
  });
}

void ei_engine_free(EiEngine* engine) { delete engine; }

EiStatus ei_engine_info(EiEngine* engine, EiModelInfo* info) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(engine, "engine"));
    const model::Config& config = engine->engine->config();
    EiModelInfo own{};
    own.architecture = config.arch.c_str();
    own.name = config.name.c_str();
    own.layers = config.layers;
    own.heads = config.heads;
    own.kv_heads = config.kv_heads;
    own.head_dim = config.head_dim;
    own.vocab = config.vocab;
    own.context = config.context;
    own.weight_bytes = engine->engine->weight_bytes();
    own.has_chat_template = has_template("", engine->engine->tokenizer()) ? 1 : 0;
    return write_struct(own, info, "EiModelInfo");
  });
}

namespace {
// Of a list of entries that have a name and a summary. Both are literals, so they end with a zero.
template <typename Entries>
const char* name_at(const Entries& entries, size_t index, const char** summary) {
  if (index >= entries.size()) return nullptr;
  if (summary != nullptr) *summary = entries[index].summary.data();
  return entries[index].name.data();
}
}  // namespace

const char* ei_device(size_t index, const char** summary) { return name_at(backends(), index, summary); }
const char* ei_method(size_t index, const char** summary) { return name_at(policy::methods(), index, summary); }

EiStatus ei_tokenize(EiEngine* engine, const char* text, size_t bytes, int flags, int32_t* tokens, size_t capacity,
                     size_t* count) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(engine, "engine"));
    EI_ASSIGN_OR_RETURN(const std::span<const char> given, read_list(text, bytes, "text"));
    EI_ASSIGN_OR_RETURN(const std::vector<int32_t> made,
                        engine->engine->tokenizer().tokenize({given.data(), given.size()},
                                                             {.add_bos_eos = (flags & EI_ADD_BOS_EOS) != 0,
                                                              .parse_special = (flags & EI_PARSE_SPECIAL) != 0}));
    return write_list(std::span<const int32_t>(made), tokens, capacity, count);
  });
}

EiStatus ei_detokenize(EiEngine* engine, const int32_t* tokens, size_t num_tokens, int flags, char* text,
                       size_t capacity, size_t* count) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(engine, "engine"));
    EI_ASSIGN_OR_RETURN(const std::span<const int32_t> given, read_list(tokens, num_tokens, "tokens"));
    const std::string made = engine->engine->tokenizer().detokenize(given, (flags & EI_PARSE_SPECIAL) != 0);
    return write_list(std::span<const char>(made), text, capacity, count);
  });
}

EiStatus ei_chat_tokens(EiEngine* engine, const EiMessage* messages, size_t num_messages, const char* chat_template,
                        int32_t* tokens, size_t capacity, size_t* count) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(engine, "engine"));
    EI_ASSIGN_OR_RETURN(const std::span<const EiMessage> given, read_list(messages, num_messages, "messages"));
    std::vector<text::Message> own;
    for (const EiMessage& message : given) {
      EI_RETURN_IF_ERROR(need(message.role, "EiMessage.role"));
      EI_RETURN_IF_ERROR(need(message.content, "EiMessage.content"));
      if (!text::valid_utf8(message.content)) return Error{ErrorKind::kUsage, "a message is not valid UTF-8"};
      own.push_back({.role = message.role, .content = message.content});
    }
    const text::Tokenizer& tokenizer = engine->engine->tokenizer();
    EI_ASSIGN_OR_RETURN(const text::ChatTemplate chat,
                        choose_template(chat_template == nullptr ? "" : chat_template, tokenizer));
    EI_ASSIGN_OR_RETURN(const std::vector<int32_t> made, chat.apply(own, tokenizer, /*add_generation_prompt=*/true));
    return write_list(std::span<const int32_t>(made), tokens, capacity, count);
  });
}
